# shellcheck shell=sh disable=SC2154
# Answers the requests of machines/far_end.py: a line "TOKEN VERB ARGUMENTS" in, sections out.
#
# A section begins with a line "TOKEN NAME", its bytes follow, and "TOKEN end" ends the answer. A token is drawn for
# each request and known to nobody else, so no content of a file can look like the end of an answer.

far_serve() { # MARKER
    far_begin
    far_connection=$1
    printf '\n%s\n' "$1"
    while IFS= read -r far_line; do
        # shellcheck disable=SC2086
        set -f -- $far_line
        set +f
        [ $# -ge 2 ] || exit 1
        far_token=$1 far_verb=$2
        shift 2
        case $far_verb in
        hello | lead | start | look | members | signal | stop | suspend | void | lease | leased | list | mark | folders | read | changed) ;;
        *) exit 1 ;;
        esac
        "far_do_$far_verb" "$@" </dev/null
        printf '\n%s end\n' "$far_token"
    done
}

# Answer one request from the command line's stdin: for work that may take long.
far_once() { # MARKER VERB
    far_begin
    printf '\n%s\n' "$1"
    IFS= read -r far_line || exit 1
    # shellcheck disable=SC2086
    set -f -- "$2" $far_line
    set +f
    far_verb=$1 far_token=$2
    shift 2
    case $far_verb in remove | size | uninstall) ;; *) exit 1 ;; esac
    "far_do_$far_verb" "$@" </dev/null
    printf '\n%s end\n' "$far_token"
}

far_section() { # NAME
    printf '\n%s %s\n' "$far_token" "$1"
}

far_refuse() { # SENTENCE
    far_section failed
    printf %s "$1"
}

# Set far_path to a run dir.
far_at() { # JOB ATTEMPT
    far_job=$1 far_attempt=$2
    far_path=$far_home/jobs/$1/$2
}

far_do_hello() { # SHIM: the name of the file, or - if no Python is to be used
    far_section facts
    far_now
    far_uptime
    far_name_computer
    printf 'boot %s\nuptime_ms %s\nclock %s\numask %s\n' "$far_boot" "$far_up" "$far_now" "$far_umask"
    printf 'name %s\n' "$far_computer"
    far_attach computer "$far_home/computer" 1000
    far_python='' far_shim_file=$far_home/bin/$1
    if [ "$1" != - ] && [ ! -f "$far_shim_file" ]; then
        far_section uninstalled
    elif [ "$1" != - ]; then
        for far_word in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
            far_word=$(command -v "$far_word") || continue
            "$far_word" -I -S "$far_shim_file" check >/dev/null 2>&1 || continue
            far_python=$far_word
            break
        done
    fi
    far_section home
    printf %s "$far_home"
    far_section user_home
    printf %s "${HOME:-/}"
    far_section python
    printf %s "$far_python"
    far_section shell
    printf %s "${SHELL:-}"
    far_section env
    head -c 1048576 "/proc/$$/environ" 2>/dev/null
    far_section journal
    far_measure "$far_home/journal"
    printf %s "$far_size"
    far_section missing
    for far_word in cat head dd tr awk mv ln rm mkdir mkfifo date sleep ls sort du; do
        command -v "$far_word" >/dev/null || printf '%s ' "$far_word"
    done
}

# Set far_computer to the name of this computer: of several that share a home each has its own, and a reboot keeps it.
far_name_computer() {
    far_computer=
    { IFS= read -r far_computer </proc/sys/kernel/hostname; } 2>/dev/null
}

# Let only this connection start attempts: an earlier one, which was cut or stopped, may still have an order in a buffer.
far_do_lead() {
    far_name_computer
    { far_put "$far_home" computer "$far_computer $far_boot" && far_put "$far_home" leader "$far_connection"; } ||
        far_refuse "$far_home cannot be written; is the disk full?"
}

# Decode an argument into a file.
far_put_decoded() { # FOLDER NAME ARGUMENT BYTES
    far_aside=$1/.$2.$$
    if { printf %b "$3" >"$far_aside"; } 2>/dev/null && far_is_size "$far_aside" "$4" &&
        mv -f "$far_aside" "$1/$2" 2>/dev/null; then
        return 0
    fi
    rm -f "$far_aside"
    return 1
}

