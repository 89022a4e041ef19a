"""simple_gpu_scheduler, ours against the original: a file of commands that do nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from bench.homes import own_folder, own_home
from bench.jobs import SLOTS, STREAM_TIMEOUT_S, program
from bench.peers.places import own_env, peers_bin
from bench.table import Row, Skipped

LINES = 1000
ROUNDS = 11
#: Discarded: the first call starts the daemon, the next ones warm caches.
WARM_UP = 1
NAME = "simple_gpu_scheduler"
COMMAND = b"/bin/true\n"
#: Where tests/needs.sh puts the original.
TESTS_OWN = Path(sys.prefix) / "original"


def rows(part: int) -> tuple[list[Row], list[Skipped]]:
    """The one comparison, with a part of the lines and of the rounds."""
    original = place_of_original()
    if original is None:
        return [], [Skipped(NAME, f"for want of {peers_bin() / NAME}; bench/needs.sh installs the original")]
    lines, rounds = max(1, LINES // part), max(1, ROUNDS // part)
    ours, reference = [], []
    with own_home(), own_folder() as folder:
        file = folder / "commands"
        file.write_bytes(COMMAND * lines)
        for turn in range(WARM_UP + rounds):
            took = _timed(program(NAME), file, dict(os.environ))
            theirs = _timed(str(original), file, own_env(folder) | {"PYTHONPATH": str(TESTS_OWN)})
            if turn >= WARM_UP:
                ours.append(took)
                reference.append(theirs)
    about = f"{lines} lines /bin/true on {SLOTS} slots, {NAME}"
    return [Row(about, "ms", ours, reference, "the original of that name, from the package index", jobs=lines)], []


def place_of_original() -> Path | None:
    """Where the original is: among the peers, or where the tests have it."""
    places = (peers_bin() / NAME, TESTS_OWN / "bin" / NAME)
    return next((place for place in places if place.exists()), None)


def _timed(path: str, file: Path, env: dict[str, str]) -> float:
    """From the start of the process to its end, which is after the last command's; output goes nowhere."""
    words = [path, "--gpus", *map(str, range(SLOTS))]
    with file.open("rb") as lines:
        began = time.perf_counter()
        subprocess.run(words, stdin=lines, stdout=subprocess.DEVNULL, env=env, timeout=STREAM_TIMEOUT_S, check=True)
        return (time.perf_counter() - began) * 1000
