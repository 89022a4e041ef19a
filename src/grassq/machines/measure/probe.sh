# What this machine has and what is free of it, as lines of a word and a value between two lines `grass-probe`.
#
# Only proc files and the vendors' tools are read. A tool that hangs is left behind: its streams are no pipes of this
# session, so the session ends. The script is sent to `sh` on stdin, so no command in it may read stdin.
#
# far_probe HOME [all] [gpus]: HOME is the far home, which need not exist. `all` adds what hardly changes. `gpus` asks
# the drivers of the devices.

#: The seconds that a driver's tool and any other tool may take, and the most bytes that a tool may say.
probe_driver_s=10
probe_tool_s=3
probe_bytes_max=131072
#: The most own processes that are named, the most bytes of an environment, and the most levels of control groups.
probe_own_max=4096
probe_environ_max=262144
probe_levels_max=32

far_probe() {
    probe_home=$1
    shift
    printf '\ngrass-probe 1\n'
    probe_folder=$(mktemp -d "$probe_home/probe.XXXXXX" 2>/dev/null || mktemp -d "${TMPDIR:-/tmp}/grass-probe.XXXXXX" 2>/dev/null)
    trap '[ -n "$probe_folder" ] && rm -rf "$probe_folder"' EXIT
    trap 'exit 1' HUP INT TERM PIPE
    probe_clock
    probe_processors
    probe_memory
    probe_control_groups
    probe_disk
    # Soon before the drivers are asked: a job that starts in between would look like a program of others.
    probe_own_processes
    for probe_word in "$@"; do
        case $probe_word in
            all) probe_all ;;
            gpus) printf 'asked_gpus yes\n'; probe_nvidia; probe_amd ;;
        esac
    done
    probe_others
    head -n 1 /proc/stat | probe_say stat
    # After the last line the near side may end this session at any time.
    trap - EXIT
    [ -n "$probe_folder" ] && rm -rf "$probe_folder"
    printf 'grass-probe end\n'
}

#: probe_say KEY: prints stdin with the key before each line, up to the bound.
probe_say() {
    head -c "$probe_bytes_max" | tr -d '\000' | sed "s/^/$1 /"
    printf '\n'
}

#: probe_within SECONDS NAME COMMAND...: the output of a command goes to a file; 124 if the command does not end.
probe_within() {
    [ -n "$probe_folder" ] || return 125
    probe_ticks=$(($1 * 20))
    probe_out=$probe_folder/$2
    shift 2
    "$@" >"$probe_out" 2>"$probe_out.err" </dev/null &
    probe_pid=$!
    while kill -0 "$probe_pid" 2>/dev/null; do
        if [ "$probe_ticks" -le 0 ]; then
            # A tool that hangs inside a driver cannot be killed, so nothing here waits for its end.
            kill -9 "$probe_pid" 2>/dev/null
            return 124
        fi
        if sleep 0.05 2>/dev/null; then
            probe_ticks=$((probe_ticks - 1))
        else
            sleep 1
            probe_ticks=$((probe_ticks - 20))
        fi
    done
    wait "$probe_pid"
}

probe_clock() {
    read -r probe_uptime probe_rest </proc/uptime
    printf 'uptime %s\n' "$probe_uptime"
    printf 'clock %s\n' "$(date +%s.%N)"
    read -r probe_rest </proc/sys/kernel/random/boot_id
    printf 'boot %s\n' "$probe_rest"
}

probe_processors() {
    printf 'cores %s\n' "$(grep -c '^cpu[0-9]' /proc/stat)"
    head -n 1 /proc/stat | probe_say stat
    grep '^Cpus_allowed_list:' /proc/self/status | probe_say allowed
}

probe_memory() {
    grep -E '^(MemTotal|MemFree|MemAvailable|Buffers|Cached):' /proc/meminfo | probe_say meminfo
}

