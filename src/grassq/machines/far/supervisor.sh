# shellcheck shell=sh disable=SC2154
# The supervisor of one attempt: it claims the run dir, runs the command, ends what is left, and records the end.
#
# Three processes: the runner waits for the command; the control, which is the "shim" of the claim, heeds the stop file
# and the lease and writes the exit record; a sleep wakes the control. A background process of a shell ignores SIGINT
# and SIGQUIT, so the control is in the background, and the command never is.

#: Seconds between two looks of the control that nothing else wakes.
far_look_s=10
#: Pauses until a record can be written on a full disk, for a day.
far_record_pause_s=5
far_record_tries=17280

# Start a supervisor that outlives this session, with no signal ignored.
far_launch() { # COMMAND WORDS
    # The inner shell is killed while it waits for its pipeline: so nothing waits, and nothing was put in the background.
    {
        if command -v setsid >/dev/null; then
            sh -c '{ exec setsid "$@"; } </dev/null >/dev/null 2>&1 | kill -s KILL $$' sh "$@"
        else
            sh -c '{ exec "$@"; } </dev/null >/dev/null 2>&1 | kill -s KILL $$' sh "$@"
        fi
    } </dev/null >/dev/null 2>&1
}

far_supervise() { # JOB ATTEMPT
    far_begin
    cd / || exit 1
    far_job=$1 far_attempt=$2
    far_path=$far_home/jobs/$1/$2
    far_go=$far_path/.go.$$
    # shellcheck disable=SC1091
    . "$far_path/run" || exit 1
    far_describe
    # Both processes count from the same second.
    far_now
    far_look_at $$
    far_runner_ticks=$far_ticks
    mkfifo "$far_go" || exit 1
    far_control >"$far_go" &
    far_control_pid=$!
    far_word=
    IFS= read -r far_word <"$far_go"
    rm -f "$far_go"
    [ "$far_word" = go ] || exit 0
    far_look_at "$far_control_pid"
    far_control_ticks=$far_ticks
    if [ "$(awk 'BEGIN { print system("kill -9 $$") }' 2>/dev/null)" = 265 ]; then
        far_ended=$(FAR_SCRIPT=$far_script FAR_JOB=$1 FAR_ATTEMPT=$2 awk 'BEGIN {
            status = system("exec sh \"$FAR_SCRIPT\" run \"$FAR_JOB\" \"$FAR_ATTEMPT\"")
            printf "\nstatus %s", status
        }')
    else
        far_ended=$(sh "$far_script" await sh "$far_script" run "$1" "$2" 2>&1)
    fi
    # Without a status the process that waited was killed, and with it the exit code: as if this one had been.
    far_read_status "$far_ended" || exit 1
    far_now
    far_try=0
    until far_put "$far_path" .status "$far_now $far_code $far_number $far_doubt $far_reason"; do
        far_try=$((far_try + 1))
        [ -d "$far_path" ] && [ "$far_try" -lt "$far_record_tries" ] || exit 1
        sleep "$far_record_pause_s"
    done
    # It may have been killed long ago, and its number given to another process.
    far_signal USR1 "$far_control_pid" "$far_control_ticks"
    exit 0
}

# Run a program, and print its exit code on a last line. What the shell says of a signal before it tells the two apart;
# bash does so only as a script, not inside of $( ).
far_await() { # PROGRAM WORDS
    "$@"
    printf '\n%s' "$?"
}

