"""A new option of a job touches four files at most: its description, and the code that acts on it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
FILES_MAX = 4

#: What somebody writes for `--dummy N`, which the shim notes in its exit record: by file, a text and what follows it.
EDITS: dict[str, list[tuple[str, str]]] = {
    "core/job_options.py": [
        (
            '    """Options that a job keeps in its spec under the same name."""\n',
            '    dummy: Annotated[int, Option(number, "a meaningless number", value="N", least=0, most=9)] = 0\n',
        ),
        ("    #: Keep stdout and stderr apart.\n    split: bool\n", "    dummy: int\n"),
    ],
    "cli/typed.py": [('VALUE_OPTIONS = frozenset({\n    "--require",', ' "--dummy",')],
    "run/rundir.py": [
        ("    keep_children: bool\n", "    dummy: int\n"),
        ('LATER = {"lease": False', ', "dummy": 0'),
    ],
    "run/shim.py": [('"max_rss_kb": 0,', ' "dummy": spec.dummy,')],
}

SUBMIT = """
import grassq, sys
with grassq.Client() as client:
    client.submit(["true"], dummy=int(sys.argv[1])).result(timeout=30)
    client.submit_many([["true"]], dummy=int(sys.argv[1]))[0].result(timeout=30)
"""


class Tree:
    """A copy of the source with the option in it, and a home of its own."""

    def __init__(self, path: Path) -> None:
        self.home, self.source = path / "home", path / "src"
        shutil.copytree(SOURCE / "grassq", self.source / "grassq", ignore=shutil.ignore_patterns("__pycache__"))
        for name, edits in EDITS.items():
            file = self.source / "grassq" / name
            text = file.read_text()
            for before, added in edits:
                assert text.count(before) == 1, f"{name} has {before!r} {text.count(before)} times"
                text = text.replace(before, before + added)
            file.write_text(text)

    def python(self, *words: str) -> str:
        """Run Python on the copy and return what it wrote."""
        env = {**os.environ, "GRASS_HOME": str(self.home), "PYTHONPATH": str(self.source)}
        argv = [sys.executable, "-P", *words]
        done = subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def grass(self, *words: str) -> str:
        """Run a command line of the copy and return what it wrote."""
        return self.python("-m", "grassq", *words)

    def dummy_of(self, job: int) -> int:
        """Return what the shim noted of the option when it ran a job."""
        record, _, _ = (self.home / f"jobs/{job}/1/exit").read_text().rpartition(" ")
        return int(json.loads(record)["dummy"])


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(tmp_path)
    yield tree
    tree.grass("stop")


def test_a_new_option_is_described_in_four_files_and_reaches_the_shim(tree: Tree) -> None:
    assert len(EDITS) <= FILES_MAX
    assert "  --dummy N            a meaningless number\n" in tree.grass("enqueue", "--help")
    assert tree.grass("run", "-q", "--dummy", "3", "true") == ""
    assert tree.dummy_of(1) == 3, "typed"
    tree.python("-c", SUBMIT, "4")
    assert (tree.dummy_of(2), tree.dummy_of(3)) == (4, 4), "sent by a program"
    tree.grass("enqueue", "--hold", "--dummy=5", "true")
    tree.grass("restart")
    tree.grass("release", "4")
    tree.grass("wait", "4")
    assert tree.dummy_of(4) == 5, "stored, and read by the next daemon"
    tree.grass("run", "-q", "true")
    assert tree.dummy_of(5) == 0, "its default"
