#!/bin/sh
# Many read a tree of files at a time, on any host, and whoever puts a new release there is alone with it.
#
#     release.sh read COMMAND...      runs COMMAND beside others that read; it sees one release from its start to its end
#     release.sh put SOURCE TARGET    waits until nobody reads, keeps new readers waiting meanwhile, and replaces TARGET
#
# TARGET carries the fence of its release: a run that was paused until a later one was there finds a higher one and changes nothing.
set -eu
case ${1-} in
read)
    shift
    exec holdfast run --shared site/files -- "$@"
    ;;
put)
    exec holdfast run --exclusive --note "release of $2" site/files -- sh -eu -c '
        last=$(cat "$2/.fence" 2>/dev/null || echo 0)
        test "$HOLDFAST_FENCE" -gt "$last" || { echo "a later release is there: $last" >&2; exit 1; }
        mkdir -p "$2"
        echo "$HOLDFAST_FENCE" >"$2/.fence"
        cp -R "$1/." "$2/"' sh "$2" "$3"
    ;;
*)
    echo "usage: release.sh read COMMAND... | put SOURCE TARGET" >&2
    exit 64
    ;;
esac
