# Completion of grass for bash. To use it: eval "$(grass completion bash)" in ~/.bashrc.

# Prints the answer of grass for its words up to the cursor. Nothing else may reach the prompt. Of a path only the name
# is called: TAB must not run a program of the current folder.
_grass_ask() {
    command "${1##*/}" __complete "${@:2}" 2>/dev/null </dev/null
}

# Joins what bash cut at = : @ and the like: sets `words`, and `places`, the place of each word in COMP_WORDS.
_grass_words() {
    words=() places=()
    local rest=$COMP_LINE each i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        each=${COMP_WORDS[i]}
        if ((i == 0)) || [[ $rest == [[:space:]]* ]]; then
            rest=${rest#"${rest%%[![:space:]]*}"}
            words+=("$each") places+=("$i")
        else
            words[${#words[@]} - 1]+=$each
        fi
        rest=${rest#*"$each"}
    done
}

# Completes the words from a place on as a command line of their own.
_grass_command() {
    local first=$1 i specification function
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$first"
        return
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$first"
        return
    fi
    local current=${COMP_WORDS[COMP_CWORD]}
    if ((COMP_CWORD == first)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$current"; compgen -d -- "$current")
        return
    fi
    specification=$(complete -p -- "${COMP_WORDS[first]}" 2>/dev/null)
    if [[ $specification =~ \ -F\ ([A-Za-z0-9_:.-]+)\  ]] && declare -F "${BASH_REMATCH[1]}" >/dev/null; then
        function=${BASH_REMATCH[1]}
        for ((i = 0; i < first; i++)); do
            COMP_LINE=${COMP_LINE#*"${COMP_WORDS[i]}"}
        done
        local trimmed=${COMP_LINE#"${COMP_LINE%%[![:space:]]*}"}
        ((COMP_POINT -= ${#line} - ${#trimmed}))
        COMP_LINE=$trimmed
        COMP_WORDS=("${COMP_WORDS[@]:first}")
        ((COMP_CWORD -= first))
        "$function" "${COMP_WORDS[0]}" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}

_grass() {
    local words places line=$COMP_LINE
    COMPREPLY=()
    _grass_words
    local current=${words[${#words[@]} - 1]} quote=
    # A word in quotes is sent without the opening quote, which bash itself keeps.
    if [[ $current == [\"\']* ]]; then
        quote=${current:0:1} current=${current:1}
    fi
    local answer action number
    mapfile -t answer < <(_grass_ask "${words[0]}" "${words[@]:1:${#words[@]} - 2}" "$current")
    ((${#answer[@]})) || return 0
    read -r action number <<<"${answer[0]}"
    local kept=${current:0:number} value=${current:number}
    # What bash keeps of the word: all up to the last character at which it cuts words.
    local cut=
    if [[ -z $quote ]]; then
        cut=${current%"${current##*[$COMP_WORDBREAKS]}"}
    fi
    case $action in
    files | folders)
        compopt -o filenames 2>/dev/null
        [[ $action == files ]] && local how=-f || local how=-d
        mapfile -t COMPREPLY < <(compgen "$how" -- "$value")
        return 0
        ;;
    command)
        _grass_command "${places[number]}"
        ;;
    esac
    local entry word longest=0 shown=()
    for entry in "${answer[@]:1}"; do
        word=$kept${entry%%$'\t'*}
        word=${word#"$cut"}
        COMPREPLY+=("$word")
        ((${#word} > longest)) && longest=${#word}
    done
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=:] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    # Descriptions only where bash lists the words and does not insert them.
    if [[ $action == words && ${COMP_TYPE-} == 63 ]] && ((${#COMPREPLY[@]} > 1)); then
        local i about room=$((${COLUMNS:-80} - longest - 4))
        for ((i = 0; i < ${#COMPREPLY[@]}; i++)); do
            about=${answer[i + 1]#*$'\t'}
            if [[ -n $about ]] && ((room > 10)); then
                printf -v word '%-*s  %s' "$longest" "${COMPREPLY[i]}" "${about:0:room}"
                COMPREPLY[i]=$word
            fi
        done
        compopt -o nosort 2>/dev/null
    fi
    return 0
}

complete -F _grass grass grassq
