"""Guesses why a job failed, from how it ended and from the last lines of its log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

#: How many of the last lines are read, and how many characters of each.
LINES_READ = 12
LINE_CHARS = 400
#: The longest part of a line that is repeated in a cause.
QUOTED_CHARS = 80
#: A name of a file or a program is at most this long.
NAME_CHARS = 140

SIGINT, SIGKILL, SIGSEGV, SIGTERM = 2, 9, 11, 15
#: What a shell adds to the number of the signal that ended its command.
SHELL_BASE = 128
_SIGNALS = {
    2: "interrupted (signal 2)",
    4: "illegal instruction (signal 4)",
    6: "aborted (signal 6)",
    7: "bus error (signal 7), perhaps shared memory is full",
    8: "arithmetic error (signal 8)",
    11: "segmentation fault (signal 11)",
    13: "broken pipe (signal 13)",
    24: "over its limit of CPU time (signal 24)",
    25: "over its limit of file size (signal 25)",
}


class Cause(Struct, frozen=True):
    """A guess. `kind` is one word for programs, `text` is a short phrase for people that says how sure the guess is."""

    kind: str
    text: str


#: (kind, text, pattern). The first group of a pattern, if there is one, is put into the text.
_PATTERNS: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (kind, text, re.compile(pattern))
    for kind, text, pattern in (
        (
            "out_of_memory",
            "probably out of GPU memory",
            r"CUDA out of memory|OutOfMemoryError: (?:CUDA|HIP)|HIP out of memory|CUDA_ERROR_OUT_OF_MEMORY"
            r"|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|RESOURCE_EXHAUSTED|OOM when allocating"
            r"|MPS backend out of memory|XPU out of memory",
        ),
        (
            "out_of_memory",
            "probably out of memory",
            r"(?:^|[\s.])MemoryError\b|[Oo]ut of memory|oom-kill|OOM[ -]?[Kk]ill|std::bad_alloc|Cannot allocate memory"
            r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory|JavaScript heap out of memory"
            r"|java\.lang\.OutOfMemoryError|_ArrayMemoryError|unable to allocate [\d.]+ [KMGT]iB",
        ),
        (
            "no_space",
            "probably no space left on a disk",
            r"No space left on device|Disk quota exceeded|ENOSPC|database or disk is full",
        ),
        (
            "nccl",
            "probably an error of NCCL",
            r"\bNCCL (?:[Ee]rror|failure)|ncclSystemError|ncclInternalError"
            r"|ncclUnhandledCudaError|DistBackendError",
        ),
        (
            "cuda",
            "probably an error of CUDA",
            r"CUDA error|CUDA driver|device-side assert|cudaError[A-Z]|CUDNN_STATUS_|CUBLAS_STATUS_"
            r"|no CUDA-capable device|No CUDA GPUs are available|HIP error|illegal memory access",
        ),
        (
            "import",
            "probably an import error: No module named {}",
            r"(?:ModuleNotFoundError|ImportError): No module named ['\"]?([\w.\-]{1,80})",
        ),
        ("import", "probably an import error: {}", r"\bImportError: (.{1,200})"),
        (
            "import",
            "probably a missing library: {}",
            r"error while loading shared libraries: ([\w.+\-/]{1,80})",
        ),
        ("command_not_found", "probably command not found: {}", r"([\w.+\-/]{1,80}): (?:command )?not found\s*$"),
        ("timed_out", "probably timed out", r"\bTimeoutError\b|\bTimeoutExpired\b|[Tt]imed out\b|DEADLINE_EXCEEDED"),
        ("file_not_found", "probably a file not found: {}", r"FileNotFoundError: .{0,80}?: ['\"](.{1,200}?)['\"]"),
        (
            "file_not_found",
            "probably a file not found: {}",
            r"([^\s:'\"]{1,120})['\"]?: (?:\[Errno 2\] )?No such file or directory",
        ),
        ("file_not_found", "probably a file not found", r"FileNotFoundError|No such file or directory"),
        ("permission", "probably permission denied: {}", r"PermissionError: .{0,80}?: ['\"](.{1,200}?)['\"]"),
        ("permission", "probably permission denied", r"PermissionError|[Pp]ermission denied|Operation not permitted"),
        (
            "connection",
            "probably a network error: {}",
            r"\b((?:ConnectionRefused|ConnectionReset|ConnectionAborted|BrokenPipe|Connection)Error)\b",
        ),
        (
            "connection",
            "probably a network error",
            r"Connection refused|Could not resolve host|Name or service not known|Network is unreachable"
            r"|Temporary failure in name resolution",
        ),
        ("port_in_use", "probably a port in use", r"Address already in use"),
        ("assertion", "probably a failed assertion: {}", r"\bAssertionError: (.{1,200})"),
        ("assertion", "probably a failed assertion", r"\bAssertionError\b|[Aa]ssertion .{0,120}failed"),
        ("interrupted", "probably interrupted", r"^KeyboardInterrupt\b"),
        ("usage", "probably wrong arguments: {}", r"^\S{1,80}: error: (.{1,200})"),
        (
            "nan",
            "probably a loss that is not a number: {}",
            r"((?:[Ll]oss|[Gg]radient)\S{0,20} (?:is |became |= ?)?(?:nan|NaN|inf)\b.{0,60})",
        ),
        ("segfault", "probably a segmentation fault", r"Segmentation fault|Fatal Python error: Segmentation"),
    )
)
#: What a line must hold before a pattern is tried that begins with any word: the search for it takes long.
_NEEDLES = {
    expression.pattern: needle
    for _, _, expression in _PATTERNS
    for needle in ("not found", "No such file or directory")
    if needle in expression.pattern and expression.pattern.startswith("(")
}
#: The first patterns, up to the import errors, count wherever they are in the last lines: what a program writes after
#: them ("the child failed") says less. Of the others, the last line that matches anything counts.
_STRONG = 1 + max(index for index, (kind, _, _) in enumerate(_PATTERNS) if kind == "import")
#: The last line of a traceback of Python: the name of an exception, perhaps with its module, and its message.
_EXCEPTION = re.compile(
    r"^((?:[A-Za-z_]\w{0,60}\.){0,6}[A-Z]\w{0,60}(?:Error|Exception|Warning|Exit|Interrupt|Failure))(?:: (.*))?$"
)
_PANIC = re.compile(r"^(?:thread '.{0,60}' )?panicked at (.{1,200})|^panic: (.{1,200})")


def guess(
    outcome: str | None, signal: int | None, exit_code: int | None, lines: Sequence[str], error: str | None = None
) -> Cause | None:
    """Return why a job probably failed, or None; `lines` are the last lines of its log, the newest last.

    What the log says comes first. Without a word in the log, the signal or the exit code is all that is known.
    """
    if outcome in ("lost", "unknown", "cancelled"):
        return None  # the job's own error says what is known
    if outcome == "spawn_failed":
        return _in_lines([error or ""])
    if outcome == "timed_out":
        return Cause("timed_out", error or "over its time limit")
    if exit_code == 0:
        return None
    ended_by = signal if signal is not None else _signal_of_shell(exit_code)
    recent = [line.strip()[:LINE_CHARS] for line in lines if line.strip()][-LINES_READ:]
    if (found := _in_lines(recent)) is not None:
        return found
    if ended_by == SIGKILL:
        return Cause("killed", "killed by signal 9, perhaps out of memory")
    if ended_by == SIGTERM:
        return Cause("killed", "ended by signal 15 from outside of Grass")
    if ended_by in _SIGNALS:
        return Cause("signal", _SIGNALS[ended_by])
    if ended_by is not None:
        return Cause("signal", f"ended by signal {ended_by}")
    return {
        126: Cause("not_executable", "probably a command that cannot be executed (126)"),
        127: Cause("command_not_found", "probably command not found (127)"),
        124: Cause("timed_out", "probably timed out (124)"),
    }.get(exit_code or 0)


def _signal_of_shell(exit_code: int | None) -> int | None:
    """Return the signal that an exit code of a shell stands for: 137 is 128 + 9."""
    known = {SIGINT, SIGKILL, SIGSEGV, SIGTERM, *_SIGNALS}
    return None if exit_code is None or exit_code - SHELL_BASE not in known else exit_code - SHELL_BASE


def _in_lines(lines: Sequence[str]) -> Cause | None:
    """Return the cause that the lines name."""
    for pattern in _PATTERNS[:_STRONG]:
        for line in reversed(lines):
            if (found := _matched(pattern, line)) is not None:
                return found
    for line in reversed(lines):
        for pattern in _PATTERNS[_STRONG:]:
            if (found := _matched(pattern, line)) is not None:
                return found
        if (match := _EXCEPTION.match(line)) is not None:
            message = f": {_quoted(match[2])}" if match[2] else ""
            return Cause("exception", f"python exception {match[1].rpartition('.')[2]}{message}")
        if (match := _PANIC.match(line)) is not None:
            return Cause("panic", f"panic: {_quoted(match[1] or match[2])}")
    return None


def _matched(pattern: tuple[str, str, re.Pattern[str]], line: str) -> Cause | None:
    kind, text, expression = pattern
    needle = _NEEDLES.get(expression.pattern, "")
    at = line.rfind(needle)
    # The name is right before the words that are looked for.
    match = expression.search(line, max(0, at - NAME_CHARS) if needle else 0) if at >= 0 else None
    return None if match is None else Cause(kind, text.format(_quoted(match[1])) if "{}" in text else text)


def _quoted(text: str) -> str:
    """Return a part of a log for a short phrase: printable, and cut."""
    text = "".join(char if char.isprintable() else " " for char in text[: 2 * QUOTED_CHARS]).strip()
    return text if len(text) <= QUOTED_CHARS else text[: QUOTED_CHARS - 1] + "…"
