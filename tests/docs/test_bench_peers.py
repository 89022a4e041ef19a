from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.docs.blocks import ROOT


def peers(*words: str, folder: Path, **env: str) -> tuple[str, dict[str, Any]]:
    """Run the comparison with few jobs; what it printed, and the contestants by name."""
    file = folder / "figures.json"
    argv = [sys.executable, "-m", "bench", "peers", "--jobs", "20", "--rounds", "1", "--json", str(file), *words]
    own = {**os.environ, "TMPDIR": str(folder), **env}
    done = subprocess.run(argv, cwd=ROOT, env=own, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, {each["name"]: each for each in json.loads(file.read_text())["contestants"]}


@pytest.mark.skipif(not shutil.which("cc"), reason="the physical limit is compiled")
def test_grass_is_compared_with_xargs_and_with_the_physical_limit(tmp_path: Path) -> None:
    printed, found = peers("--only", "Grass", "--only", "xargs", "--only", "C vfork", folder=tmp_path)
    assert list(found) == ["C vfork", "xargs", "Grass"]
    for each in found.values():
        assert each["trouble"] is None
        # How fast is for an idle machine to say.
        assert min(each[kind] for kind in ("jobs_per_second", "start_ms", "gap_ms")) > 0
    assert found["Grass"]["submit_ms"] > 0
    assert "Grass, jobs per second:" in printed
    # Homes, sockets and programs are gone; only the figures stay.
    assert [file.name for file in tmp_path.iterdir()] == ["figures.json"]


def test_a_peer_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    words = ("--only", "xargs", "--only", "hyperqueue", "--only", "simple-gpu-scheduler")
    printed, found = peers(*words, folder=tmp_path, BENCH_PEERS=str(tmp_path / "nowhere"))
    assert found["xargs"]["jobs_per_second"] > 0
    for name in ("HyperQueue", "simple-gpu-scheduler"):
        assert found[name]["jobs_per_second"] is None
        assert f"{name}: not measured, not installed" in printed


def test_a_contestant_that_does_not_exist_is_named() -> None:
    words = [sys.executable, "-m", "bench", "peers", "--only", "abacus"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "there is no contestant of that name; they are C vfork, xargs, Grass" in done.stderr