#: Prints the limits of the own control group and of those above it, of version 2, and those of version 1 at the root.
probe_control_groups() {
    probe_at=
    while IFS=: read -r probe_number probe_rest probe_path; do
        [ "$probe_number" = 0 ] && probe_at=$probe_path
    done </proc/self/cgroup 2>/dev/null
    probe_level=0
    while [ "$probe_level" -lt "$probe_levels_max" ]; do
        probe_at=${probe_at%/}
        probe_group "/sys/fs/cgroup$probe_at"
        [ -n "$probe_at" ] || break
        probe_at=${probe_at%/*}
        probe_level=$((probe_level + 1))
    done
    probe_first /sys/fs/cgroup/memory/memory.limit_in_bytes
    if [ -n "$probe_line" ]; then
        probe_limit=$probe_line
        probe_first /sys/fs/cgroup/memory/memory.usage_in_bytes
        printf 'group_mem %s %s %s\n' "$probe_limit" "${probe_line:-0}" \
            "$(sed -n 's/^total_inactive_file //p' /sys/fs/cgroup/memory/memory.stat 2>/dev/null)"
    fi
    probe_first /sys/fs/cgroup/cpu/cpu.cfs_quota_us
    if [ -n "$probe_line" ]; then
        probe_limit=$probe_line
        probe_first /sys/fs/cgroup/cpu/cpu.cfs_period_us
        printf 'group_cpu %s %s\n' "$probe_limit" "$probe_line"
    fi
}

probe_group() {
    probe_first "$1/cpu.max"
    [ -n "$probe_line" ] && printf 'group_cpu %s\n' "$probe_line"
    probe_first "$1/memory.max"
    case $probe_line in
        '' | max) ;;
        *)
            probe_limit=$probe_line
            probe_first "$1/memory.current"
            printf 'group_mem %s %s %s\n' "$probe_limit" "${probe_line:-0}" \
                "$(sed -n 's/^inactive_file //p' "$1/memory.stat" 2>/dev/null)"
            ;;
    esac
}

#: probe_first FILE: the first line of a file, or nothing.
probe_first() {
    probe_line=
    { read -r probe_line <"$1"; } 2>/dev/null
}

#: The processes of our own jobs, known by their environment, their devices, and the memory that they have together.
probe_own_processes() {
    # Not `grep -l`: that of busybox reads a file only up to its first zero byte.
    probe_own=$(head -c "$probe_environ_max" /proc/[0-9]*/environ 2>/dev/null | tr '\000' '\n' |
        PROBE_MARK=GRASS_RUN_DIR=$probe_home/ awk '
            /^==> \/proc\/[0-9]+\/environ <==$/ { split($0, word, "/"); pid = word[3] }
            index($0, ENVIRON["PROBE_MARK"]) == 1 && pid { print pid; pid = "" }' | head -n "$probe_own_max")
    [ -n "$probe_own" ] || return 0
    probe_environs=
    probe_files=
    for probe_rest in $probe_own; do
        probe_environs="$probe_environs /proc/$probe_rest/environ"
        probe_files="$probe_files /proc/$probe_rest/status"
        printf 'own %s\n' "$probe_rest"
    done
    cat $probe_environs 2>/dev/null | tr '\000' '\n' | sed -n 's/^GRASS_GPU=//p' | sort -u | probe_say own_gpu
    # Memory of files counts as available. Memory that processes share counts once: that of the largest.
    grep -hsE '^Rss(Anon|Shmem):' $probe_files | {
        probe_sum=0
        probe_shared=0
        while read -r probe_rest probe_kib probe_line; do
            case $probe_rest in
                RssAnon:) probe_sum=$((probe_sum + probe_kib)) ;;
                *) [ "$probe_kib" -le "$probe_shared" ] || probe_shared=$probe_kib ;;
            esac
        done
        printf 'own_kib %s\n' "$((probe_sum + probe_shared))"
    }
}

#: Prints the share of all processors that programs of others use, in thousandths: of processes that are there at two
#: looks. A shorter one counts nowhere.
probe_others() {
    {
        probe_ticks
        # The two looks, and the two samples of the processors, are at least this far apart.
        sleep 0.25 2>/dev/null || sleep 1
        probe_ticks
    } | PROBE_OWN=$probe_own awk '
        BEGIN { count = split(ENVIRON["PROBE_OWN"], own); for (at = 1; at <= count; at++) ours[own[at]] }
        $1 == "cpu" { looks++; for (at = 2; at <= 9; at++) all[looks] += $at; next }
        {
            pid = $1
            if ((pid in ours) || !sub(/^.*\) /, "") || NF < 20) next
            process = pid " " $20; ticks = $12 + $13
            if (!looks) before[process] = ticks
            else if (process in before) used += ticks - before[process]
        }
        END { if (all[2] > all[1]) printf "others %d\n", 1000 * used / (all[2] - all[1]) }'
}

probe_ticks() {
    cat /proc/[0-9]*/stat 2>/dev/null
    head -n 1 /proc/stat
}

