"""The fenced blocks of a page, and how each is run."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SHELL = ("sh", "console")
RUN = (*SHELL, "py")
DEADLINE_S = 100.0
#: What every page calls the machine it was written on.
MACHINE = "desk"
#: The same on every machine the tests run on, and no GPU: the pages say that none is needed.
CAPACITY = '{cpu: 32, mem: "64G"}'

_FENCE = re.compile(r"^```(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^## (.*)$", re.MULTILINE)


class Block(NamedTuple):
    """One fenced block: its info string and its text."""

    kind: str
    text: str


def sections(page: Path) -> dict[str, list[Block]]:
    """The blocks of a page below each of its headings; those that build on one another share a heading."""
    text = page.read_text(encoding="utf-8")
    marks = [(0, ""), *((match.start(), match[1]) for match in _HEADING.finditer(text)), (len(text), "")]
    found = {
        title: [Block(*fence.groups()) for fence in _FENCE.finditer(text[start:end])]
        for (start, title), (end, _) in itertools.pairwise(marks)
    }
    return {title: blocks for title, blocks in found.items() if blocks}


class PageRunner:
    """A directory with a stand-in train.py, a fresh home, and a shell."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self.home = folder / ".home"
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("GRASS_")},
            "GRASS_HOME": str(self.home),
            "GRASS_CAPACITY": CAPACITY,
            "HOME": str(folder),
            "PATH": os.pathsep.join([str(folder / "bin"), str(programs), os.environ["PATH"]]),
            "COLUMNS": "100",
        }
        self._foreground: subprocess.Popen[bytes] | None = None
        self._furnish()

    def _furnish(self) -> None:
        (self.folder / "bin").mkdir(parents=True)
        (self.folder / "data").mkdir()
        train = (ROOT / "examples" / "train.py").read_text()
        # Fast enough for a test, slow enough that a job which has to wait is seen to wait.
        quick = train.replace("default=5.0", "default=1.0")
        assert quick != train
        (self.folder / "train.py").write_text(quick)
        shutil.copy(self.folder / "train.py", self.folder / "data")
        for name in ("train_exp2.py", "main.py"):
            (self.folder / name).write_text("import os, sys; print(sys.argv, os.environ['CUDA_VISIBLE_DEVICES'])\n")
        (self.folder / "bin" / "lpr").symlink_to("/bin/cat")
        (self.folder / "paper.pdf").write_text("a paper\n")

    def run(self, block: Block) -> None:
        """Run a block; what it does not expect is an AssertionError that shows both."""
        if block.text.strip() == "grass daemon":
            self._daemon()
        elif block.kind == "console":
            self._console(block.text)
        elif block.kind == "sh":
            self.shell(block.text)
        else:
            self._done([sys.executable, "-c", self._local(block.text)], block.text)

    def shell(self, script: str) -> str:
        """What a script says in bash; it has to succeed, every line of it."""
        return self._done(["bash", "-euo", "pipefail", "-c", self._local(script)], script)

    def close(self) -> None:
        """End what the page has left running."""
        for words in (["kill", "--grace=0s", "all"], ["stop"]):
            # Through this interpreter: the page may have uninstalled its own.
            argv = [sys.executable, "-m", "grassq", *words]
            subprocess.run(argv, env=self.env, capture_output=True, timeout=DEADLINE_S, check=False)
        if self._foreground is not None:
            self._foreground.wait(DEADLINE_S)

    def _console(self, text: str) -> None:
        for command, expected in conversation(text):
            said = self.shell(command)
            assert matches(expected, said), f"$ {command}\nthe page says:\n{expected}\nGrass says:\n{said}"

    def _daemon(self) -> None:
        """`grass daemon` stays in the foreground, so it gets a terminal of its own, as the page says."""
        subprocess.run(["grass", "stop"], env=self.env, capture_output=True, timeout=DEADLINE_S, check=True)
        self._foreground = subprocess.Popen(
            ["grass", "daemon"], env=self.env, cwd=self.folder, stderr=subprocess.DEVNULL
        )
        self.shell("until [ -S $GRASS_HOME/grass.sock ]; do sleep 0.02; done")

    def _local(self, text: str) -> str:
        # The one path of the pages that no test may make.
        return text.replace("/data/", f"{self.folder}/data/")

    def _done(self, argv: list[str], shown: str) -> str:
        done = subprocess.run(
            argv,
            cwd=self.folder,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=DEADLINE_S,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{shown}\nended with {done.returncode}:\n{done.stdout}"
        return done.stdout


def conversation(text: str) -> list[tuple[str, str]]:
    """The commands of a console block, each with what is shown below it."""
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)
    assert not parts[0], f"a console block starts with a command:\n{text}"
    return [(command, said) for command, _, said in (part.partition("\n") for part in parts[1:])]


def matches(expected: str, said: str) -> bool:
    """Whether a page tells the truth: times and blanks aside, and with `...` for whatever comes there."""
    pattern = re.escape(_plain(expected)).replace(re.escape("..."), ".*")
    return re.fullmatch(pattern, _plain(said), re.DOTALL) is not None


def _plain(text: str) -> str:
    text = text.replace(socket.gethostname().partition(".")[0], MACHINE)
    text = re.sub(r"\b\d\d:\d\d:\d\d\b", "TIME", text)
    text = re.sub(r"\b\d+s\b", "SECONDS", text)
    return "\n".join(" ".join(line.split()) for line in text.strip().splitlines()).strip()
