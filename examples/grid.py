"""A grid of trainings through the SDK: submit all, wait, print the best.

python examples/grid.py --seconds 1
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path

import grassq

TRAIN = Path(__file__).with_name("train.py")
QUEUE = "grid"
LRS = (0.1, 0.01)
BATCH_SIZES = (8, 16, 32)


def main() -> int:
    """Run the grid and print what came of it."""
    parser = argparse.ArgumentParser(description="A grid of pretend trainings through the SDK.")
    parser.add_argument("--seconds", type=float, default=5.0, help="how long one training takes")
    seconds = parser.parse_args().seconds
    # Two logical GPUs. Typed a second time the same line changes nothing.
    subprocess.run([sys.executable, "-m", "grassq", "create-queue", QUEUE, "--gpu=2"], check=True)
    with grassq.Client() as grass:
        jobs = {
            (lr, batch_size): grass.submit(command(lr, batch_size, seconds), queue=QUEUE, gpu=0.5)
            for lr, batch_size in itertools.product(LRS, BATCH_SIZES)
        }
        grass.wait(*jobs.values())
        for (lr, batch_size), job in jobs.items():
            print(f"job {job.id}  lr={lr}  batch_size={batch_size}  {job.state}  {accuracy(grass, job)}")
        best = max(jobs, key=lambda point: accuracy(grass, jobs[point]))
        print(f"best: lr={best[0]} batch_size={best[1]}")
    return 0


def command(lr: float, batch_size: int, seconds: float) -> list[str]:
    """The words of one training."""
    options = {"--lr": lr, "--batch-size": batch_size, "--seconds": seconds}
    return [sys.executable, str(TRAIN), *(str(word) for option in options.items() for word in option)]


def accuracy(grass: grassq.Client, job: grassq.Job) -> float:
    """What a job wrote to $GRASS_RESULT_FILE; 0 when it wrote nothing."""
    path = Path(grass.home, "jobs", str(job.id), str(job.info["attempt"]), "files", "result.json")
    return float(json.loads(path.read_text())["accuracy"]) if path.exists() else 0.0


if __name__ == "__main__":
    sys.exit(main())
