#compdef grass grassq
# Completion of grass for zsh. To use it: eval "$(grass completion zsh)" in ~/.zshrc, or save it as _grass in a folder of
# $fpath before compinit.

_grass() {
    local -a answer head
    integer number
    # (Q) takes quotes off, and runs nothing. Of a path only the name is called: TAB must not run a program of the current
    # folder. Nothing but the answer may reach the prompt.
    answer=("${(@f)$(command ${words[1]:t} __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)}")
    head=(${=answer[1]})
    [[ -n $head[1] ]] || return 1
    number=$head[2]
    if [[ $head[1] == command ]]; then
        integer matched=1
        # The first word of the other command line may also be a queue.
        if (( CURRENT == number + 1 )) && (( $#answer > 1 )); then
            _grass_words "${(@)answer[2,-1]}" && matched=0
        fi
        words=("${(@)words[number + 1,-1]}")
        (( CURRENT -= number ))
        _normal && matched=0
        return $matched
    fi
    (( number )) && compset -p $number
    case $head[1] in
    files) _files ;;
    folders) _files -/ ;;
    *) _grass_words "${(@)answer[2,-1]}" ;;
    esac
}

# Offers lines with a word, a tab and a description.
_grass_words() {
    local -a plain open plain_shown open_shown
    local line word about
    integer longest=0
    for line in "$@"; do
        word=${line%%$'\t'*}
        (( $#word > longest )) && longest=$#word
    done
    for line in "$@"; do
        word=${line%%$'\t'*} about=${line#*$'\t'}
        [[ -n $word ]] || continue
        [[ -n $about ]] && about="${(r:longest:)word}  $about" || about=$word
        if [[ $word == *[=:] ]]; then
            open+=("$word") open_shown+=("${about[1,COLUMNS-1]}")
        else
            plain+=("$word") plain_shown+=("${about[1,COLUMNS-1]}")
        fi
    done
    integer matched=1
    (( $#plain )) && compadd -l -V words -d plain_shown -a plain && matched=0
    (( $#open )) && compadd -l -V words -S '' -d open_shown -a open && matched=0
    return $matched
}

if [[ ${funcstack[1]} == _grass ]]; then
    _grass "$@"
else
    (( ${+functions[compdef]} )) || { autoload -Uz compinit && compinit -i }
    compdef _grass grass grassq
fi