# Set far_code, far_number (of the signal), far_doubt and far_reason (of a command that did not start).
far_read_status() { # WORDS: those of `run` and of the shell, then a line with the status of awk or the code of the shell
    far_code=${1##*"$far_newline"}
    far_said=${1%"$far_newline"*}
    far_number=null far_doubt=0 far_reason=
    case ${far_code#status } in '' | *[!0-9]*) return 1 ;; esac
    case $far_said in
    unstarted:*)
        far_reason=${far_said#unstarted:}
        far_reason=${far_reason%%"$far_newline"*}
        far_code=null
        return
        ;;
    esac
    case $far_code in
    status*)
        far_code=${far_code#status }
        [ "$far_code" -ge 256 ] || return 0
        # 512 is added for a core dump.
        far_number=$((far_code % 256))
        far_code=null
        ;;
    *)
        [ "$far_code" -gt 128 ] || return 0
        if [ -n "$far_said" ]; then
            far_number=$((far_code - 128))
            far_code=null
        elif ! far_has_words "$((far_code - 128))"; then
            far_doubt=1
        fi
        ;;
    esac
}

# Tell whether the shell says something of a program that this signal ends; true if it ends none.
far_has_words() { # NUMBER
    # Tried out, most of these would stop the program.
    case $(kill -l "$1" 2>/dev/null) in CHLD | CONT | STOP | TSTP | TTIN | TTOU | URG | WINCH) return 0 ;; esac
    far_tried=$(sh "$far_script" await \
        sh -c 'ulimit -c 0; kill -s "$1" $$ 2>/dev/null || exit 0; exit 1' sh "$1" 2>&1)
    case $far_tried in
    # There is no such signal; or it ended the program, and something was said.
    "${far_newline}0" | ?*"$far_newline$(($1 + 128))") return 0 ;;
    esac
    return 1
}

# The control: the first to claim the attempt, and the last to leave.
far_control() {
    far_woken=0 far_sleep=
    # A signal that comes before the wait for the sleep has begun ends the sleep, and so the wait.
    trap 'far_woken=1; [ -z "$far_sleep" ] || kill "$far_sleep"' USR1 TERM
    trap ':' HUP INT QUIT
    read -r far_self far_rest </proc/self/stat
    far_look_at "$far_self"
    far_ids="{\"v\": 1, \"store\": $far_store, \"job\": $far_job, \"attempt\": $far_attempt, \"boot\": \"$far_boot\""
    far_claim "$far_path" started "$far_ids, \"pid\": $far_self, \"ticks\": $far_ticks, \"suspends\": true}$far_newline" ||
        return 0
    far_now
    far_started=$far_now far_deadline='' far_cancelled=0 far_lease_ended=0 far_is_over=0 far_unstarted=''
    far_lease_until=0 far_lease_length=0 far_suspend_number=0 far_suspended=''
    far_begin_limits
    if [ -e "$far_path/stop" ]; then
        far_cancelled=1
        far_finish null null 0
        return
    fi
    if [ "$far_lease" = 1 ] && ! far_lease_holds; then
        far_lease_ended=1
        far_finish null null 0
        return
    fi
    printf 'go\n'
    exec >/dev/null
    while [ "$far_is_over" = 0 ]; do
        far_press
        [ "$far_is_over" = 1 ] || far_nap "$far_pause"
    done
}

# Sleep, unless a signal comes.
far_nap() { # MILLISECONDS
    if [ -z "${far_can_nap:-}" ]; then
        far_can_nap=0
        sleep 0.01 2>/dev/null && far_can_nap=1
    fi
    if [ "$far_can_nap" = 1 ]; then
        sleep "$(($1 / 1000)).$(printf %03d $(($1 % 1000)))" &
    else
        sleep $((($1 + 999) / 1000)) &
    fi
    far_sleep=$!
    # One that has ended by itself is not signalled: its number may be another's by now.
    { [ "$far_woken" = 0 ] && wait "$far_sleep"; } || kill "$far_sleep"
    # What a signal tells of is looked at after this; without this no later nap would last.
    far_sleep='' far_woken=0
}

