"""A grid of trainings through the SDK: submit all, print each as it ends, print the best.

python examples/grid.py --seconds 1
"""

from __future__ import annotations

import argparse
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
    with grassq.Client() as grass:
        # Two logical GPUs. A second time the same line changes nothing.
        grass.create_queue(QUEUE, gpu=2)
        points = {
            grass.submit(
                [sys.executable, TRAIN, "--lr", lr, "--batch-size", batch_size, "--seconds", seconds],
                queue=QUEUE,
                gpu=0.5,
            ): f"lr={lr} batch_size={batch_size}"
            for lr in LRS
            for batch_size in BATCH_SIZES
        }
        # Written by train.py to $GRASS_RESULT_FILE.
        accuracies: dict[str, float] = {}
        for job in grassq.as_completed(points):
            accuracies[points[job]] = job.result()["accuracy"]
            print(f"job {job.id}  {points[job]}  {job.state}  {job.result()['accuracy']}")
    print(f"best: {max(accuracies, key=lambda point: accuracies[point])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
