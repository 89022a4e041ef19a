# shellcheck shell=sh disable=SC2034,SC2154
# What every part uses. The functions of this script have no variables of their own: POSIX sh has none.
far_umask=$(umask)
umask 077
LC_ALL=C
export LC_ALL
unset CDPATH ENV BASH_ENV
IFS=' 	
'
#: Bytes that are read of a small file.
far_record_max=65536

# Set far_home, far_script and far_boot; exit if this is no Linux.
far_begin() {
    far_home=${0%/*}
    far_home=$(cd "$far_home/.." && pwd -P) || exit 1
    far_script=$far_home/bin/${0##*/}
    far_boot=
    { IFS= read -r far_boot </proc/sys/kernel/random/boot_id; } 2>/dev/null
}

# Set far_text to the first bytes of a plain file; false if there is none.
far_take() { # FILE [MOST]
    far_text=
    [ -f "$1" ] && [ ! -L "$1" ] || return 1
    far_text=$(head -c "${2:-$far_record_max}" "$1" 2>/dev/null && printf x) || return 1
    far_text=${far_text%x}
}

# Write a file aside and rename it: a reader sees the old or the new file, whole.
far_put() { # FOLDER NAME TEXT
    far_aside=$1/.$2.$$
    # The size is checked as well: not every shell reports that a disk is full.
    if { printf %s "$3" >"$far_aside"; } 2>/dev/null && far_is_size "$far_aside" "${#3}" &&
        mv -f "$far_aside" "$1/$2" 2>/dev/null; then
        return 0
    fi
    rm -f "$far_aside"
    return 1
}

# Make a file that must not exist yet; false if it exists or cannot be made.
far_claim() { # FOLDER NAME TEXT
    far_aside=$1/.$2.$$
    far_made=1
    if { printf %s "$3" >"$far_aside"; } 2>/dev/null && far_is_size "$far_aside" "${#3}"; then
        ln "$far_aside" "$1/$2" 2>/dev/null && far_made=0
    fi
    rm -f "$far_aside"
    return $far_made
}

# Set far_size to the bytes of a plain file; 0 if there is none.
far_measure() { # FILE
    far_size=0
    [ -f "$1" ] && [ ! -L "$1" ] || return 0
    far_size=$(ls -lnd "$1" 2>/dev/null) || far_size=
    # The fifth field: mode, links, user, group, size.
    # shellcheck disable=SC2086
    set -f -- $far_size
    set +f
    far_size=${5:-0}
}

far_is_size() { # FILE BYTES
    far_measure "$1"
    [ "$far_size" = "$2" ]
}

# Set far_ticks to the tick at which a process started, and far_state; false if it is gone or a zombie.
far_look_at() { # PID
    far_ticks='' far_state=''
    far_stat=
    # Line by line, as a name may hold a newline, and without a process: none may be had when it matters.
    { while IFS= read -r far_part; do far_stat="$far_stat$far_part "; done <"/proc/$1/stat"; } 2>/dev/null
    # The name in parentheses may itself hold blanks and parentheses: only what follows the last one is fixed.
    # shellcheck disable=SC2086
    set -f -- ${far_stat##*) }
    set +f
    [ $# -ge 20 ] || return 1
    # A process whose first thread has ended shows as a zombie while its other threads run on.
    case $1 in Z | X) [ "${18}" -gt 1 ] || return 1 ;; esac
    far_ticks=${20} far_state=$1
}

far_is_alive() { # PID TICKS
    far_look_at "$1" && [ "$far_ticks" = "$2" ]
}

# Signal exactly this process.
far_signal() { # NAME PID TICKS
    far_is_alive "$2" "$3" && kill -s "$1" "$2" 2>/dev/null
}

# Read a claim: set far_shim, far_command ("pid ticks" or ""), and far_claim_boot; false if there is no claim.
far_read_claim() { # FOLDER
    far_shim='' far_command='' far_claim_boot=''
    far_take "$1/started" || return 1
    case $far_text in *"$far_newline"*) ;; *) return 0 ;; esac
    far_first=${far_text%%"$far_newline"*}
    far_second=${far_text#*"$far_newline"}
    far_identity "$far_first"
    far_shim=$far_found
    case $far_second in
    *"$far_newline"*)
        far_identity "${far_second%%"$far_newline"*}"
        far_command=$far_found
        ;;
    esac
    far_field "$far_first" boot
    far_claim_boot=${far_found#\"}
    far_claim_boot=${far_claim_boot%\"}
}

# Set far_found to "pid ticks" of a JSON line, or "".
far_identity() { # LINE
    far_field "$1" pid
    far_pid=$far_found
    far_field "$1" ticks
    case "$far_pid:$far_found" in
    *[!0-9:]* | :* | *:) far_found= ;;
    *) far_found="$far_pid $far_found" ;;
    esac
}