# Do what is due, and set far_pause to the milliseconds until the next look.
far_press() {
    far_pause=$((far_look_s * 1000))
    far_uptime
    far_has_runner=1
    far_is_alive $$ "$far_runner_ticks" || far_has_runner=0
    # After the look at the runner: one that has left has written the status before.
    if far_take "$far_path/.status" && [ -n "$far_text" ]; then
        # shellcheck disable=SC2086
        set -- $far_text
        far_after "$@"
        return
    fi
    if [ "$far_has_runner" = 0 ]; then
        # The runner is gone, and with it the exit code: as if this supervisor had been killed.
        far_is_over=1
        return
    fi
    if far_take "$far_path/stop"; then
        far_field "$far_text" grace_s
        far_thousand "$far_found" || far_ms=$far_grace_ms
        # An attempt that a limit ends keeps that outcome.
        [ -n "$far_timed_out" ] || far_cancelled=1
        far_end_by "$((far_up + far_ms))"
    elif [ "$far_lease" = 1 ]; then
        if ! far_lease_holds; then
            [ -n "$far_timed_out" ] || far_lease_ended=1
            far_ms=$((far_lease_length / 10))
            [ "$far_ms" -lt "$far_grace_ms" ] || far_ms=$far_grace_ms
            far_end_by "$((far_up + far_ms))"
        fi
    fi
    if [ -z "$far_deadline" ]; then
        # The time since the last look counts for what the attempt did then, not for what it is told now.
        far_count_time
        if [ -z "$far_timed_out" ]; then
            far_was=$far_suspended
            far_suspend
            [ "$far_suspended" = "$far_was" ] || far_count_time
        fi
        [ -z "$far_timed_out" ] || far_end_by "$((far_up + far_grace_ms))"
    fi
    [ -z "$far_deadline" ] || far_push_on
}

# Let the time since the last look count for the limits, unless the attempt was suspended.
far_count_time() {
    case $far_suspended in
    *'"stop": true}') far_hold_limits ;;
    *) far_keep_limits ;;
    esac
}

# Stop the tree or let it go on, as the newest order in the run dir says, and note that it is done.
far_suspend() {
    far_take "$far_path/suspend" || return 0
    far_field "$far_text" number
    case $far_found in '' | *[!0-9]*) return 0 ;; esac
    [ "${#far_found}" -le 16 ] && [ "$far_found" -ge "$far_suspend_number" ] || return 0
    far_suspend_number=$far_found
    far_field "$far_text" stop
    far_wanted="{\"v\": 1, \"number\": $far_suspend_number, \"stop\": $far_found}"
    if [ "$far_found" = true ]; then
        far_stop_tree || {
            far_pause=100
            return 0
        }
    elif [ "$far_suspended" != "$far_wanted" ]; then
        far_each CONT
    fi
    if [ "$far_suspended" != "$far_wanted" ] || [ ! -e "$far_path/suspended" ]; then
        far_put "$far_path" suspended "$far_wanted$far_newline" && far_suspended=$far_wanted
        far_note "$far_job $far_attempt suspended"
    fi
}

# Stop everything that belongs to the attempt; false if something of it still runs after some rounds.
far_stop_tree() {
    far_rounds=0 far_still=0
    while [ "$far_rounds" -lt 8 ]; do
        far_rounds=$((far_rounds + 1)) far_running=0
        far_read_claim "$far_path"
        # shellcheck disable=SC2046,SC2086
        set -- $(far_members "$far_path" "$far_job" "$far_attempt" $far_command)
        while [ $# -ge 2 ] && [ "$1" != end ]; do
            if far_is_alive "$1" "$2"; then
                case $far_state in
                T | t) ;;
                # Held up in the kernel, perhaps by a stopped child: it stops after that, without running.
                D) far_signal STOP "$1" "$2" ;;
                *) far_running=$((far_running + 1)) && far_signal STOP "$1" "$2" ;;
                esac
            fi
            shift 2
        done
        # Without the last line the processes could not be looked for; in one look a new process may be missing.
        if [ $# = 2 ] && [ "$far_running" = 0 ]; then far_still=$((far_still + 1)); else far_still=0; fi
        [ "$far_still" -lt 2 ] || return 0
    done
    return 1
}

# Terminate the tree, unless that was done; a later request may shorten the grace, never extend it.
far_end_by() { # UPTIME
    if [ -z "$far_deadline" ]; then
        far_deadline=$1
        far_each TERM
        # Without a grace, what is suspended does not go on: others may have its devices.
        [ "$1" -le "$far_up" ] || far_each CONT
    elif [ "$1" -lt "$far_deadline" ]; then
        far_deadline=$1
    fi
}

