#!/usr/bin/env bash
# The gcc stage of tests/run in a chroot of a newer Debian, where hiredis is 1.x. Root, network and debootstrap.
# HOLDFAST_MATRIX_ROOT names the chroot (made once, then kept); HOLDFAST_MATRIX_SUITE and _MIRROR what is in it.
set -euo pipefail
cd "$(dirname "$0")/../.."

suite=${HOLDFAST_MATRIX_SUITE:-trixie}
mirror=${HOLDFAST_MATRIX_MIRROR:-http://deb.debian.org/debian}
root=${HOLDFAST_MATRIX_ROOT:-/var/tmp/holdfast-$suite}
. tools/install-packages
packages=git$(printf ',%s' $(packages_of build test))

((EUID == 0)) || { echo "tests/run --matrix: needs root for the chroot" >&2; exit 77; }
if ! command -v debootstrap >/dev/null; then
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends debootstrap </dev/null >/dev/null
fi
if [[ ! -e $root/.complete ]]; then
    echo "== making $root"
    debootstrap --variant=minbase --include="$packages" "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
        { tail -n 30 "$root.log"; exit 1; }
    echo "127.0.0.1 localhost" >"$root/etc/hosts"
    touch "$root/.complete"
fi

# The working tree as git would commit it, as new files, so that everything is built again.
mkdir -p "$root/src"
find "$root/src" -mindepth 1 -maxdepth 1 ! -name 'build*' -exec rm -rf {} +
git ls-files -z --cached --others --exclude-standard | tar --null -T - --ignore-failed-read -cf - 2>/dev/null |
    tar -C "$root/src" -xmf -

# A mount namespace of its own: what is mounted for the run goes with it.
exec unshare --mount --pid --fork --kill-child bash -ec '
    root=$1
    shift
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/tmp"
    chroot "$root" /bin/bash -ec "
        cd /src
        export HOME=/root TMPDIR=/tmp
        pkg-config --modversion hiredis | sed \"s/^/== hiredis /\"
        git init -q . 2>/dev/null && git add -A . >/dev/null 2>&1
        exec tests/run --stage gcc --no-install \"\$@\"
    " bash "$@"
' bash "$root" "$@"