far_do_start() { # JOB ATTEMPT LEASE BYTES SPEC BYTES RUN BYTES: a shim of Python reads the spec, and needs no RUN
    far_at "$1" "$2"
    if [ -e "$far_path/started" ]; then
        far_section claimed
        return
    fi
    if [ -f "$far_home/leader" ] && [ "$(cat "$far_home/leader")" != "$far_connection" ]; then
        far_section overtaken
        return
    fi
    far_why=$(mkdir -p "$far_path/files" "$far_home/jobs/$1/checkpoint" 2>&1) || {
        far_refuse "$far_why"
        return
    }
    if ! far_put_decoded "$far_path" spec.json "$5" "$6" ||
        ! { [ "$4" = 0 ] || far_put_decoded "$far_path" lease "$3" "$4"; } ||
        ! { [ "$8" = 0 ] || far_put_decoded "$far_path" run "$7" "$8"; }; then
        far_refuse "the run dir $far_path cannot be written; is the disk full?"
        return
    fi
    if [ "$8" = 0 ]; then
        far_launch "$far_python" -I -S "$far_shim_file" run "$far_path" "$far_home/journal"
    else
        far_launch sh "$far_script" supervise "$1" "$2"
    fi
    far_section launched
}

far_do_look() { # JOB ATTEMPT
    far_at "$1" "$2"
    [ -d "$far_path" ] || return
    if far_read_claim "$far_path"; then
        far_section started
        printf %s "$far_text"
        far_section alive
        # shellcheck disable=SC2086
        [ -z "$far_shim" ] || { far_is_alive $far_shim && printf '%s\n' "$far_shim"; }
        # shellcheck disable=SC2086
        [ -z "$far_command" ] || { far_is_alive $far_command && printf '%s\n' "$far_command"; }
    fi
    # After the look at the processes: a supervisor that ended in between has left its record by now.
    far_attach exit "$far_path/exit" "$far_record_max"
    far_attach result "$far_path/files/result.json" 16385
    far_attach suspend "$far_path/suspend" 4096
    far_attach suspended "$far_path/suspended" 4096
}

far_attach() { # SECTION FILE MOST
    [ -f "$2" ] && [ ! -L "$2" ] || return 0
    far_section "$1"
    head -c "$3" "$2" 2>/dev/null
}

far_do_members() { # JOB ATTEMPT
    far_at "$1" "$2"
    far_read_claim "$far_path"
    far_section members
    # shellcheck disable=SC2086
    far_members "$far_path" "$1" "$2" $far_command
}

far_do_signal() { # NAME PID TICKS ...
    far_name=$1
    shift
    while [ $# -ge 2 ]; do
        far_signal "$far_name" "$1" "$2"
        shift 2
    done
    far_section ok
}

far_do_stop() { # JOB ATTEMPT STOP BYTES
    far_at "$1" "$2"
    # On a full disk there is often room for an empty file: a request without a word has the grace of the spec.
    if ! far_put_decoded "$far_path" stop "$3" "$4" && ! { : >>"$far_path/stop"; } 2>/dev/null; then
        far_refuse "$far_path/stop cannot be written"
        return
    fi
    # Looked for only now: a supervisor that claims the attempt from now on finds the file.
    far_wake
    far_section ok
}

# Let the supervisor of far_path look at its run dir.
far_wake() {
    if far_read_claim "$far_path" && [ "$far_claim_boot" = "$far_boot" ] && [ -n "$far_shim" ]; then
        # shellcheck disable=SC2086
        far_signal TERM $far_shim
    fi
}

far_do_suspend() { # JOB ATTEMPT ORDER BYTES
    far_at "$1" "$2"
    if ! far_put_decoded "$far_path" suspend "$3" "$4"; then
        far_refuse "$far_path/suspend cannot be written"
        return
    fi
    far_wake
    far_section ok
}

far_do_void() { # JOB ATTEMPT CLAIM
    far_at "$1" "$2"
    far_why=$(mkdir -p "$far_path" 2>&1) || {
        far_refuse "$far_why"
        return
    }
    far_text=$(printf %b "$3")
    if far_claim "$far_path" started "$far_text$far_newline"; then
        far_section ok
    elif [ -e "$far_path/started" ]; then
        far_section claimed
    else
        far_refuse "$far_path/started cannot be written; is the disk full?"
    fi
}

far_do_lease() { # JOB ATTEMPT LEASE BYTES
    far_at "$1" "$2"
    if far_put_decoded "$far_path" lease "$3" "$4"; then
        far_section ok
    else
        far_refuse "$far_path/lease cannot be written"
    fi
}

far_do_leased() { # JOB ATTEMPT
    far_at "$1" "$2"
    far_attach lease "$far_path/lease" "$far_record_max"
}

# Print the entries of a folder that are numbers, largest first.
far_numbers() { # FOLDER
    for far_entry in "$1"/*; do
        far_entry=${far_entry##*/}
        case $far_entry in *[!0-9]* | 0?*) ;; *) printf '%s\n' "$far_entry" ;; esac
    done | sort -rn
}

