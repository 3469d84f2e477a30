#!/bin/sh
# Counted workers: of all the workers on all hosts three work at a time, because there are three licences (GPUs, ports, ...).
# Each knows which one is its own.
#
#     workers.sh COMMAND FILE...       runs COMMAND FILE for each file, three of them at a time over all hosts
#
# Everybody has to say the same number: whoever says 4 gets a fourth.
set -eu
command=$1
shift
for file in "$@"; do
    holdfast run --slots 3 --note "$file" licence -- \
        sh -c 'echo "licence $HOLDFAST_SLOT of $HOLDFAST_SLOTS: $2"; LICENCE=$HOLDFAST_SLOT exec "$1" "$2"' sh "$command" "$file" &
done
wait
