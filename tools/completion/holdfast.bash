# Completion of holdfast and holdfastd for bash. Subcommands, options and operands are read from the programs' own --help, so
# they are those of the version at hand; locks, nodes and agents are those that are there now.
# shellcheck shell=bash

_holdfast_help() { "$@" --help 2>/dev/null </dev/null; }

# One line for each option of a help on stdin: -SHORT, --LONG and what its value is called; "-" for what there is not.
_holdfast_options() {
    sed -nE 's/^ +(-(.), )?--([a-z][a-z-]*)( ('"'[^']*'"'|[^ ]+))?(  .*)?$/-\2 --\3 \5/p' | while read -r short long value; do
        printf '%s %s %s\n' "$short" "$long" "${value:--}"
    done
}

# The operands of a subcommand, from the first line of its help.
_holdfast_operands() { sed -nE '1s/^Usage: holdfast [a-z]+( \[options\])?//p' | tr -d '[]' | sed 's/ -- / /'; }

# --- what is there ---------------------------------------------------------------------------------

# PROGRAM [--agent NAME]; names that would have to be escaped are left out.
_holdfast_locks() { "$1" list --json "${@:2}" 2>/dev/null </dev/null | sed -nE 's/^\{"name":"([^"\\]*)",.*/\1/p'; }

_holdfast_nodes() { "$1" nodes --json "${@:2}" 2>/dev/null </dev/null | sed -nE 's/^\{"id":"([^"\\]*)",.*/\1/p'; }

_holdfast_agents() {
    local sock users=
    [[ ! -O $XDG_RUNTIME_DIR ]] || users=$XDG_RUNTIME_DIR
    for sock in ${HOLDFAST_RUNTIME_DIR:+"$HOLDFAST_RUNTIME_DIR"/*/sock} ${users:+"$users"/holdfast/*/sock} /run/holdfast/*/sock; do
        [[ -S $sock ]] || continue
        sock=${sock%/sock}
        printf '%s\n' "${sock##*/}"
    done
}

# --- what becomes of it ----------------------------------------------------------------------------

# Offers those lines of stdin that begin with the word under the cursor, as they have to be typed.
_holdfast_offer() { # WORD
    local line typed
    while IFS= read -r line; do
        printf -v typed %q "$line"
        [[ $typed != "$1"* ]] || COMPREPLY+=("$typed")
    done
    # readline replaces only what follows these.
    local left=
    [[ $COMP_WORDBREAKS != *:* || $1 != *:* ]] || left=${1%"${1##*:}"}
    [[ $COMP_WORDBREAKS != *=* || ${1#"$left"} != *=* ]] || left=${1%"${1##*=}"}
    COMPREPLY=("${COMPREPLY[@]#"$left"}")
}

_holdfast_value() { # OPTION KIND WORD COMMAND...
    local option=$1 kind=$2 word=$3
    shift 3
    case $option:$kind in
    --agent:*) _holdfast_offer "$word" < <(_holdfast_agents) ;;
    --also:*) _holdfast_offer "$word" < <(_holdfast_locks "$@") ;;
    *:ID) [[ $option != --node ]] || _holdfast_offer "$word" < <(_holdfast_nodes "$@") ;;
    *:SIGNAL) _holdfast_offer "$word" < <(compgen -A signal SIG | sed 's/^SIG//') ;;
    *:GROUP) _holdfast_offer "$word" < <(compgen -g) ;;
    *:LEVEL) _holdfast_offer "$word" < <(printf '%s\n' error warn info debug) ;;
    *:FILE | *:PATH) cur=$word _filedir ;;
    *:DIR) cur=$word _filedir -d ;;
    esac
}

# The row of an option as it was typed, in `options`.
_holdfast_option() { # WORD
    local row
    for row in "${options[@]}"; do
        [[ " $row " == *" ${1%%=*} "* ]] && printf '%s\n' "$row" && return
    done
    return 1
}

