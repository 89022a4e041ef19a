"""Runs programs of the system: systemctl, loginctl, crontab. A program that is missing or hangs has failed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

from grassq.home import environment_text

TOOL_TIMEOUT_S = 20.0
WORDS_MAX = 300


class ToolResult(NamedTuple):
    """How a program ended, and what it wrote."""

    code: int
    out: bytes
    err: str

    @property
    def is_ok(self) -> bool:
        """Whether the program succeeded."""
        return self.code == 0

    @property
    def text(self) -> str:
        """What it printed, in one line."""
        return self.out.decode("utf-8", "replace").strip()


#: The code of a program that could not be run, as in a shell.
NOT_RUN = 127


def run(*argv: str, said: bytes = b"") -> ToolResult:
    """Run a program to its end; `said` is its input."""
    try:
        done = subprocess.run(argv, input=said, capture_output=True, env=_environment(), timeout=TOOL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return ToolResult(NOT_RUN, b"", f"{argv[0]} did not end within {TOOL_TIMEOUT_S:g} s")
    except OSError as error:
        return ToolResult(NOT_RUN, b"", f"{argv[0]}: {error.strerror}")
    err = " ".join(done.stderr.decode("utf-8", "replace").split())
    return ToolResult(done.returncode, done.stdout, err[:WORDS_MAX])


def _environment() -> dict[str, str]:
    """Return the environment of the programs: in English, and with the user's runtime folder, which `su` leaves out."""
    environment = {**environment_text(), "LC_ALL": "C", "SYSTEMD_PAGER": "", "SYSTEMD_COLORS": "0"}
    runtime = f"/run/user/{os.getuid()}"
    if not environment.get("XDG_RUNTIME_DIR") and Path(runtime).is_dir():
        environment["XDG_RUNTIME_DIR"] = runtime
    return environment
