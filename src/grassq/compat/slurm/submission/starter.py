"""The lines of shell that a job begins with: Slurm's variables, the output files, then the script or the command.

The lines and the script are stored with the job, in base64: so nothing in them is taken for a placeholder, and the job
runs on any machine that has a POSIX shell. The script is written to the run dir of the attempt and started from there,
so its first line counts, and `$0` is the path of a file, as under Slurm.
"""

from __future__ import annotations

import re
import shlex
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grassq.compat.slurm.submission.arrays import Array
from grassq.compat.slurm.submission.script import interpreter
from grassq.core.names import shown
from grassq.errors import BadInput

#: The variable with the lines. Linux takes variables of 128 KiB, so that longer lines have several.
VARIABLE = "SBATCH_STARTER"
PART_BYTES = 96 << 10
SCRIPT_NAME = "slurm_script"
#: What %a is without an array, as under Slurm.
NO_TASK = b"4294967294"
#: Variables of the job that submitted this one, which are not those of this one.
_FOREIGN = (
    "SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID SLURM_ARRAY_TASK_COUNT SLURM_ARRAY_TASK_MIN SLURM_ARRAY_TASK_MAX "
    "SLURM_ARRAY_TASK_STEP SLURM_JOB_GPUS SLURM_GPUS_ON_NODE SLURM_RESTART_COUNT SLURM_CPUS_PER_TASK "
    "SLURM_MEM_PER_NODE SLURM_MEM_PER_CPU SLURM_STEP_ID SLURM_STEPID SLURM_STEP_NODELIST SLURM_STEP_NUM_TASKS "
    "SLURM_STEP_NUM_NODES"
)
_CODE = re.compile(r"%(?P<width>\d{0,2})(?P<code>[%AabJjNnstux])")


#: Does nothing: its words tell where the output goes, for `scontrol show job`.
_TELLS = b":"


class Files(NamedTuple):
    """The files of a job's output and input, as patterns of Slurm."""

    #: None: the log of Grass.
    output: str | None
    #: None: the same file as the output.
    error: str | None = None
    input: str | None = None
    append: bool = False


class JobStart(NamedTuple):
    """What a job starts."""

    #: None: the words are a command.
    script: bytes | None
    words: Sequence[bytes]
    #: Slurm's variables that are known at the submission, and those of --export.
    variables: Sequence[tuple[bytes, bytes]]
    #: None: the output is the log only, as of srun.
    files: Files | None
    #: What the command is called in lists: the name of the script.
    title: str
    name: str
    user: str
    #: A folder with Slurm's plain names, in front of PATH.
    programs: str | None
    array: Array | None


def starter_pairs(start: JobStart) -> list[tuple[bytes, bytes]]:
    """Return the variables that carry the lines."""
    text = b64encode(_lines(start))
    parts = [text[index : index + PART_BYTES] for index in range(0, len(text), PART_BYTES)]
    return [(variable.encode(), part) for variable, part in zip(_names(len(parts)), parts, strict=True)]


def starter_words(start: JobStart, pairs: int) -> list[bytes]:
    """Return the command of the job. Its words tell what runs; the lines of the starter have the same words again."""
    joined = "".join(f"${name}" for name in _names(pairs))
    told = b"" if start.files is None else _TELLS + b"".join(b" " + quoted(each) for each in _told(start.files)) + b"; "
    shown_words = [
        word if b"{" not in word else b"..." for word in (start.title.encode("utf-8", "surrogateescape"), *start.words)
    ]
    words = shown_words if start.script is not None else shown_words[1:] or shown_words
    return [b"/bin/sh", b"-c", told + f'eval "$(printf %s "{joined}" | base64 -d)"'.encode(), *words]


def _told(files: Files) -> tuple[bytes, ...]:
    """Return the names of a job's files as its command tells them; a name with braces would mean something there."""
    names = [each or "" for each in (files.output, files.error, files.input)]
    return tuple([("..." if {"{", "}"} & set(name) else name).encode("utf-8", "surrogateescape") for name in names])