_holdfast() {
    # shellcheck disable=SC2034 # _init_completion sets them all
    local cur prev words cword split
    _init_completion -n := || return 0
    local program=${words[0]/#~\//$HOME/} row kind short long value at first=1
    local -a options operands agent=() typed=() help verbs
    type -P -- "$program" >/dev/null || return 0
    help=("$program")

    if [[ ${program##*/} == holdfast ]]; then
        if ((cword == 1)); then
            _holdfast_offer "$cur" < <(if [[ $cur == -* ]]; then printf '%s\n' --help --version
                else _holdfast_help "$program" | sed -nE '/^Subcommands:/,/^$/s/^  ([a-z]+) .*/\1/p'; fi)
            return 0
        fi
        [[ ${words[1]} == [a-z]* ]] || return 0
        help=("$program" "${words[1]}")
        first=2
        # The other forms of a subcommand are words behind it.
        if [[ ${words[1]} == fleet ]]; then
            readarray -t verbs < <(_holdfast_help "$program" fleet move | sed -n '1{s/^Usage: holdfast fleet //;s/ \[options\]//;s/ | /\n/g;p}')
            for ((at = 2; at < cword; at++)); do
                [[ ${words[at]} != [a-z]* || ${words[at - 1]} == --agent ]] || { help+=("${words[at]}"); break; }
            done
        fi
    fi
    readarray -t options < <(_holdfast_help "${help[@]}" | _holdfast_options)

    # What was typed before the cursor.
    for ((at = first; at < cword; at++)); do
        if [[ ${words[at]} == -- ]]; then
            options=()
        elif [[ ${words[at]} == -?* ]] && row=$(_holdfast_option "${words[at]}"); then
            read -r short long value <<<"$row"
            if [[ $value != - && $value != \[* && ${words[at]} != --*=* ]]; then
                ((++at < cword)) || { _holdfast_value "$long" "$value" "$cur" "$program" "${agent[@]}"; return 0; }
                [[ $long != --agent ]] || agent=(--agent "${words[at]}")
            elif [[ $long == --agent && ${words[at]} == *=* ]]; then
                agent=("${words[at]}")
            fi
        elif [[ ${words[at]} != -* ]]; then
            typed+=("${words[at]}")
            [[ ${help[1]-} != run || ${#typed[@]} -lt 2 ]] || { _command_offset "$at"; return 0; }
        fi
    done

    if [[ $cur == --*=* ]] && row=$(_holdfast_option "$cur"); then
        read -r short long value <<<"$row"
        [[ $value == - ]] || _holdfast_value "$long" "${value#[}" "${cur#*=}" "$program" "${agent[@]}"
    elif [[ $cur == -* ]]; then
        _holdfast_offer "$cur" < <(printf '%s\n' "${options[@]}" | cut -d' ' -f2)
    elif [[ ${help[1]-} == fleet ]]; then
        _holdfast_fleet
    elif [[ ${help[1]-} ]]; then
        read -ra operands < <(_holdfast_help "${help[@]}" | _holdfast_operands)
        kind=${operands[${#typed[@]}]-}
        case $kind in
        NAME | PREFIX) _holdfast_offer "$cur" < <(_holdfast_locks "$program" "${agent[@]}") ;;
        COMMAND) _command_offset "$cword" ;;
        esac
    fi
}

_holdfast_fleet() {
    if ((${#typed[@]} == 0)); then
        _holdfast_offer "$cur" < <(printf '%s\n' "${verbs[@]%% *}")
    elif ((${#typed[@]} == 1)); then
        for kind in "${verbs[@]}"; do
            case $kind in
            "${typed[0]} ID") _holdfast_offer "$cur" < <(_holdfast_nodes "$program" "${agent[@]}") ;;
            "move ID="*)
                [[ ${typed[0]} == move ]] || continue
                compopt -o nospace
                _holdfast_offer "$cur" < <(_holdfast_nodes "$program" "${agent[@]}" | sed 's/$/=/')
                ;;
            esac
        done
    fi
}

complete -F _holdfast holdfast holdfastd
