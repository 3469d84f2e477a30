#!/bin/sh
# Which cell has a lock? Prints the agent to ask: holdfast run --agent "$(cell_of.sh NAME)" NAME COMMAND...
# The cells are in HOLDFAST_CELLS, the same ones on every host. Each gets a number from its own name and the lock's, and the highest one has
# the lock (rendezvous hashing): a new cell takes names from the others, and no name moves between those.
set -eu

name=${1:?give the name of a lock}
cells=${HOLDFAST_CELLS:?name the cells, such as cell1 cell2}
for cell in $cells; do
    printf '%s %s\n' "$(printf '%s %s' "$cell" "$name" | sha1sum | cut -c1-40)" "$cell"
done | LC_ALL=C sort | sed -n '$s/.* //p'
