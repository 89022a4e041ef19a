# shellcheck shell=sh disable=SC2046,SC2086,SC2154
# Files: trees that jobs are sent, and files that come back. Everything is below the far home:
#   blobs/<key>     one content each; the key is its SHA-256, with an `x` behind it if the file may be executed
#   part/<id>/      a tree that is being received: new/ has contents that are not yet checked
#   trees/<id>/     a whole tree: tree/ has hard links to blobs, links.tar its symbolic links; `used` is touched
#   placed/<word>   a tree has been put where a job wants it
# Jobs get copies, never hard links: a job that changes its input must not change the next job's.
# One process handles thousands of files (tar, cp, sha256sum, xargs): a fork for each file would take minutes.

# Take files: `receive MARKER VERB ARGUMENTS`.
far_receive() {
    far_begin
    printf '\n%s\n' "$1"
    case $2 in
    ask | part | build | prune | sweep) ;;
    *) files_fail "this is not a verb: $2" ;;
    esac
    files_verb=$2
    shift 2
    "files_$files_verb" "$@"
}

# Give files: `give MARKER VERB ARGUMENTS`.
far_give() {
    far_begin
    printf '\n%s\n' "$1"
    case $2 in
    list | archive | pour) ;;
    *) files_fail "this is not a verb: $2" ;;
    esac
    files_verb=$2
    shift 2
    "files_$files_verb" "$@"
}

# Goes to the far home, and makes the folders.
files_enter() {
    { cd "$far_home" && mkdir -p blobs part trees placed; } 2>/dev/null || files_fail "$far_home cannot be written to"
}

# Puts the next line of stdin into `word`, with \0ooo as the bytes they stand for: it may hold any byte but zero.
files_read_word() {
    IFS= read -r word || return 1
    word=$(printf '%b.' "$word")
    word=${word%.}
}

files_fail() {
    printf 'error %s\n' "$*"
    exit 0
}

