"""A pretend training: it takes its time, says how far it is, and leaves a result.

It needs nothing but Python, and runs by itself as well as under Grass:

    python examples/train.py --lr 0.1 --batch-size 32 --seconds 2

What a real script can take from it:
- the devices it may use are in CUDA_VISIBLE_DEVICES already; frameworks read that by themselves
- what it writes to $GRASS_CHECKPOINT_DIR is there again when the job is run again with `grass rerun`
- what it writes to $GRASS_RESULT_FILE is kept with the job
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

BEST_LR = 0.03
BEST_BATCH_SIZE = 64


def accuracy_after(share: float, lr: float, batch_size: int) -> float:
    """A made-up learning curve: it rises and flattens, to a height that depends on the parameters."""
    off = abs(math.log10(lr / BEST_LR)) + abs(math.log2(batch_size / BEST_BATCH_SIZE)) / 4
    height = 0.97 * math.exp(-off / 3)
    return round(height * (1 - math.exp(-4 * share)), 4)


def main() -> int:
    """Train from the last checkpoint to the last step."""
    arguments = read_arguments()
    signal.signal(signal.SIGTERM, leave)
    checkpoint = place_of("GRASS_CHECKPOINT_DIR", "checkpoint.json")
    done = json.loads(checkpoint.read_text())["step"] if checkpoint is not None and checkpoint.exists() else 0
    devices = os.environ.get("CUDA_VISIBLE_DEVICES", "none")
    print(f"lr={arguments.lr} batch_size={arguments.batch_size} on gpu {devices}", flush=True)
    if done:
        print(f"resumed after step {done}", flush=True)
    accuracy = 0.0
    for step in range(done + 1, arguments.steps + 1):
        time.sleep(arguments.seconds / arguments.steps)
        accuracy = accuracy_after(step / arguments.steps, arguments.lr, arguments.batch_size)
        write(checkpoint, {"step": step})
        print(f"step {step}/{arguments.steps} accuracy {accuracy:.4f} on gpu {devices}", flush=True)
    if done >= arguments.steps:
        accuracy = accuracy_after(1.0, arguments.lr, arguments.batch_size)
    write(place_of("GRASS_RESULT_FILE"), {"accuracy": accuracy})
    return 0


def read_arguments() -> argparse.Namespace:
    """The options, checked."""
    parser = argparse.ArgumentParser(description="A pretend training.")
    parser.add_argument("--lr", type=float, default=0.1, help="learning rate")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long all steps take together")
    arguments = parser.parse_args()
    if arguments.lr <= 0 or arguments.batch_size <= 0 or arguments.steps <= 0 or arguments.seconds < 0:
        parser.error("every number has to be above 0")
    return arguments


def place_of(variable: str, name: str = "") -> Path | None:
    """A path Grass names in a variable; None when the script runs by itself."""
    value = os.environ.get(variable)
    return Path(value, name) if value else None


def write(path: Path | None, content: dict[str, float]) -> None:
    """Write aside and rename: whoever reads it, and a run after a crash, never sees half of it."""
    if path is None:
        return
    aside = path.with_name(path.name + ".new")
    aside.write_text(json.dumps(content) + "\n")
    aside.replace(path)


def leave(_number: int, _frame: FrameType | None) -> None:
    """`grass kill` asks with SIGTERM first. The last checkpoint is on disk already, so there is nothing to save."""
    sys.exit("asked to end; `grass rerun` goes on after the last step")


if __name__ == "__main__":
    sys.exit(main())