def told_files(command: Sequence[str]) -> Files | None:
    """Return the files that the command of a job tells; None for a job that was not submitted by sbatch."""
    line = command[2] if len(command) > 2 else ""
    if not line.startswith(_TELLS.decode() + " "):
        return None
    try:
        output, error, input_ = shlex.split(line.rpartition("; eval ")[0])[1:]
    except ValueError:
        return None
    return Files(output or None, error or None, input_ or None)


def _names(count: int) -> list[str]:
    return [VARIABLE if number == 0 else f"{VARIABLE}_{number}" for number in range(count)]


def _lines(start: JobStart) -> bytes:
    lines = [
        b"unset " + " ".join(_names(_count(start))).encode() + b" " + _FOREIGN.encode(),
        *(b"export %s=%s" % (name, quoted(value)) for name, value in start.variables),
        b"sb_n=${GRASS_WORKER:-$(hostname)} sb_j=$GRASS_JOB_ID sb_a=$GRASS_JOB_ID sb_i=%s" % NO_TASK,
        *_array_lines(start.array),
        b"export SLURM_JOB_ID=$sb_j SLURM_JOBID=$sb_j SLURM_TASK_PID=$$",
        b"export SLURM_NODELIST=$sb_n SLURM_JOB_NODELIST=$sb_n SLURMD_NODENAME=$sb_n SLURM_TOPOLOGY_ADDR=$sb_n",
        b'[ "$GRASS_ATTEMPT" = 1 ] || export SLURM_RESTART_COUNT=$((GRASS_ATTEMPT - 1))',
        b'[ -z "$GRASS_GPU" ] || export SLURM_JOB_GPUS=$GRASS_GPU '
        b"SLURM_GPUS_ON_NODE=$(IFS=,; set -f -- $GRASS_GPU; echo $#)",
    ]
    if start.programs is not None:
        programs = quoted(start.programs.encode("utf-8", "surrogateescape"))
        lines.append(b"[ ! -x %s/srun ] || export PATH=%s:$PATH" % (programs, programs))
    lines += [b"set --" + b"".join(b" " + quoted(word) for word in start.words)]
    if start.files is not None:
        lines += _file_lines(start.files, start)
    return b"\n".join([*lines, *_last_lines(start), b""])


def _count(start: JobStart) -> int:
    """Return how many variables there may be: as many as the longest script needs."""
    size = (
        len(start.script or b"")
        + sum(map(len, start.words))
        + sum(len(name + value) for name, value in start.variables)
    )
    return 2 + 8 * size // PART_BYTES


def _array_lines(array: Array | None) -> list[bytes]:
    """Return the lines that tell a task its index. The id of the array is that of its first job."""
    if array is None:
        return []
    indices = array.indices
    if indices == tuple(range(indices[0], indices[-1] + 1, array.step)):
        place = [b"sb_p=$(((sb_i - %d) / %d))" % (indices[0], array.step)]
    else:
        listed = " ".join(map(str, indices)).encode()
        place = [b"sb_p=0", b"for sb_x in %s; do [ $sb_x != $sb_i ] || break; sb_p=$((sb_p + 1)); done" % listed]
    return [
        b"sb_i=$GRASS_ARRAY_INDEX",
        *place,
        b"sb_a=${GRASS_SWEEP:-$((sb_j - sb_p))}",
        b"export SLURM_ARRAY_JOB_ID=$sb_a SLURM_ARRAY_TASK_ID=$sb_i SLURM_ARRAY_TASK_COUNT=%d" % len(indices),
        b"export SLURM_ARRAY_TASK_MIN=%d SLURM_ARRAY_TASK_MAX=%d SLURM_ARRAY_TASK_STEP=%d"
        % (indices[0], indices[-1], array.step),
    ]


