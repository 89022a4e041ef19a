# shellcheck shell=sh disable=SC2154
# The process that becomes the command: `run` of the supervisor, which waits for it.

# Become the command. Everything that can fail is looked at before, and said in a sentence.
far_run() { # JOB ATTEMPT
    far_begin
    far_path=$far_home/jobs/$1/$2
    # shellcheck disable=SC1091
    . "$far_path/run" || exit 1
    far_describe
    # What is written to descriptor 3 reaches the runner.
    exec 3>&1 </dev/null
    far_out=$far_path/log far_err=$far_path/log
    [ "$far_split" = 0 ] || far_out=$far_path/out far_err=$far_path/err
    for far_file in "$far_out" "$far_err"; do
        # An open that fails would end this shell.
        (: >>"$far_file") 2>/dev/null || far_fail "the log $far_file cannot be opened"
    done
    exec >>"$far_out" 2>>"$far_err"
    far_enter
    far_find
    far_look_at $$
    { printf '{"pid": %d, "ticks": %d, "session": %d}\n' $$ "$far_ticks" $$ >>"$far_path/started"; } 2>/dev/null
    # A stop request that came before the note is found here; a later one finds the note and signals this process.
    if [ -e "$far_path/stop" ]; then
        printf 'unstarted:stopped\n' >&3
        exit 0
    fi
    if [ "$far_is_large" = 1 ] && ! (far_become true) >/dev/null 2>&1; then
        far_fail "its arguments and environment together are larger than the system allows"
    fi
    far_note "$1 $2 started $$"
    umask "$far_command_umask"
    far_setsid=$(command -v setsid)
    # In this order `env` cannot take a program whose name has a "=" for a variable.
    far_become ${far_setsid:+"$far_setsid"} ${far_setsid:+--} ${far_under:+"$far_under"} "$far_program"
}

far_enter() {
    if [ ! -e "$far_cwd" ]; then
        far_fail "the working directory $far_cwd does not exist"
    elif [ ! -d "$far_cwd" ]; then
        far_fail "the working directory $far_cwd is not a directory"
    fi
    cd -- "$far_cwd" 2>/dev/null || far_fail "the working directory $far_cwd may not be entered"
}

# Set far_program to the file of the first word, and far_under to a Python if it is a script without the x bit.
far_find() {
    far_under=
    [ -n "$far_word" ] || far_fail "the command is empty"
    case $far_word in
    */*) far_program=$far_word ;;
    *)
        if far_search "$far_word"; then
            far_check_interpreter
            # The name as it was typed: the command is looked up on the same PATH once more.
            far_program=$far_word
            return
        fi
        far_program=${far_cwd%/}/$far_word
        { [ -f "$far_program" ] && { [ -x "$far_program" ] || [ "$far_word" != "${far_word%.py}" ]; }; } ||
            far_fail "there is no program $far_word on the job's PATH"
        ;;
    esac
    [ -e "$far_program" ] || far_fail "the program $far_word does not exist"
    [ ! -d "$far_program" ] || far_fail "$far_word is a directory, not a program"
    if [ ! -x "$far_program" ]; then
        case $far_program in *.py) ;; *) far_fail "$far_word is not executable; chmod +x it, or name its interpreter first" ;; esac
        far_script_file=$far_program
        far_search python || far_search python3 || far_fail "there is no program python3 on the job's PATH"
        far_under=$far_program far_program=$far_script_file
    fi
    [ -n "$far_under" ] || far_check_interpreter
}

# Set far_program to the file of a word on the job's PATH.
far_search() { # WORD
    far_rest=$far_command_path:
    while [ -n "$far_rest" ]; do
        far_program=${far_rest%%:*}
        far_rest=${far_rest#*:}
        far_program=${far_program:-.}/$1
        [ -f "$far_program" ] && [ -x "$far_program" ] && return 0
    done
    return 1
}

far_check_interpreter() {
    far_elf=$(printf '\177ELF')
    far_line=$(head -c 256 "$far_program" 2>/dev/null | tr '\0' '\n' | head -n 1)
    case $far_line in
    "$far_elf"*) ;;
    '#!'*)
        # shellcheck disable=SC2086
        set -f -- ${far_line#??}
        set +f
        [ -z "${1:-}" ] || [ -e "$1" ] || far_fail "the interpreter or loader that $far_program names does not exist"
        ;;
    *)
        # The system may know further kinds of programs.
        for far_kind in /proc/sys/fs/binfmt_misc/*; do
            case ${far_kind##*/} in '*' | register | status) ;; *) return 0 ;; esac
        done
        # `env` would run it as a shell script.
        far_fail "$far_word has no #! line and is not a program for this machine; add one, or name its interpreter first"
        ;;
    esac
}

# Leave the reason why the command did not start, and end.
far_fail() { # SENTENCE
    printf 'unstarted:%s\n' "cannot start: $(printf %s "$1" | tr -c ' !#-[]-~' '?' | head -c 900)" >&3
    exit 0
}
