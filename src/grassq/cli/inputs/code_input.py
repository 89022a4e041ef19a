"""Reads a one-time code where no other user can see it: from stdin, or at a prompt that does not show it."""

from __future__ import annotations

import os
import termios

from grassq.cli import render
from grassq.core.syntax.join_codes import TEXT_MAX, decode
from grassq.errors import BadInput


def one_time_code(typed: str | None, verb: str) -> str:
    """Return the code that was typed after `verb`, with a warning; read it if none or `-` was typed."""
    if typed not in (None, "-"):
        decode(typed)  # raises if this is no code
        render.error(f"every user of this machine can see this code with `ps`; `grass {verb}` alone asks for it")
        return typed
    code = (_ask() if os.isatty(0) else _line()).strip()
    if not code:
        raise BadInput(f"no code was given; `grass {verb}` reads it from stdin, or asks for it on a terminal")
    return code


def _ask() -> str:
    before = termios.tcgetattr(0)
    silent = termios.tcgetattr(0)
    silent[3] &= ~termios.ECHO
    # TCSADRAIN keeps a code that was pasted before the prompt.
    termios.tcsetattr(0, termios.TCSADRAIN, silent)
    try:
        render.text("code (not shown): ", fd=2)
        return _line()
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)
        render.text("\n", fd=2)


def _line() -> str:
    """Return the first line of stdin; of a line longer than any code only the beginning."""
    data = b""
    while b"\n" not in data and len(data) <= TEXT_MAX:
        try:
            part = os.read(0, TEXT_MAX)
        except OSError as error:
            raise BadInput(f"stdin cannot be read: {error.strerror}") from error
        if not part:
            break
        data += part
    return data.partition(b"\n")[0].decode("utf-8", "replace")