far_do_folders() { # MOST
    far_section folders
    far_numbers "$far_home/jobs" | head -n "$1"
}

far_do_list() { # MOST
    far_section attempts
    far_left=$1
    for far_job in $(far_numbers "$far_home/jobs" | head -n "$1"); do
        [ "$far_left" -gt 0 ] || break
        for far_path in "$far_home/jobs/$far_job"/*; do
            case ${far_path##*/} in *[!0-9]*) continue ;; esac
            far_words=
            [ ! -e "$far_path/acked" ] || far_words=' acked'
            [ ! -e "$far_path/unrecorded" ] || far_words="$far_words unrecorded"
            printf '%s %s%s\n' "$far_job" "${far_path##*/}" "$far_words"
            far_left=$((far_left - 1))
        done
    done
}

far_do_mark() { # JOB ATTEMPT MARKER
    far_at "$1" "$2"
    [ ! -d "$far_path" ] || { : >>"$far_path/$3"; } 2>/dev/null
    far_section ok
}

far_do_read() { # JOB ATTEMPT STREAM BLOCK BLOCKS
    far_at "$1" "$2"
    far_send "$far_path/$3" "$4" "$5"
    # After the bytes: the note is written before the bytes are gone.
    far_attach cut "$far_path/$3.cut" 1000
}

# Send blocks of 4096 bytes of a file from one on, and its size.
far_send() { # FILE BLOCK BLOCKS
    far_file=$1 far_block=$2 far_blocks=$3
    far_section size
    far_measure "$far_file"
    printf %s "$far_size"
    [ "$far_size" -gt $((far_block * 4096)) ] || return 0
    far_section bytes
    dd if="$far_file" bs=4096 skip="$far_block" count="$far_blocks" 2>/dev/null
}

far_do_changed() { # MOST BLOCK BLOCKS
    far_send "$far_home/journal" "$2" "$3"
    # Emptied when all of it has been read: what comes in between is lost, and it is only a hint.
    if [ "$far_size" -gt "$1" ] && [ $((($2 + $3) * 4096)) -ge "$far_size" ]; then
        : >"$far_home/journal"
    fi
}

# Tell whether something of an attempt runs.
far_runs() { # JOB ATTEMPT
    far_at "$1" "$2"
    [ ! -f "$far_path/exit" ] || return 1
    far_read_claim "$far_path" || return 1
    [ "$far_claim_boot" = "$far_boot" ] || [ -z "$far_claim_boot" ] || return 1
    # shellcheck disable=SC2086
    [ -z "$far_command" ] || ! far_is_alive $far_command || return 0
    # A supervisor that has not noted its command may be about to start it.
    # shellcheck disable=SC2086
    [ -n "$far_command" ] || [ -z "$far_shim" ] || ! far_is_alive $far_shim || return 0
    # shellcheck disable=SC2086
    [ "$(far_members "$far_path" "$1" "$2" $far_command)" != 'end 0' ]
}