# Wait for the grace, then kill.
far_push_on() {
    far_uptime
    far_pause=$((far_deadline - far_up))
    if [ "$far_pause" -le 0 ]; then
        far_kill
        far_pause=100
    elif [ "$far_pause" -gt 1000 ]; then
        far_pause=1000
    fi
}

far_kill() {
    # A stopped process cannot fork: each round has only the children of the round before left to find.
    far_each STOP
    far_each STOP
    far_each KILL
}

# Signal everything that belongs to the attempt; set far_left to how many there are.
far_each() { # NAME
    far_read_claim "$far_path"
    far_name=$1 far_left=0
    # shellcheck disable=SC2046,SC2086
    set -- $(far_members "$far_path" "$far_job" "$far_attempt" $far_command)
    while [ $# -ge 2 ] && [ "$1" != end ]; do
        far_left=$((far_left + 1))
        far_signal "$far_name" "$1" "$2"
        shift 2
    done
    # Processes that cannot be looked for may be there.
    [ $# = 2 ] || far_left=$((far_left + 1))
}

# The command has ended: end what it left behind, then record the end.
far_after() { # TIME CODE SIGNAL DOUBT REASON
    far_now=$1 far_code=$2 far_number=$3 far_doubt=$4
    shift 4
    far_unstarted=$*
    if [ -z "$far_unstarted" ] && { [ "$far_keep_children" = 0 ] || [ -n "$far_deadline" ]; }; then
        far_uptime
        far_by=$((far_up + far_leave_ms))
        [ -n "$far_deadline" ] && [ "$far_deadline" -lt "$far_by" ] && far_by=$far_deadline
        far_each TERM
        [ "$far_left" = 0 ] || far_each CONT
        while [ "$far_left" != 0 ]; do
            far_uptime
            if [ "$far_up" -ge "$far_by" ]; then far_kill; else far_each 0; fi
            [ "$far_left" = 0 ] || far_nap 100
        done
    fi
    far_finish "$far_code" "$far_number" "$far_doubt"
}

# Write the exit record, then the journal.
far_finish() { # CODE SIGNAL DOUBT
    far_outcome=exited far_error=null far_code=$1 far_number=$2
    if [ -z "$far_unstarted" ] && [ "$1" = 127 ] && [ -f "$far_path/unstarted" ]; then
        # A wrapper has not started its command: grassq.run.wrapper.
        far_unstarted=$(head -c 900 "$far_path/unstarted")
        far_unstarted=$(printf %s "$far_unstarted" | tr -c ' !#-[]-~' '?')
    fi
    case $far_unstarted in
    '') ;;
    stopped) far_cancelled=1 far_code=null ;;
    *)
        far_outcome=spawn_failed far_code=null
        far_error=\"$far_unstarted\"
        ;;
    esac
    if [ "$3" = 1 ]; then
        far_error="\"this machine cannot tell exit code $far_code from signal $((far_code - 128))\""
    fi
    if [ "$far_cancelled" = 1 ]; then
        far_outcome=cancelled
    elif [ "$far_lease_ended" = 1 ]; then
        far_outcome=lease_ended
    elif [ -n "$far_timed_out" ]; then
        far_outcome=timed_out far_error=\"$far_timed_out\"
    fi
    far_body="{\"v\": 1, \"code\": $far_code, \"signal\": $far_number, \"outcome\": \"$far_outcome\","
    far_body="$far_body \"error\": $far_error, \"started\": $far_started, \"ended\": $far_now, \"result_unread\": true}"
    far_crc "$far_body"
    far_try=0
    until far_put "$far_path" exit "$far_body $far_sum$far_newline"; do
        far_try=$((far_try + 1))
        [ -d "$far_path" ] && [ "$far_try" -lt "$far_record_tries" ] || break
        sleep "$far_record_pause_s"
    done
    rm -f "$far_path/.status" "$far_path/run"
    far_note "$far_job $far_attempt exited"
    far_sync "$far_path/exit" "$far_path"
    far_is_over=1
}