def _file_lines(files: Files, start: JobStart) -> list[bytes]:
    """Return the lines that open the files.

    The log of Grass gets the name of the output file, so that it is one file with two names; where that is not
    possible, and with a file for errors, the output goes to the files only, and the log says where it is.
    """
    arrow = b">>" if files.append else b">"
    lines = [] if files.input is None else [b"exec <%s" % expanded(files.input, start)]
    if files.error is not None:
        lines += _named(b"sb_e", files.error, start)
    if files.output is None:
        return [*lines, b'exec 2%s"$sb_e"' % arrow] if files.error is not None else lines
    lines += _named(b"sb_o", files.output, start)
    if files.error is not None:
        both = b'exec %s"$sb_o" 2>&1' % arrow
        lines += [b'echo "grass: the output is in $sb_o, the errors are in $sb_e"']
        return [*lines, b'if [ "$sb_o" = "$sb_e" ]; then %s; else exec %s"$sb_o" 2%s"$sb_e"; fi' % (both, arrow, arrow)]
    aside = [b'echo "grass: the output is in $sb_o"', b'exec %s"$sb_o" 2>&1' % arrow]
    if files.append:
        return [*lines, *aside]
    return [
        *lines,
        b'if [ ! -L "$sb_o" ] && { [ ! -e "$sb_o" ] || [ -f "$sb_o" ]; } &&',
        b'ln -fL /proc/self/fd/1 "$sb_o" 2>/dev/null; then',
        b'chmod "$(printf %o $((0666 & ~$(umask))))" "$sb_o"',
        b"else",
        *aside,
        b"fi",
    ]


def _named(variable: bytes, pattern: str, start: JobStart) -> list[bytes]:
    """Return the lines that name a file and make its folder."""
    return [
        b"%s=%s" % (variable, expanded(pattern, start)),
        b'case $%s in */*) mkdir -p -- "${%s%%/*}" ;; esac' % (variable, variable),
    ]


def _last_lines(start: JobStart) -> list[bytes]:
    if start.script is None:
        return [b'exec "$@"']
    usual = b" ".join(quoted(word) for word in interpreter(start.script))
    return [
        b"sb_s=$GRASS_RUN_DIR/%s" % SCRIPT_NAME.encode(),
        b'rm -f "$sb_s"; (umask 077; printf %%s %s >"$sb_s") && chmod 700 "$sb_s" || exit 1' % quoted(start.script),
        # A folder may lie on a file system whose files are not started.
        b'[ -x "$sb_s" ] || exec %s "$sb_s" "$@"' % usual,
        b'exec "$sb_s" "$@"',
    ]


def quoted(word: bytes) -> bytes:
    """Return a word for a shell; any bytes but NUL."""
    return b"'" + word.replace(b"'", b"'\\''") + b"'"


def filled(pattern: str, known: Mapping[str, str]) -> str:
    """Return a file pattern such as %x-%j.out with the values of its letters."""

    def value(match: re.Match[str]) -> str:
        text = known.get(match["code"], "")
        return text.zfill(int(match["width"] or 0)) if text.isdigit() else text

    return _CODE.sub(value, pattern)


def expanded(pattern: str, start: JobStart) -> bytes:
    """Return a file pattern such as %x-%j.out as a word of shell that knows sb_j, sb_a, sb_i and sb_n."""
    if "\0" in pattern:
        raise BadInput(f"the file name {shown(pattern)} holds a NUL byte")
    known = {"%": "%", "n": "0", "s": "batch", "t": "0", "u": start.user, "x": start.name}
    variables = {"J": b"sb_j", "j": b"sb_j", "A": b"sb_a", "a": b"sb_i"}
    parts: list[bytes] = []
    end = 0
    for match in _CODE.finditer(pattern):
        parts.append(quoted(pattern[end : match.start()].encode("utf-8", "surrogateescape")))
        end, code, width = match.end(), match["code"], int(match["width"] or 0)
        if code in variables:
            parts.append(b'"$(printf %%0%dd $%s)"' % (width or 1, variables[code]))
        elif code == "b":
            parts.append(b'"$((sb_i % 10))"')
        elif code == "N":
            parts.append(b'"${sb_n%%.*}"')
        else:
            value = known[code]
            parts.append(quoted((value.zfill(width) if value.isdigit() else value).encode("utf-8", "surrogateescape")))
    return b"".join([*parts, quoted(pattern[end:].encode("utf-8", "surrogateescape"))])