far_do_remove() { # JOB:SPARED ...
    far_section left
    far_all=$*
    set --
    for far_asked in $far_all; do
        far_folder=$far_home/jobs/${far_asked%:*}
        [ -d "$far_folder" ] || continue
        far_why='' far_spared=${far_asked#*:}
        for far_number in "$far_folder"/*[0-9]; do
            case ${far_number##*/} in *[!0-9]*) continue ;; esac
            ! far_runs "${far_asked%:*}" "${far_number##*/}" || far_why='something of it still runs'
        done
        if [ -n "$far_why" ]; then
            far_tell_left
        elif [ "$far_spared" = 0 ]; then
            set -- "$@" "$far_folder"
        else
            for far_number in "$far_folder"/*[0-9]; do
                case ${far_number##*/} in *[!0-9]*) ;; *) set -- "$@" "$far_number" ;; esac
            done
        fi
    done
    # All at once: a process for each folder would take most of the time.
    [ $# = 0 ] || rm -rf "$@" 2>/dev/null
    for far_number in "$@"; do
        [ -e "$far_number" ] || continue
        far_why='' far_folder=${far_number#"$far_home/jobs/"}
        far_folder=$far_home/jobs/${far_folder%%/*}
        far_erase "$far_number"
        [ -z "$far_why" ] || far_tell_left
    done
}

# Say what is left of far_folder, and far_why.
far_tell_left() {
    printf '%s %s %s\n' "${far_folder##*/}" "$(far_kilobytes "$far_folder")" "$far_why"
}

# Remove a folder, and set far_why if something of it is left.
far_erase() { # FOLDER
    far_said=$(rm -rf "$1" 2>&1)
    [ ! -e "$1" ] || far_why=$(printf '%s' "${far_said:-it is written to while it is removed}" | head -n 1 | tr -c ' -~' '?' | head -c 300)
}

far_kilobytes() { # FOLDER ...
    far_sum=0
    for far_folder_size in $(du -sk "$@" 2>/dev/null | cut -f 1); do
        far_sum=$((far_sum + far_folder_size))
    done
    printf %s "$far_sum"
}

far_do_size() { # JOB ...
    far_section kilobytes
    far_sum=0
    for far_job in "$@"; do
        [ ! -d "$far_home/jobs/$far_job" ] || far_sum=$((far_sum + $(far_kilobytes "$far_home/jobs/$far_job")))
    done
    printf %s "$far_sum"
}

far_do_uninstall() {
    far_section running
    far_running=
    for far_number in "$far_home"/jobs/*[0-9]/*[0-9]; do
        far_job_id=${far_number%/*}
        far_job_id=${far_job_id##*/} far_number=${far_number##*/}
        case $far_job_id$far_number in *[!0-9]*) continue ;; esac
        ! far_runs "$far_job_id" "$far_number" || far_running="$far_running$far_job_id/$far_number "
    done
    printf %s "$far_running"
    [ -z "$far_running" ] || return 0
    far_why=
    far_erase "$far_home"
    if [ -n "$far_why" ]; then
        if far_is_open_only "$far_home"; then far_section open; else far_section left; fi
        printf %s "$far_why"
    fi
    rmdir "${far_home%/*}" 2>/dev/null
    return 0
}

# Tell whether only open files are left: on NFS one stays as .nfs... until it is closed, and this script is one.
far_is_open_only() { # FOLDER
    far_text=$(ls -ApR "$1" 2>/dev/null) || return 1
    printf '%s\n' "$far_text" |
        awk '/^\.nfs/ { seen = 1; next } !/^$/ && !/[:\/]$/ { other = 1 } END { exit (!seen || other) }'
}

# Print the lines of the journal from now on, until stdin ends.
far_events() { # MARKER
    far_begin
    printf '\n%s\n' "$1"
    : >>"$far_home/journal"
    tail -n 0 -f "$far_home/journal" 2>/dev/null &
    far_tail=$!
    while IFS= read -r far_line; do :; done
    kill "$far_tail"
}
