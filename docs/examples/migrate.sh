#!/bin/sh
# Runs each migration of a directory once, in order, whatever number of hosts start this at the same time.
#
#     migrate.sh STORE DIRECTORY
#
# Two things make it "once": the lock, so that two never run at the same time, and the record of what is done, so that the
# one who comes later finds nothing to do. The record is written with the fence of the lock (fenced_store.py), so that a
# process that was paused for longer than its lock lived cannot write it over a later one's.
set -eu
lock=migrate/app
store=$1 directory=$2
here=$(dirname "$0")

# The first time we come here without the lock: come again with it. Those who wait give up after ten minutes.
if [ "${HOLDFAST_NAME:-}" != "$lock" ]; then
    exec holdfast run -w 10m --note "migrations of $directory" "$lock" -- "$0" "$@"
fi

for migration in "$directory"/*; do
    name=$(basename "$migration")
    if "$here/fenced_store.py" "$store" get "done/$name" >/dev/null; then
        continue
    fi
    echo "running $name"
    sh -e "$migration"
    "$here/fenced_store.py" "$store" put "done/$name" "by $(hostname) with fence $HOLDFAST_FENCE"
done