probe_all() {
    printf 'user %s\n' "$(id -un 2>/dev/null || id -u)"
    printf 'login_shell %s\n' "$SHELL"
    printf 'sh %s\n' "$(readlink "/proc/$$/exe" 2>/dev/null)"
    for probe_rest in setsid awk tar sha256sum base64 rsync python3 nvidia-smi rocm-smi amd-smi timeout; do
        probe_line=$(command -v "$probe_rest" 2>/dev/null) && printf 'tool %s %s\n' "$probe_rest" "$probe_line"
    done
    if command -v python3 >/dev/null 2>&1; then
        probe_within "$probe_tool_s" python python3 -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' &&
            probe_say python <"$probe_out"
    fi
    if command -v rsync >/dev/null 2>&1; then
        probe_within "$probe_tool_s" rsync rsync --version && head -n 1 "$probe_out" | probe_say rsync
    fi
    probe_space
    probe_login_manager
}

#: The space where the far home is or will be.
probe_disk() {
    probe_at=$probe_home
    while [ ! -d "$probe_at" ] && [ -n "$probe_at" ]; do
        probe_at=${probe_at%/*}
    done
    # A file system of another machine may be out of reach.
    probe_within "$probe_tool_s" df df -Pk "${probe_at:-/}" && tail -n 1 "$probe_out" | probe_say df
}

#: Whether it can be written where the far home is or will be.
probe_space() {
    if probe_rest=$(mktemp -d "$probe_at/.grass-probe.XXXXXX" 2>/dev/null); then
        # A full disk may have room for a folder, and not for a byte.
        { printf x >"$probe_rest/x"; } 2>/dev/null
        [ -s "$probe_rest/x" ] && printf 'writable yes\n' || printf 'writable no\n'
        rm -rf "$probe_rest"
    else
        printf 'writable no\n'
    fi
}

#: Whether systemd ends the processes of a user, or deletes the user's shared memory, at the user's last logout.
probe_login_manager() {
    [ -d /run/systemd/system ] || return 0
    if [ -e "/var/lib/systemd/linger/$(id -un)" ]; then
        printf 'linger yes\n'
    else
        printf 'linger no\n'
    fi
    for probe_rest in KillUserProcesses RemoveIPC; do
        probe_within "$probe_tool_s" busctl busctl get-property org.freedesktop.login1 /org/freedesktop/login1 \
            org.freedesktop.login1.Manager "$probe_rest" && probe_say "$probe_rest" <"$probe_out"
    done
}

probe_nvidia() {
    command -v nvidia-smi >/dev/null 2>&1 || return 0
    probe_fields=index,uuid,name,memory.total,memory.used,utilization.gpu
    probe_query "$probe_fields,mig.mode.current,compute_mode"
    probe_code=$?
    if [ "$probe_code" -eq 2 ]; then
        # An old driver does not know all fields.
        probe_query "$probe_fields"
        probe_code=$?
    fi
    printf 'nvidia_code %s\n' "$probe_code"
    [ "$probe_code" -lt 124 ] || return 0
    probe_say nvidia <"$probe_out"
    probe_say nvidia_words <"$probe_out.err"
    probe_within "$probe_driver_s" apps nvidia-smi --query-compute-apps=gpu_uuid,pid,used_memory \
        --format=csv,noheader,nounits
    printf 'nvidia_apps_code %s\n' "$?"
    probe_say nvidia_app <"$probe_out"
}

probe_query() {
    probe_within "$probe_driver_s" nvidia nvidia-smi "--query-gpu=$1" --format=csv,noheader,nounits
}

probe_amd() {
    if command -v rocm-smi >/dev/null 2>&1; then
        probe_within "$probe_driver_s" amd rocm-smi --showid --showuse --showmeminfo vram --showproductname --json
        probe_amd_said rocm $?
    elif command -v amd-smi >/dev/null 2>&1; then
        probe_within "$probe_driver_s" amd amd-smi metric --usage --mem-usage --json
        probe_amd_said amd $?
    fi
}

probe_amd_said() {
    printf '%s_code %s\n' "$1" "$2"
    [ "$2" -lt 124 ] || return 0
    probe_say "$1" <"$probe_out"
    for probe_rest in /sys/class/kfd/kfd/proc/[0-9]*/vram_[0-9]*; do
        probe_first "$probe_rest"
        probe_pid=${probe_rest#/sys/class/kfd/kfd/proc/}
        [ -n "$probe_line" ] && printf '%s %s %s\n' "${probe_pid%%/*}" "${probe_rest##*/vram_}" "$probe_line"
    done | probe_say kfd
}
