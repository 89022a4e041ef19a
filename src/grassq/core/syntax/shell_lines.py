"""Command lines: which lines of a text are commands, and which commands are plain words that need no shell."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from functools import lru_cache

from grassq.core.names import shown
from grassq.errors import BadInput

#: Commands in one submission, and bytes in one command.
LINES_MAX = 1_000_000
LINE_BYTES_MAX = 2 << 20
#: Commands in one submission from another machine: every other caller waits while they are stored.
REMOTE_LINES_MAX = 2_000
#: Bytes and words of a wrapper, and how many wrappers are kept split: jobs of a queue share one.
WRAP_BYTES_MAX = 16 << 10
WRAP_WORDS_MAX = 1_000
WRAPS_CACHED = 64

_BLANKS = b" \t"
#: Bytes that every shell passes on unchanged, and bytes that separate words. Bytes above ASCII are parts of letters.
_HARMLESS = (
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-" + _BLANKS + bytes(range(0x80, 0x100))
)
#: Grass fills in `{gpu}`; a shell leaves braces alone that hold neither a comma nor two dots.
_PLACEHOLDER = re.compile(rb"\{[a-z][a-z0-9_]*\}|\{job\.(?:id|name|attempt)\}")
#: To zsh a word that begins with `=` is the path of a program.
_EQUALS_FIRST = re.compile(rb"(?:^|[ \t])=")
#: NAME= at the start of a word, as in a shell: no program has such a name.
ASSIGNMENT = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*=")

# Commands the usual shells (sh, bash, dash, ksh, zsh, fish, csh) run themselves: a program of the name may differ.
_SHELL_WORDS = frozenset(
    b"""
    . : @ [ alias and argparse autoload begin bg bind bindkey block break breaksw builtin bye caller case cd chdir
    clone command commandline compadd compcall compctl compgen complete compopt contains continue coproc count
    declare default dirs disable disown do done echo echotc echoti elif else emulate enable end endif endsw esac
    eval exec exit export false fc fg fi filetest for foreach function functions getcap getopts glob hash hashstat
    help history if in integer jobs kill let limit local logout mapfile math nameref noglob not notify onintr or
    path popd print printf private pushd pushln pwd r random read readarray readonly rehash repeat return sched
    select set set_color setcap setenv setopt setty shift shopt source status stop string suspend switch test then
    time times trap true ttyctl type typeset ulimit umask unalias unfunction unhash unlimit unset unsetenv unsetopt
    until vared wait whence where which while zcompile zformat zftp zle zmodload zparseopts zprof zpty zregexparse
    zsocket zstyle ztcp
    """.split()
)


def split(text: bytes) -> list[bytes]:
    """Return the lines of a text, with either of the two usual line ends."""
    return text.replace(b"\r\n", b"\n").removesuffix(b"\r").split(b"\n")


def parts_of(text: bytes) -> list[bytes]:
    """Return a text in parts of REMOTE_LINES_MAX lines, as many as one submission from another machine may have."""
    lines = split(text.removesuffix(b"\n"))
    if len(lines) <= (at_once := REMOTE_LINES_MAX):
        return [text]
    return [b"\n".join(lines[at : at + at_once]) for at in range(0, len(lines), at_once)]


def command(line: bytes) -> bytes | None:
    """Return the command on a line; None if the line is blank or starts with #."""
    # Not stripped at its end: the blank after a backslash belongs to the command.
    line = line.lstrip(_BLANKS)
    return line if line and not line.startswith(b"#") else None


def check(line: bytes) -> None:
    """Refuse a line that cannot be a command, and say why."""
    if len(line) > LINE_BYTES_MAX:
        raise BadInput(f"the command is longer than {LINE_BYTES_MAX:,} bytes")
    if b"\0" in line:
        raise BadInput("the command holds a NUL byte, which no program can be given")
    if line.endswith(b"\\") and (len(line) - len(line.rstrip(b"\\"))) % 2:
        raise BadInput("the command ends in a backslash; it cannot go on in the next line, which is another command")


def plain_words(line: bytes) -> tuple[bytes, ...] | None:
    """Return the words of a line that means just these words to every shell; [] if blank, None for any other."""
    special = line.translate(None, _HARMLESS)
    if special and (special.strip(b"{}") or _PLACEHOLDER.sub(b"", line).translate(None, _HARMLESS)):
        return None
    if b"=" in line and _EQUALS_FIRST.search(line):
        return None
    return tuple(line.split())


def quoting_hint(word: bytes) -> str:
    """Return how to write a whole command that was given as one word, for the end of a message; "" for other words."""
    if len(word.split()) < 2:
        return ""
    if plain_words(word) is None:
        return "; to run it as a line of a shell, add --shell"
    return "; leave out the quotes around the command, or add --shell"


@lru_cache(WRAPS_CACHED)
def wrapper_words(line: bytes, what: str = "--wrap") -> tuple[bytes, ...]:
    """Return the words to put before a command, split as a shell splits them; no shell reads them.

    Raise BadInput for a line that has an open quote, too many words, or no program to begin with.
    """
    if len(line) > WRAP_BYTES_MAX or b"\0" in line:
        raise BadInput(f"{what} has at most {WRAP_BYTES_MAX:,} bytes, and no NUL byte; put the words into a script")
    try:
        # Every byte is one character of Latin-1, so any word comes back as it was.
        words = tuple([word.encode("latin-1") for word in shlex.split(line.decode("latin-1"))])
    except ValueError as error:
        raise BadInput(f"{what} {shown(line)} cannot be split into words: {str(error).lower()}") from None
    if not words or not words[0] or words[0] != as_program(words)[0]:
        instead = f", not with {shown(words[0])}" if words else ""
        raise BadInput(f'{what} begins with a program, such as {what} "nice -n 10"{instead}')
    if len(words) > WRAP_WORDS_MAX:
        raise BadInput(f"{what} has {len(words)} words; {WRAP_WORDS_MAX} are the most")
    return words


def as_program(words: Sequence[bytes]) -> list[bytes]:
    """Return words whose first can be neither an option nor a variable to a wrapper before them."""
    if words and (words[0].startswith(b"-") or ASSIGNMENT.match(words[0])):
        return [b"./" + words[0], *words[1:]]
    return [*words]


def may_be_program(word: bytes) -> bool:
    """Tell whether a first word can name a program: a shell has no command of this name, and it is no assignment."""
    return word not in _SHELL_WORDS and ASSIGNMENT.match(word) is None and not word.startswith(b"-")