# Waits until no other process works on part/$1, and takes the turn. A process that still receives, and got nothing for
# ten seconds, has lost its connection: it is ended.
files_take_turn() {
    files_idle=0
    files_grown=''
    while ! mkdir "part/$1.turn" 2>/dev/null; do
        files_owner=''
        { IFS= read -r files_owner <"part/$1.turn/owner"; } 2>/dev/null
        if [ -f "part/$1.turn/busy" ] && files_is_alive $files_owner; then
            [ $((files_idle % 10)) -ne 0 ] || printf 'wait\n'
        elif files_is_alive $files_owner; then
            if [ $((files_idle % 10)) -eq 0 ]; then
                printf 'wait\n'
                files_now=$(du -sk "part/$1" "part/$1.part" blobs 2>/dev/null)
                [ "$files_now" = "$files_grown" ] || files_idle=0
                files_grown=$files_now
            fi
            [ "$files_idle" -lt 100 ] || kill -s KILL -- "-${files_owner##* }" 2>/dev/null
        elif [ -n "$files_owner" ] || [ "$files_idle" -ge 30 ]; then # without a name it was taken just now
            files_free_turn "$1"
        fi
        files_idle=$((files_idle + 1))
        # Not every `sleep` takes a fraction.
        sleep 0.1 2>/dev/null || { sleep 1 && files_idle=$((files_idle / 10 * 10 + 10)); }
    done
    far_look_at "$$"
    set -- "$1" ${far_stat##*) }
    printf '%s %s %s\n' "$$" "$far_ticks" "$4" >"part/$1.turn/owner"
    files_turn=$1
    trap 'rm -rf "part/$files_turn.turn"' EXIT
    trap 'exit 1' HUP INT TERM
}

# Says that everything has come: what follows takes its time.
files_be_busy() {
    : >"part/$files_turn.turn/busy"
}

files_leave_turn() {
    rm -rf "part/$files_turn.turn"
    trap - EXIT
}

files_is_alive() { # PID TICKS GROUP
    [ $# -eq 3 ] && far_is_alive "$1" "$2"
}

# Removes the turn of a process that has ended, unless another process has just taken it over.
files_free_turn() {
    mv "part/$1.turn" "part/$1.turn.$$" 2>/dev/null || return 0
    files_moved=''
    { IFS= read -r files_moved <"part/$1.turn.$$/owner"; } 2>/dev/null
    if [ "$files_moved" = "$files_owner" ] || ! mv "part/$1.turn.$$" "part/$1.turn" 2>/dev/null; then
        rm -rf "part/$1.turn.$$"
    fi
}

# Sets files_sum to the program that prints SHA-256, or to nothing.
files_find_sum() {
    files_sum=''
    if command -v sha256sum >/dev/null; then
        files_sum=sha256sum
    elif command -v shasum >/dev/null; then
        files_sum='shasum -a 256'
    fi
}

# Checks the contents in part/$1/new, moves the good ones to blobs, and removes the others.
files_settle() {
    [ -d "part/$1/new" ] || return 0
    files_be_busy
    files_find_sum
    if [ -n "$files_sum" ]; then
        (cd "part/$1/new" && ls | xargs $files_sum) | awk 'substr($2, 1, 64) == $1 { print $2 }' >"part/$1/good"
    else
        # Sizes show what was cut off, and nothing else.
        ls -ln "part/$1/new" | awk '!listed { size[$1] = $2; next } ($NF in size) && size[$NF] == $5 { print $NF }' \
            "part/$1/want" listed=1 - >"part/$1/good"
    fi
    if [ -s "part/$1/good" ]; then
        (cd "part/$1/new" && xargs sh -c 'mv -f "$@" ../../../blobs/' sh) <"part/$1/good" || return 1
    fi
    rmdir "part/$1/new" 2>/dev/null && return 0
    rm -rf "part/$1/new"
    return 1
}

# Prints the free KiB of a folder's file system, and which it is; the folder need not exist yet.
files_free() {
    place=$1
    while [ ! -d "$place" ]; do
        case $place in
        */*) place=${place%/*} ;;
        *) place= ;;
        esac
        [ -n "$place" ] || place=/
    done
    df -Pk "$place" | awk 'NR == 2 { print $4, $1 "=" $6 }'
}

# Tells whether copies in the far home share their blocks with the original.
files_are_shared() {
    printf x >"part/shared.$$"
    cp --reflink=always "part/shared.$$" "part/copy.$$" 2>/dev/null
    shared=$?
    rm -f "part/shared.$$" "part/copy.$$"
    return "$shared"
}

# Copies a tree to where the job wants it: aside, then a rename.
files_put() { # ID PLACE WORD
    parent=${2%/*}
    mkdir -p "${parent:-/}" || files_fail "the folder cannot be made"
    for old in "$parent/.grass-tree-$3."*; do
        [ -d "$old" ] && ! far_look_at "${old##*.}" && rm -rf "$old"
    done
    aside="$parent/.grass-tree-$3.$$"
    reflink=
    case $(cp --help 2>&1) in
    *--reflink*) reflink=--reflink=auto ;;
    esac
    # -L: there are no symbolic links in tree/; without it some programs make hard links of equal contents.
    mkdir -p "part/$$" && cp -R -L $reflink "trees/$1/tree" "$aside" 2>"part/$$/words" || files_drop "$$" "$aside"
    if [ -f "trees/$1/links.tar" ]; then
        # Not -C: tar of GNU reads backslashes in it.
        (cd "$aside" && tar -xmof -) <"trees/$1/links.tar" 2>"part/$$/words" || files_drop "$$" "$aside"
    fi
    rm -rf "part/$$"
    : >"trees/$1/used"
    { : >"placed/$3"; } 2>/dev/null || files_drop "$$" "$aside"
    rmdir "$2" 2>/dev/null
    if files_is_there "$2"; then
        rm -rf "$aside" # another session was faster
    else
        mv "$aside" "$2" || files_drop "$$" "$aside"
        rm -rf "$2/${aside##*/}" # if another session was faster just now, `mv` has moved the copy into its folder
    fi
}

files_is_there() {
    [ -e "$1" ] || [ -L "$1" ]
}

# Says why a tree cannot be made, from the first words of a program, and removes what is there of it.
files_drop() { # PART FOLDER
    words=$(head -n 1 "part/$1/words" 2>/dev/null)
    rm -rf "$2" "part/$$"
    case $words in
    *blobs/*'No such file'*) # it was swept after this session had asked for it
        printf 'again\n'
        exit 0
        ;;
    esac
    files_fail "${words:-the tree cannot be written there}"
}

# ask ID WORD PART: is this tree here? Stdin: the place, the KiB of a copy, and if the answer is `need`, `KEY SIZE` lines
# up to the end. Says `done`, or `full KIB`, or `need` and then `free KIB DISK KIB DISK SHARED`, `miss KEY` lines and `end`.
files_ask() {
    files_enter
    files_read_word || files_fail "no place was named"
    files_place=$word
    read -r files_kib || files_fail "no size was named"
    if files_is_there "$files_place" && ! rmdir "$files_place" 2>/dev/null; then
        [ -f "placed/$2" ] || files_fail "it is there already, with other files"
        printf 'done\n'
        return
    fi
    if [ ! -d "trees/$1" ]; then
        files_take_turn "$3"
        [ ! -d "trees/$1" ] || files_leave_turn
    fi
    if [ -d "trees/$1" ]; then
        files_room=$(files_free "$files_place")
        if [ "${files_room% *}" -lt "$files_kib" ] && ! files_are_shared; then
            printf 'full %s\n' "${files_room% *}"
            return
        fi
        files_put "$1" "$files_place" "$2"
        printf 'done\n'
        return
    fi
    mkdir -p "part/$3" && files_settle "$3"
    rm -f "part/$files_turn.turn/busy"
    printf 'need\n'
    cat >"part/$3/want" || files_fail "the list cannot be written: the disk is full"
    files_are_shared && files_shared=1 || files_shared=0
    printf 'free %s %s %s\n' "$(files_free .)" "$(files_free "$files_place")" "$files_shared"
    ls blobs | awk '!asked { here[$1]; next } !($1 in here) { print "miss", $1 }' - asked=1 "part/$3/want"
    printf 'end\n'
}

# part KEY SIZE: one large content. Says `whole`, or `from OFFSET`; takes the rest from stdin and says `done` or `bad`.
files_part() {
    files_enter
    files_take_turn "$1"
    if [ -f "blobs/$1" ]; then
        printf 'whole\n'
        return
    fi
    part="part/$1.part"
    far_measure "$part"
    [ "$far_size" -le "$2" ] || rm -f "$part"
    : >>"$part"
    far_measure "$part"
    printf 'from %s\n' "$far_size"
    files_find_sum
    sum=${1%x}
    if [ -n "$files_sum" ] && [ "$far_size" -eq 0 ]; then
        sum=$(tee -a "$part" | $files_sum)
    else
        cat >>"$part"
        # Only when everything has come: nobody reads what comes while a large part is read.
        files_be_busy
        [ -z "$files_sum" ] || sum=$($files_sum "$part")
    fi
    sum=${sum%% *}
    far_is_size "$part" "$2" || files_fail "the disk is full, or the connection ended"
    if [ "$sum" != "${1%x}" ]; then
        rm -f "$part"
        printf 'bad\n'
        return
    fi
    case $1 in
    *x) chmod 700 "$part" ;;
    esac
    mv -f "$part" "blobs/$1" || files_fail "the content cannot be kept"
    printf 'done\n'
}

# build ID WORD PART: the rest of a tree. Stdin: the place, then an archive up to the end. Says `done` when the tree is
# where it is wanted, and `again` if a content that was here has gone.
files_build() {
    files_enter
    files_read_word || files_fail "no place was named"
    files_place=$word
    files_take_turn "$3"
    if [ ! -d "trees/$1" ]; then
        rm -rf "part/$3/tree" "part/$3/new" "part/$3/links.tar" "part/$3/whole"
        mkdir -p "part/$3/new" "part/$3/tree"
        tar -xmof - 2>"part/$3/words" || files_drop "$3" "part/$3/tree"
        # The last entry of the archive: without it the line was cut between two entries, which is no error for tar.
        [ -f "part/$3/whole" ] || files_fail "the connection ended"
        files_settle "$3" || files_fail "a content arrived damaged"
        rm -f "part/$3/want" "part/$3/good" "part/$3/words" "part/$3/whole"
        : >"part/$3/used"
        mv "part/$3" "trees/$1" || files_fail "the tree cannot be kept"
    fi
    files_leave_turn
    files_put "$1" "$files_place" "$2"
    printf 'done\n'
}

# prune: removes what a job that has succeeded left as it was sent. Stdin: the folder, then paths in it that end with zero
# bytes, what lies in a folder before the folder. Says `done`. A `find` that cannot compare the times removes nothing.
files_prune() {
    files_read_word || files_fail "no folder was named"
    files_enter
    wanted=$far_home/part/prune.$$
    trap 'rm -f "$wanted"' EXIT
    cat >"$wanted" || files_fail "the list cannot be written: the disk is full"
    [ ! -L "$word" ] && cd "$word" 2>/dev/null || files_fail "there is no such folder"
    # The order of the attempt was written when everything was there, and before the job began.
    if find ../spec.json -cnewer ../spec.json >/dev/null 2>&1; then
        xargs -0 sh -c 'find "$@" -prune \( -type f -o -type l \) ! -cnewer ../spec.json -exec rm -f {} +' sh \
            <"$wanted" 2>/dev/null
        xargs -0 rmdir <"$wanted" 2>/dev/null
    fi
    printf 'done\n'
}

# sweep KIB TREES: removes the trees that were not used for longest until the rest has at most these KiB and this count,
# contents that no tree has, and unfinished work of a week ago. Says `left KIB`.
files_sweep() {
    files_enter
    find part -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {} +
    find placed -type f -mtime +30 -exec rm -f {} +
    find blobs -type f -links 1 -mtime +0 -exec rm -f {} +
    count=$(ls trees | wc -l)
    for used in $(ls -tr trees/*/used 2>/dev/null); do
        [ "$(files_kept)" -gt "$1" ] || [ "$count" -gt "$2" ] || break
        # Renamed first: a tree is whole or not there.
        mv "${used%/used}" "part/swept.$$" && rm -rf "part/swept.$$"
        find blobs -type f -links 1 -exec rm -f {} +
        count=$((count - 1))
    done
    printf 'left %s\n' "$(files_kept)"
}

