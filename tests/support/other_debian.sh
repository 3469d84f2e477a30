# To be sourced. Packages of another Debian, which are unpacked and not installed: no chroot, no root. Network: a Debian mirror,
# which HOLDFAST_MIRROR names.
# shellcheck shell=bash

# An apt of its own for those suites, in FOLDER; `other_get` is its apt-get.
other_debian() { # FOLDER SUITE...
    other=$1
    local mirror=${HOLDFAST_MIRROR:-http://deb.debian.org/debian} suite
    shift
    mkdir -p "$other/lists/partial" "$other/cache/archives/partial"
    : >"$other/status"
    for suite; do
        echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
    done >"$other/sources.list"
    other_get update
}

other_get() { # WORD...
    apt-get -qq -o Dir::State::lists="$other/lists" -o Dir::State::status="$other/status" -o Dir::Etc::sourcelist="$other/sources.list" \
        -o Dir::Etc::sourceparts=/dev/null -o Dir::Etc::preferencesparts=/dev/null -o Dir::Cache="$other/cache" \
        -o APT::Install-Recommends=false -o Debug::NoLocking=1 -o APT::Sandbox::User="$(id -un)" "$@"
}

# What was downloaded so far goes into a folder.
other_unpack() { # FOLDER
    local package
    for package in "$other"/cache/archives/*.deb; do dpkg -x "$package" "$1"; done
}
