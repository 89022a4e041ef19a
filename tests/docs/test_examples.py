from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, PageRunner

EXAMPLES = ROOT / "examples"
DEADLINE_S = 30.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[PageRunner]:
    desk = PageRunner(tmp_path / "desk", Path(sys.executable).parent)
    yield desk
    desk.close()


def train(desk: PageRunner, *options: str, **env: str) -> str:
    return subprocess.run(
        [sys.executable, EXAMPLES / "train.py", "--steps=4", *options],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=True,
        timeout=DEADLINE_S,
    ).stdout


def test_the_training_says_how_far_it_is_and_on_which_device(desk: PageRunner) -> None:
    said = train(desk, "--seconds=0", "--lr=0.03", "--batch-size=64", CUDA_VISIBLE_DEVICES="3")
    assert said.splitlines()[0] == "lr=0.03 batch_size=64 on gpu 3"
    assert said.splitlines()[-1] == "step 4/4 accuracy 0.9522 on gpu 3"


def test_the_training_leaves_its_accuracy_where_it_is_told(desk: PageRunner) -> None:
    result = desk.folder / "result.json"
    train(desk, "--seconds=0", "--lr=0.03", "--batch-size=64", GRASS_RESULT_FILE=str(result))
    assert json.loads(result.read_text()) == {"accuracy": 0.9522}


def test_the_training_goes_on_after_its_last_checkpoint(desk: PageRunner) -> None:
    (desk.folder / "checkpoint.json").write_text('{"step": 3}')
    said = train(desk, "--seconds=0", GRASS_CHECKPOINT_DIR=str(desk.folder))
    assert [line.split()[:2] for line in said.splitlines()[1:]] == [["resumed", "after"], ["step", "4/4"]]


def test_a_killed_training_goes_on_where_it_was_when_it_is_run_again(desk: PageRunner) -> None:
    desk.shell(f"grass enqueue -q python '{EXAMPLES}/train.py' --steps=1000 --seconds=100")
    desk.shell("until grass log @ | grep -q 'step 3/'; do sleep 0.05; done")
    desk.shell("grass kill @; ! grass wait @")
    # Wherever the kill met it: the second run starts with the step after the last one of the first.
    last = int(desk.shell("grass log 1 | grep -o 'step [0-9]*/' | tail -1").split()[1].rstrip("/"))
    desk.shell("grass rerun @; until grass log @ | grep -q 'step'; do sleep 0.05; done; grass kill @")
    resumed = int(desk.shell("grass log 2 | grep -o 'resumed after step [0-9]*'").split()[-1])
    assert resumed in (last, last + 1)


def test_the_grid_runs_through_the_sdk_and_names_the_best(desk: PageRunner) -> None:
    said = desk.shell(f"python '{EXAMPLES}/grid.py' --seconds 0.2")
    assert said.count("succeeded") == 6
    assert said.splitlines()[-1] == "best: lr=0.01 batch_size=32"


def test_the_demo_leaves_nothing_behind_after_an_interrupt(desk: PageRunner) -> None:
    demo = subprocess.Popen(
        [sys.executable, EXAMPLES / "demo.py", "--seconds=60"],
        env={**desk.env, "TMPDIR": str(desk.folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # A shell may have told its children to ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert demo.stdout is not None
    while "running on gpu" not in (line := demo.stdout.readline()):
        assert line, "the demo ended before anything ran"
    demo.send_signal(signal.SIGINT)
    said, _ = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 130
    assert "interrupted" in said
    assert not list(desk.folder.glob("grass-demo.*"))
    assert _gone(lambda: not _processes_of(str(desk.folder)))


def test_the_demo_ends_with_the_table_of_jobs_devices_times_and_results(desk: PageRunner) -> None:
    said = desk.shell(f"TMPDIR='{desk.folder}' python '{EXAMPLES}/demo.py' --seconds 0.5")
    table = said.split("What came of it")[1].splitlines()
    assert table[1].split() == ["JOB", "LR", "BATCH", "STATE", "GPU", "WAITED", "TOOK", "ACCURACY"]
    rows = [line.split() for line in table[2:10]]
    assert [row[0] for row in rows] == [str(number) for number in range(1, 9)]
    assert {row[4] for row in rows} == {"0", "1"}
    assert [row[0] for row in rows if row[-1] == "best"] == ["6"]
    assert not list(desk.folder.glob("grass-demo.*"))


def _gone(condition: object) -> bool:
    assert callable(condition)
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def _processes_of(folder: str) -> list[int]:
    """Processes that were started with the demo's home: the daemon, its launcher, and jobs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"GRASS_HOME={folder}/grass-demo.".encode() in environment:
            found.append(int(entry.name))
    return found
