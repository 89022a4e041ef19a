"""Reads commands from the bytes of stdin: one line, lines joined by a backslash, or a block of lines."""

from __future__ import annotations

import re
from typing import NamedTuple

#: Bytes of one command. A line for the shell is one argument, and Linux limits the length of an argument.
COMMAND_MAX = 131_071

_BLANKS = b" \t"
_BLOCK = re.compile(rb"<<([A-Za-z0-9_]+)")


class Command(NamedTuple):
    """One command."""

    #: The text that the shell runs.
    text: bytes
    #: The text as typed: piped in again, it is the same command.
    typed: bytes
    #: The line that is printed when the command starts.
    shown: bytes


class Complaint(NamedTuple):
    """Invalid input: the number of its first line, and the reason."""

    number: int
    why: str


Found = Command | Complaint


class CommandReader:
    """Splits a stream of bytes into commands."""

    def __init__(self) -> None:
        self._number = 0
        self._began = 0
        #: The unfinished line. If too long, only the ending that decides whether the next line continues it.
        self._partial = b""
        self._is_too_long = False
        #: The lines so far of an unfinished command, and the word that ends it if it is a block.
        self._lines: list[bytes] = []
        self._word: bytes | None = None
        self._size = 0

    def feed(self, data: bytes) -> list[Found]:
        """Take the next bytes and return the commands completed by them."""
        first, *rest = data.split(b"\n")
        found: list[Found] = []
        for part in rest:
            self._whole_line(first, found)
            first = part
        self._partial += first
        if self._is_too_long or len(self._partial) > COMMAND_MAX + 1:  # one extra byte for a carriage return
            self._partial, self._is_too_long = _tail(self._partial), True
        return found

    def end(self) -> list[Found]:
        """Return the commands completed by the end of the input, or a complaint about an unfinished command."""
        found: list[Found] = []
        if self._partial or self._is_too_long:
            self._whole_line(b"", found)
        if self._lines:
            if self._word is not None:
                word = self._word.decode()
                found.append(Complaint(self._began, f"`<<{word}` has no end: a line that is only `{word}`"))
            else:
                found.append(Complaint(self._began, "the last line ends in a backslash, but no line follows"))
            self._forget()
        return found

    def left(self) -> bytes:
        """Return the unfinished command as typed."""
        return b"\n".join([*self._lines, *([self._partial] if self._partial and not self._is_too_long else [])])

    def _whole_line(self, rest: bytes, found: list[Found]) -> None:
        self._number += 1
        line = (self._partial + rest).removesuffix(b"\r")
        if not self._lines:
            self._began, self._size = self._number, 0
        self._size += (COMMAND_MAX + 1 if self._is_too_long else len(line)) + 1
        self._partial, self._is_too_long = b"", False
        if self._word is not None:
            self._in_block(line, found)
        elif self._lines:
            self._joined(line, found)
        else:
            self._first(line, found)

    def _first(self, line: bytes, found: list[Found]) -> None:
        block = _BLOCK.fullmatch(line)
        if block is not None:
            self._lines, self._word, self._size = [line], block[1], 0
        elif self._size <= COMMAND_MAX + 1 and line.lstrip(_BLANKS)[:1] in (b"", b"#"):
            return
        elif _goes_on(line):
            self._lines = [line]
        else:
            self._found(Command(line.lstrip(_BLANKS), line, line.rstrip()), found)

    def _joined(self, line: bytes, found: list[Found]) -> None:
        self._keep(line)
        if _goes_on(line):
            return
        typed = b"\n".join(self._lines)
        # The shell joins the lines itself; `shown` is the joined line.
        self._found(Command(typed.lstrip(_BLANKS), typed, typed.replace(b"\\\n", b"").rstrip()), found)

    def _in_block(self, line: bytes, found: list[Found]) -> None:
        if line != self._word:
            self._keep(line)
            return
        script = self._lines[1:]
        self._size -= len(line) + 1  # the end word is not part of the script
        full = [each for each in script if each.strip()]
        if full or self._size > COMMAND_MAX + 1:
            shown = full[0].strip() + (b" ..." if len(full) > 1 else b"") if full else b""
            typed = b"\n".join([*self._lines, line])
            self._found(Command(b"\n".join(script), typed, shown), found)
        else:
            self._forget()

    def _keep(self, line: bytes) -> None:
        # A command that is too long is refused, so its text is not needed. One extra byte for the last newline.
        if self._size <= COMMAND_MAX + 1:
            self._lines.append(line)

    def _found(self, command: Command, found: list[Found]) -> None:
        why = ""
        if self._size > COMMAND_MAX + 1 or len(command.text) > COMMAND_MAX:
            why = f"the command is longer than {COMMAND_MAX:,} bytes; put it into a script file and run the file"
        elif b"\0" in command.text:
            why = "the command holds a NUL byte, which no program can be given"
        found.append(Complaint(self._began, why) if why else command)
        self._forget()

    def _forget(self) -> None:
        self._lines, self._word = [], None


def _tail(line: bytes) -> bytes:
    """Return the shortest line with the same ending, so later bytes still decide whether the line continues."""
    body = line.removesuffix(b"\r")
    return (b"\\" if _goes_on(body) else b"") + line[len(body) :]


def _goes_on(line: bytes) -> bool:
    return line.endswith(b"\\") and (len(line) - len(line.rstrip(b"\\"))) % 2 == 1
