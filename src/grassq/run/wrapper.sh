# Makes the environment that a job asks for, then becomes the job's command. POSIX sh: dash, bash, busybox; Linux.
# Words: the run dir, the folder of setups, the Python or "", the setup or "", the number of its files, the files, and
# the command. Every variable begins with grass_: a variable of the job that has the same name would be changed.
grass_run=$1 grass_setups=$2 grass_python=$3 grass_setup=$4 grass_count=$5
shift 5

# Ends the attempt: the command does not start, and the run dir says why.
grass_fail() {
    printf '%s\n' "$1" >"$grass_run/unstarted.new" && mv -f "$grass_run/unstarted.new" "$grass_run/unstarted"
    printf 'grass: %s\n' "$1" >&2
    exit 127
}

grass_use_python() {
    case $grass_python in
    '~/'*) grass_python=$HOME/${grass_python#'~/'} ;;
    esac
    if [ -d "$grass_python" ]; then
        [ -x "$grass_python/bin/python" ] || grass_fail "there is no Python in the folder $grass_python of --python"
        GRASS_PYTHON=$(cd "$grass_python" && pwd)/bin/python
    else
        GRASS_PYTHON=$(command -v "$grass_python") || grass_fail "there is no Python $grass_python on this machine"
        case $GRASS_PYTHON in
        /*) ;;
        *) GRASS_PYTHON=$PWD/$GRASS_PYTHON ;;
        esac
    fi
    grass_folder=${GRASS_PYTHON%/*}
    unset VIRTUAL_ENV PYTHONHOME
    if [ -f "${grass_folder%/*}/pyvenv.cfg" ]; then
        export VIRTUAL_ENV="${grass_folder%/*}"
    fi
    export GRASS_PYTHON PATH="$grass_folder:$PATH"
}

# Calls `$1 FILE` for each file that the setup reads.
grass_each_file() {
    grass_do=$1 grass_left=$2
    shift 2
    if [ "$grass_left" -eq 0 ]; then
        for grass_file in uv.lock pyproject.toml requirements*.txt environment.yml; do
            if [ -f "$grass_file" ]; then "$grass_do" "$grass_file"; fi
        done
    fi
    while [ "$grass_left" -gt 0 ]; do
        "$grass_do" "$1"
        grass_left=$((grass_left - 1))
        shift
    done
}

grass_check_file() {
    [ -f "$1" ] && [ -r "$1" ] || grass_fail "there is no file $1 in the job's directory, and --setup-files names it"
}

grass_hash_file() {
    printf '%s' "$1" | sha256sum
    sha256sum <"$1"
}

grass_copy_file() {
    case $1 in
    */*) mkdir -p "$grass_work/${1%/*}" ;;
    esac && cp -p "./$1" "$grass_work/$1" || grass_fail "the file $1 cannot be copied to $grass_work"
}

# Prints the start time of a process in ticks since the boot; nothing if there is no such process.
grass_ticks() {
    grass_stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    set -- ${grass_stat##*) }
    printf '%s' "${20}"
}

# Tells whether the process that made a claim still lives.
grass_lives() {
    read -r grass_pid grass_born grass_boot <"$1" || return 1
    [ "$grass_boot" = "$(cat /proc/sys/kernel/random/boot_id)" ] && [ "$grass_born" = "$(grass_ticks "$grass_pid")" ]
}

# Claims a number of a setup for this process. The link fails if another process has the number.
grass_claim() {
    grass_aside=$grass_made/new.$$.$1
    printf '%s %s %s\n' "$$" "$(grass_ticks "$$")" "$(cat /proc/sys/kernel/random/boot_id)" >"$grass_aside" ||
        grass_fail "the setup cannot be written to $grass_made"
    ln "$grass_aside" "$grass_made/claim.$1" 2>/dev/null
    grass_code=$?
    rm -f "$grass_aside"
    [ -e "$grass_made/claim.$1" ] || grass_fail "the setup cannot be claimed in $grass_made"
    return "$grass_code"
}

# Runs the setup in a folder of its own; the number of the folder is noted only when the setup has succeeded.
grass_run_setup() {
    grass_work=$grass_made/$1
    shift
    mkdir "$grass_work" || grass_fail "the folder $grass_work of the setup cannot be made"
    grass_each_file grass_copy_file "$@"
    printf 'grass: setup: %s\n' "$grass_setup" >&2
    (cd "$grass_work" && exec /bin/sh -c "$grass_setup")
    grass_code=$?
    if [ "$grass_code" -ne 0 ]; then
        rm -rf "$grass_work"
        grass_fail "the setup failed with exit code $grass_code: $grass_setup; its output is in the log"
    fi
    printf '%s\n' "${grass_work##*/}" >"$grass_work.done" && mv -f "$grass_work.done" "$grass_made/done" ||
        grass_fail "the setup cannot be noted in $grass_made"
}

# Finds or makes the setup for the content of its files. Each try has a number and a folder: a try whose process is
# gone is never used, and the next process takes the next number.
grass_use_setup() {
    command -v sha256sum >/dev/null || grass_fail "--setup needs the program sha256sum on this machine"
    grass_each_file grass_check_file "$@"
    grass_key=$(
        {
            printf '%s' "$grass_setup" | sha256sum
            printf '%s' "${GRASS_PYTHON-}" | sha256sum
            grass_each_file grass_hash_file "$@"
        } | sha256sum
    )
    grass_made=$grass_setups/${grass_key%% *}
    (umask 077 && mkdir -p "$grass_made") || grass_fail "the folder $grass_made of the setup cannot be made"
    grass_waited=
    until [ -f "$grass_made/done" ]; do
        grass_last=0
        while [ -e "$grass_made/claim.$((grass_last + 1))" ]; do grass_last=$((grass_last + 1)); done
        if [ "$grass_last" -gt 0 ] && grass_lives "$grass_made/claim.$grass_last"; then
            [ -n "$grass_waited" ] || printf 'grass: another job runs the same setup; this job waits for it\n' >&2
            grass_waited=yes
            sleep 1
        elif [ ! -f "$grass_made/done" ] && grass_claim "$((grass_last + 1))"; then
            rm -rf "${grass_made:?}/$grass_last"
            grass_run_setup "$((grass_last + 1))" "$@"
        fi
    done
    read -r grass_number <"$grass_made/done"
    export GRASS_SETUP_DIR="$grass_made/$grass_number"
    if [ -d "$GRASS_SETUP_DIR/.venv/bin" ]; then
        unset PYTHONHOME
        export VIRTUAL_ENV="$GRASS_SETUP_DIR/.venv" PATH="$GRASS_SETUP_DIR/.venv/bin:$PATH"
    fi
}

[ -z "$grass_python" ] || grass_use_python
[ -z "$grass_setup" ] || grass_use_setup "$grass_count" "$@"
shift "$grass_count"
command -v "$1" >/dev/null || grass_fail "cannot start: there is no program $1 on the job's PATH"
exec "$@"
