"""A batch script: its checks, and the options in its #SBATCH lines."""

from __future__ import annotations

from collections.abc import Sequence

from grassq.compat.slurm.submission.options import Reader, Typed
from grassq.core.names import shown
from grassq.errors import BadInput

#: The most bytes of a script: it is given to the job in variables, of which Linux takes 2 MiB at least.
SCRIPT_MAX = 1 << 20
#: What Slurm puts before the line of --wrap.
WRAPPED = b"#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"
_MARK = b"#SBATCH"


def wrapped(line: str) -> bytes:
    """Return the script of --wrap."""
    return WRAPPED + line.encode("utf-8", "surrogateescape") + b"\n"


def check_script(content: bytes) -> None:
    """Raise BadInput for what Slurm does not take as a script, in Slurm's words."""
    if not content:
        raise BadInput("Batch script is empty!")
    if len(content) > SCRIPT_MAX:
        raise BadInput(f"the batch script has more than {SCRIPT_MAX:,} bytes; let it call another program")
    if not content.strip():
        raise BadInput("Batch script contains only whitespace!")
    if not content.startswith(b"#!"):
        raise BadInput(
            "This does not look like a batch script.  The first line must start with #! followed by the path to an "
            "interpreter. For instance: #!/bin/sh"
        )
    if b"\0" in content:
        raise BadInput("the batch script contains a NULL character '\\0'")
    if b"\r\n" in content:
        raise BadInput("Batch script contains DOS line breaks (\\r\\n) instead of expected UNIX line breaks (\\n).")


def interpreter(content: bytes) -> list[bytes]:
    """Return the program in the first line, and its one argument, as Linux reads them."""
    words = content.split(b"\n", 1)[0][2:].strip(b" \t").split(None, 1)
    return words or [b"/bin/sh"]


def read_options(content: bytes, reader: Reader) -> Typed:
    """Return the options of the #SBATCH lines that come before the first command."""
    typed: Typed = {}
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.startswith(b"#"):
            if line.strip():
                break
            continue
        if not line.startswith(_MARK) or line[len(_MARK) : len(_MARK) + 1].strip():
            continue
        where = f" in line {number} of the script"
        found, rest = reader.read(_words(line[len(_MARK) :].decode("utf-8", "surrogateescape"), where), where)
        if rest:
            raise BadInput(f"{shown(rest[0])}{where} is not an option; each line has options only")
        typed |= found
    return typed


def _words(text: str, where: str) -> Sequence[str]:
    """Split a line as Slurm does: quotes and backslashes, and a # before a word ends the line."""
    words: list[str] = []
    word: str | None = None
    quote = ""
    letters = iter(text)
    for letter in letters:
        if letter == "\\" and quote != "'":
            word = (word or "") + next(letters, "")
        elif quote:
            quote, word = ("", word) if letter == quote else (quote, (word or "") + letter)
        elif letter in "\"'":
            quote, word = letter, word or ""
        elif letter.isspace():
            words += [] if word is None else [word]
            word = None
        elif letter == "#" and word is None:
            break
        else:
            word = (word or "") + letter
    if quote:
        raise BadInput(f"a quote is not closed{where}")
    return [*words, *([] if word is None else [word])]
