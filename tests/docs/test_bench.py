from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from bench.sgs import place_of_original
from tests.docs.blocks import ROOT

#: How many rows each part prints.
ROWS = {"local": 4, "sgs": 1, "broker": 3, "takeover": 3, "partition": 2}


def bench(*words: str, folder: Path) -> tuple[str, dict[str, Any]]:
    """Run a part of the benchmarks quickly; what it printed and what it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--quick", "--json", str(folder / "figures.json"), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not list(Path(ROOT).glob("*.json"))
    return done.stdout, json.loads((folder / "figures.json").read_text())


@pytest.mark.timeout(180)
@pytest.mark.parametrize("part", ROWS)
def test_the_benchmarks_run_and_write_figures_that_make_sense(tmp_path: Path, part: str) -> None:
    if part == "partition" and (os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("nft")):
        pytest.skip("network namespaces need root, iproute2 and nftables")
    if part == "sgs" and place_of_original() is None:
        pytest.skip("the original is not installed: tests/needs.sh")
    printed, figures = bench(part, folder=tmp_path)
    assert figures["skipped"] == []
    assert len(figures["rows"]) == ROWS[part]
    for row in figures["rows"]:
        # How fast is for `make bench` on an idle machine to say; a test machine is busy with other tests.
        assert row["name"] in printed
        assert row["ours"]["min"] > 0
        if part in ("local", "sgs", "broker"):
            assert row["ratio_of_medians"] > 0


def test_a_part_that_does_not_exist_is_named() -> None:
    words = [sys.executable, "-m", "bench", "teleport"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "there is no part teleport" in done.stderr
