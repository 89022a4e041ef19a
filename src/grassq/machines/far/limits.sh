# shellcheck shell=sh disable=SC2154
# The limits of an attempt that its control keeps: of its time, and of the time without output.

#: Milliseconds between two looks at the logs; of a short idle limit, an eighth of it.
far_log_look_ms=5000

# Begin to count: the command starts now.
far_begin_limits() {
    far_uptime
    far_begun=$far_up far_kept_at=$far_up far_quiet_since=$far_up far_sizes='' far_timed_out='' far_warn_at=''
    [ "$far_warn_ms" = 0 ] || far_warn_at=$((far_begun + far_limit_ms - far_warn_ms))
}

# Let the limits wait: the attempt is suspended, and this time does not count.
far_hold_limits() {
    far_uptime
    far_more=$((far_up - far_kept_at))
    far_begun=$((far_begun + far_more)) far_quiet_since=$((far_quiet_since + far_more)) far_kept_at=$far_up
    [ -z "$far_warn_at" ] || far_warn_at=$((far_warn_at + far_more))
}

# Set far_timed_out to the limit that is over, in words; warn the processes if that is due; shorten far_pause.
far_keep_limits() {
    far_uptime
    far_kept_at=$far_up
    if [ "$far_limit_ms" != 0 ] && far_is_due "$((far_begun + far_limit_ms))"; then
        far_timed_out=$far_limit_words
    elif [ "$far_idle_ms" != 0 ] && far_is_quiet; then
        far_timed_out=$far_idle_words
    elif [ -n "$far_warn_at" ] && far_is_due "$far_warn_at"; then
        far_warn_at=''
        far_warn
    fi
}

# Tell whether a time has come; if not, the next look comes no later than that.
far_is_due() { # UPTIME
    [ "$far_up" -lt "$1" ] || return 0
    [ "$far_pause" -le "$(($1 - far_up))" ] || far_pause=$(($1 - far_up))
    return 1
}

# Look at the logs, and tell whether nothing was written for too long.
far_is_quiet() {
    far_seen=
    for far_file in $far_streams; do
        far_measure "$far_path/$far_file"
        # A log that is not there says nothing: its job counts as writing.
        [ -f "$far_path/$far_file" ] || far_size=$far_up
        far_seen="$far_seen $far_size"
    done
    [ "$far_seen" = "$far_sizes" ] || far_sizes=$far_seen far_quiet_since=$far_up
    far_step=$((far_idle_ms / 8))
    [ "$far_step" -le "$far_log_look_ms" ] || far_step=$far_log_look_ms
    [ "$far_pause" -le "$far_step" ] || far_pause=$far_step
    far_is_due "$((far_quiet_since + far_idle_ms))"
}

# Send the signal of the warning to the processes of the attempt that handle it.
far_warn() {
    far_read_claim "$far_path"
    # shellcheck disable=SC2046,SC2086
    set -- $(far_members "$far_path" "$far_job" "$far_attempt" $far_command)
    while [ $# -ge 2 ] && [ "$1" != end ]; do
        ! far_handles "$1" "$far_warn_signal" || far_signal "$far_warn_signal" "$1" "$2"
        shift 2
    done
}

# Tell whether a process handles a signal, or has blocked it to wait for it: then the signal does not end it.
far_handles() { # PID NUMBER
    awk '$1 == "SigBlk:" || $1 == "SigCgt:" {
        digit = index("0123456789abcdef", substr($2, length($2) - int((number - 1) / 4), 1)) - 1
        for (bit = (number - 1) % 4; bit > 0; bit--) digit = int(digit / 2)
        if (digit % 2) found = 1
    } END { exit !found }' number="$2" "/proc/$1/status" 2>/dev/null
}
