#!/usr/bin/env bash
# The nightly report in bash: report.sh FILE [STEPS].
. "$(dirname "$0")/section.sh"

if [[ $# -lt 1 || $# -gt 2 || ! ${2-10} =~ ^[0-9]+$ ]]; then
    echo "usage: report.sh FILE [STEPS]" >&2
    exit 64
fi

section_begin nightly/report || exit
last=$(tail -n 1 "$1" 2>/dev/null | cut -d ' ' -f 1)
if ((${last:-0} > section_fence)); then
    echo "report.sh: refused: a later holder has written" >&2
    exit 1
fi
echo "$section_fence begin" >>"$1"
for ((step = 0; step < 10#${2-10}; step++)); do
    sleep 0.01 # the work, which SIGTERM ends when the lock is being lost
done
echo "$section_fence end" >>"$1"
section_end