# Set far_found to the value of a field of a flat JSON line, as it is written there.
far_field() { # LINE NAME
    far_found=
    case $1 in *"\"$2\": "*) ;; *) return 1 ;; esac
    far_found=${1#*"\"$2\": "}
    far_found=${far_found%%[,\}]*}
}

# Print "pid ticks" of everything that is left of an attempt: its tree, its session, and what has its marks. The last
# line is "end 0": without it the processes could not be looked for.
far_members() { # FOLDER JOB ATTEMPT [PID TICKS]
    {
        far_marked "$1" "$2" "$3"
        cat /proc/[0-9]*/stat 2>/dev/null
    } | FAR_SELF=$$ awk '
        $1 == "marked" { marked[$2]; next }
        $1 == "marks" { is_whole = 1; next }
        function add(pid) { if (!(pid in ours) && !(pid in kept)) { ours[pid] = 1; queue[++last] = pid } }
        {
            pid = $1
            if (!sub(/^.*\) /, "") || NF < 20) next
            count++; parent[pid] = $2; session[pid] = $4; ticks[pid] = $20 ""
            lives[pid] = ($1 != "Z" && $1 != "X") || $18 > 1
        }
        END {
            kept[0]; kept[1]; kept[ENVIRON["FAR_SELF"]]
            leader = ARGV_PID
            for (pid in marked) if (pid in ticks) add(pid)
            # A session counts only while its leader lives: its number may belong to another one afterwards.
            if (leader != "" && ticks[leader] == ARGV_TICKS) {
                add(leader)
                for (pid in session) if (session[pid] == leader) add(pid)
            }
            for (at = 1; at <= last; at++) {
                for (pid in parent) if (parent[pid] == queue[at]) add(pid)
                if (lives[queue[at]]) print queue[at], ticks[queue[at]]
            }
            if (is_whole && count) print "end", 0
        }' ARGV_PID="${4:-}" ARGV_TICKS="${5:-}" -
}

# Print "marked PID" of the processes whose environment has the three marks of an attempt, and "marks" at the end.
far_marked() { # FOLDER JOB ATTEMPT
    head -c 262144 /proc/[0-9]*/environ 2>/dev/null | tr '\0' '\n' |
        FAR_MARK=$1/files FAR_JOB=$2 FAR_ATTEMPT=$3 awk '
        /^==> \/proc\/[0-9]+\/environ <==$/ { split($0, word, "/"); pid = word[3]; seen = ""; next }
        $0 == "GRASS_JOB_ID=" ENVIRON["FAR_JOB"] { seen = seen "j" }
        $0 == "GRASS_ATTEMPT=" ENVIRON["FAR_ATTEMPT"] { seen = seen "a" }
        $0 == "GRASS_RUN_DIR=" ENVIRON["FAR_MARK"] { seen = seen "r" }
        seen ~ /j/ && seen ~ /a/ && seen ~ /r/ { print "marked", pid; seen = "" }
        END { if (pid) print "marks" }'
}

# Print a line of the journal, in one write.
far_note() { # WORDS
    { printf '%s\n' "$*" >>"$far_home/journal"; } 2>/dev/null
}

far_newline='
'
