"""Real shells at a terminal of their own, and what they offer at TAB."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import pytest
from tests.cli.calls import ROOT, environment

SCRIPTS = ROOT / "src" / "grassq" / "cli" / "completion" / "shells"
BASH_COMPLETION = Path("/usr/share/bash-completion/bash_completion")
DEADLINE_S = 30.0
#: How often, and for how long, a line is typed that was not completed.
TRIES, TRY_S = 4, 5.0
#: Where bash cuts words besides blanks.
_BREAKS = re.compile(r"([=:@]+)")
#: A command with a completion of its own, which replies with what it was given.
_OTHER_IN_BASH = '_other() { COMPREPLY=("$2 after $3, $COMP_CWORD"); }; complete -F _other other'
_ESCAPES = re.compile(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>]|\][^\x07]*\x07)")


def needs(shell: str) -> None:
    """Skip a test if a shell is not installed."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed; tests/needs.sh installs it")


def env_of(home: Path, folder: Path) -> dict[str, str]:
    """The environment of a shell that finds `grass` of this source tree, and no configuration of anybody."""
    folder.mkdir(exist_ok=True)
    for name in ("grass", "grassq"):
        script = folder / name
        if not script.exists():
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{ROOT}/bin/grass" "$@"\n')
            script.chmod(0o755)
    own = {"PATH": f"{folder}:/usr/bin:/bin", "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "TERM": "vt100"}
    return {**environment(home), **own, "LC_ALL": "C.UTF-8", "XDG_DATA_HOME": str(folder), "ZDOTDIR": str(folder)}


def in_bash(lines: list[str], env: dict[str, str], *, with_library: bool, how: int = 9) -> list[list[str]]:
    """What the completion function of bash replies to each line, called as readline calls it."""
    script = [f". {BASH_COMPLETION}"] if with_library else []
    script += [f". {SCRIPTS}/grass.bash", _OTHER_IN_BASH]
    for line in lines:
        words = [part for word in line.split(" ") for part in (_BREAKS.split(word) if word else [""])]
        words = [word for place, word in enumerate(words) if word or place == len(words) - 1]
        given = " ".join(f"'{word}'" for word in words)
        script += [f"COMP_LINE='{line}' COMP_POINT={len(line)} COMP_TYPE={how}"]
        script += [f"COMP_WORDS=({given}) COMP_CWORD={len(words) - 1}"]
        script += ["_grass 2>/dev/null", """printf '%s\n' "${COMPREPLY[@]}" ======"""]
    return _parts(_run(["bash", "--norc", "-c", "\n".join(script)], env))


def in_fish(lines: list[str], env: dict[str, str]) -> list[list[str]]:
    """What fish offers for each line, each word with its description after a tab."""
    script = [f"source {SCRIPTS}/grass.fish", "complete -c other -f -a 'two three'"]
    script += [f"complete -C '{line}'; echo ======" for line in lines]
    done = _run(["fish", "-c", "\n".join(script)], env)
    assert not done.stderr, done.stderr
    return _parts(done)


def _parts(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    return [part.splitlines() for part in done.stdout.split("======\n")[:-1]]


def _run(argv: list[str], env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60, check=False)


class Shell:
    """An interactive shell at a terminal of 100 columns."""

    def __init__(self, *argv: str, env: dict[str, str]) -> None:
        self.drawn = ""
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.execvpe(argv[0], argv, env)
        self._seen = b""

    def __enter__(self) -> Shell:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def type(self, keys: str) -> None:
        """Type keys; what was drawn before is forgotten."""
        self._seen = b""
        os.write(self._terminal, keys.encode())

    def until(self, *texts: str, within_s: float = DEADLINE_S) -> str:
        """Wait until texts are drawn; return all that was drawn since the last keys, without escapes and padding."""
        deadline = time.monotonic() + within_s
        while True:
            drawn = _ESCAPES.sub("", self._seen.decode("utf-8", "replace").replace("\0", ""))
            if all(text in drawn for text in texts):
                return drawn
            left = deadline - time.monotonic()
            assert left > 0, f"not drawn within {within_s} s: {texts} in {drawn!r}"
            if select.select([self._terminal], [], [], left)[0]:
                self._seen += os.read(self._terminal, 1 << 16)

    def until_typed(self, keys: str, *texts: str) -> str:
        """Type a line anew, again and again, until it is completed: the daemon may be too slow for a shell at first."""
        for _ in range(TRIES):
            self.type(f"\x15{keys}")
            try:
                return self.until(*texts, within_s=TRY_S)
            except AssertionError:
                continue
        self.type(f"\x15{keys}")
        return self.until(*texts)