# Prints the KiB of everything that is kept for later jobs.
files_kept() {
    du -sk blobs trees part | awk '{ sum += $1 } END { print sum }'
}

# list WORD: the files below a folder. Stdin: the folder, then paths in it up to the end. Each is said as a line
# `WORD MODE SECOND SIZE INODE MTIME CTIME ./PATH`, each time in three words; a path may have newlines, but not the word.
# `WORD error WORDS` says what could not be read. The last line is `WORD end`.
files_list() {
    files_read_word || files_fail "no folder was named"
    cd "$word" 2>/dev/null || files_fail "there is no such folder"
    printf 'list\n'
    exec 3>&1
    while files_read_word; do
        files_is_there "./$word" || continue
        # -H: a folder that is named may be a link to a larger disk. Its first words on stderr only: a login shell may
        # write to stderr too.
        words=$(find -H "./$word" \( -type f -o -type d -o -type l \) -exec stat -c "$1 %f %Y %s %i %y %z %n" {} + \
            2>&1 >&3 3>&- | { head -n 1; cat >/dev/null; })
        [ -z "$words" ] || printf '%s error %s\n' "$1" "$words"
    done
    printf '%s end\n' "$1"
}

# archive WORD: an archive of files. Stdin: the folder, then paths that end with zero bytes. After the archives comes one
# block that begins with the word and the exit code of tar.
files_archive() {
    files_read_word || files_fail "no folder was named"
    files_enter
    wanted=$far_home/part/give.$$
    trap 'rm -f "$wanted"' EXIT
    # Kept first: nobody would read the archive while the list is still coming.
    cat >"$wanted" || files_fail "the list cannot be written: the disk is full"
    cd "$word" 2>/dev/null || files_fail "there is no such folder"
    printf 'give\n'
    # Without it, tar of GNU reads backslashes in names.
    as_named=''
    case $(tar --help 2>&1) in
    *--no-unquote*) as_named=--no-unquote ;;
    esac
    xargs -0 tar $as_named -cf - -- <"$wanted"
    printf '%-512s' "$1 $?"
}

# pour OFFSET: one large file. Stdin: the folder, the path, and `SIZE INODE MTIME CTIME` as listed. Says `pour` and then
# the bytes from the offset, or `changed`.
files_pour() {
    files_read_word || files_fail "no folder was named"
    cd "$word" 2>/dev/null || files_fail "there is no such folder"
    files_read_word || files_fail "no file was named"
    IFS= read -r listed
    if [ ! -f "./$word" ] || [ "$(stat -c '%s %i %y %z' "./$word")" != "$listed" ]; then
        printf 'changed\n'
        return
    fi
    printf 'pour\n'
    if [ "$1" -eq 0 ]; then
        cat "./$word"
    else
        tail -c "+$(($1 + 1))" "./$word"
    fi
}
