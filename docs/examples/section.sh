# A section of a shell script under a lock, for sh, dash and bash. With flock(1) it would be: exec 9>FILE; flock 9; ...; exec 9>&-
#
#     . section.sh
#     section_begin -w 10m db/migrate || exit      # options of 'holdfast hold', and one NAME; 75: another has it
#     ...                                           # $section_fence is for each resource that can compare it
#     section_held || exit 1                        # before a step that must not come late
#     section_end
#
# A script is in one section at a time, its subshells included; --also takes several locks for it. A second section_begin returns 64.
#
# The lock is held until section_end, or until the script and all its children that have descriptor 8 have ended. When it is being
# lost the script gets SIGTERM, and SIGKILL before another can have the lock: with its whole process group if the script leads
# one (as from an interactive shell or a service manager), else alone, and its children live on. 'holdfast run' has no such gap.

section_begin() {
    if [ "${section_of-}" = $$ ]; then # not a parent's, by export
        echo "$0: call section_end first: the section of $section_name has not ended, and a script is in one section at a time" >&2
        return 64
    fi
    section_at=$(mktemp -d) && mkfifo "$section_at/in" "$section_at/out" || return 125
    holdfast hold "$@" <"$section_at/in" >"$section_at/out" &
    section_hold=$!
    exec 8>"$section_at/in" 9<"$section_at/out"
    rm -r "$section_at"
    for section_name; do :; done # the last word
    if ! read -r section_event section_fence section_rest <&9; then
        exec 8>&- 9<&-
        wait "$section_hold"
        return
    fi
    section_of=$$ section_whom=$$
    if [ "$(($(ps -o pgid= -p $$)))" -eq $$ ]; then section_whom=-$$; fi
    (exec <&9 8>&- 9<&- && section_watch "$section_whom") & # without 8, which would keep the lock
    section_watcher=$!
    exec 9<&-
}

# The end of the output is the loss, whatever was said before.
section_watch() {
    trap '' HUP INT TERM
    while read -r event text; do
        case $event in
            losing) echo "$0: $text; stopping" >&2; kill -s TERM -- "$1" ;;
            released) exit 0 ;;
        esac
    done
    kill -s KILL -- "$1"
}

section_held() {
    holdfast held -q --fence "$section_fence" "$section_name"
}

# Returns 0, or 124 if the lock was lost in the last moment.
section_end() {
    section_of=
    exec 8>&-
    wait "$section_watcher"
    wait "$section_hold"
}