# Begin to sync files, so that they survive a power cut, where `sync` takes names: a sync of everything may last minutes.
far_sync() { # FILE ...
    { case $(sync --help 2>&1) in *FILE*) sync "$@" ;; esac; } </dev/null >/dev/null 2>&1 &
}

# Tell whether the attempt may run now, and set far_pause.
far_lease_holds() {
    far_uptime
    if far_take "$far_path/lease"; then
        far_field "$far_text" until
        far_thousand "$far_found" || return 1
        far_until=$far_ms
        far_field "$far_text" length_s
        far_thousand "$far_found" || return 1
        far_field "$far_text" boot
        [ "$far_found" = "\"$far_boot\"" ] || return 1
        far_lease_until=$far_until far_lease_length=$far_ms
    elif [ ! -e "$far_path/lease" ]; then
        return 1
    else
        # Unreadable now: it counts as not renewed.
        far_until=$((far_lease_until + far_lease_length / 20))
    fi
    [ "$far_up" -lt "$far_until" ] || return 1
    # In short steps: a sleep does not count the time in which the machine slept.
    far_pause=$((far_until - far_up))
    far_step=$((far_lease_length / 20 + 50))
    [ "$far_pause" -le "$far_step" ] || far_pause=$far_step
}

# Set far_up to the milliseconds since boot, including time the machine slept.
far_uptime() {
    read -r far_up far_rest </proc/uptime
    far_thousand "$far_up"
    far_up=$far_ms
}

# Set far_ms to a thousand times a decimal number; false if it is none.
far_thousand() { # NUMBER
    far_whole=${1%%.*} far_part=
    case $1 in *.*) far_part=${1#*.} ;; esac
    case $far_whole$far_part in '' | *[!0-9]*) return 1 ;; esac
    [ "${#far_whole}" -le 12 ] && [ -n "$far_whole" ] || return 1
    far_part=${far_part}000
    far_part=${far_part%"${far_part#???}"}
    # Leading zeros would make a number octal.
    far_part=${far_part#"${far_part%%[!0]*}"}
    far_whole=${far_whole#"${far_whole%%[!0]*}"}
    far_ms=$((${far_whole:-0} * 1000 + ${far_part:-0}))
}

# Set far_now to the time of day in seconds.
far_now() {
    far_now=$(date +%s.%N)
    case $far_now in *[!0-9.]* | *.) ;; *) return ;; esac
    # busybox has only whole seconds: from the second time on, the time since boot counts the parts.
    far_uptime
    [ -n "${far_epoch:-}" ] || far_epoch=$(($(date +%s) * 1000 - far_up))
    far_now=$(((far_epoch + far_up) / 1000)).$(printf %03d $(((far_epoch + far_up) % 1000)))
}

# Set far_sum to the CRC-32 of printable ASCII text, as eight hexadecimal digits.
far_crc() { # TEXT
    far_left_text=$1
    set -- 0 498536548 997073096 651767980 1994146192 1802195444 1303535960 1342533948 \
        3988292384 4027552580 3604390888 3412177804 2607071920 2262029012 2685067896 3183342108
    far_crc=4294967295
    while [ -n "$far_left_text" ]; do
        far_tail=${far_left_text#?}
        # The place of the character in the list of all of them is its code, without a process.
        far_byte=${far_printable%%"${far_left_text%"$far_tail"}"*}
        far_left_text=$far_tail
        far_crc=$((far_crc ^ (${#far_byte} + 32)))
        eval "far_crc=\$(((far_crc >> 4) ^ \${$(((far_crc & 15) + 1))}))"
        eval "far_crc=\$(((far_crc >> 4) ^ \${$(((far_crc & 15) + 1))}))"
    done
    far_sum=$(printf %08x $((far_crc ^ 4294967295)))
}
far_printable=' !"#$%&'\''()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[\]^_`abcdefghijklmnopqrstuvwxyz{|}~'
