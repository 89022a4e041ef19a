"""A lived-in Grass for pictures: four devices, a sweep, jobs that share a device, failures, and a line that is planned.

Jobs run for seconds. Then the clock of the store is stretched: a second of the past becomes a minute, so that the
pictures show hours of work, and the forecast, which learns from the past, plans hours.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

from tests.browser.browsing import CAPACITY, Site
from tests.e2e.world import Grass, eventually

#: A second of the past becomes this many.
STRETCH = 80.0
#: The name of the machine in the pictures, where we may choose one.
MACHINE = "box"
#: Every time of the store that belongs to the past.
TIMES = {
    "job": ("created", "ready_at", "started", "finished"),
    "attempt": ("started", "ended"),
    "event": ("at",),
    "submission": ("at",),
}

TRAIN = '''\
"""Trains nothing: it writes what a training writes, takes its time, and leaves a result."""
import json, os, random, sys, time

words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
pace = float(os.environ.get("PACE", "1"))
seconds, lr, depth = float(words["--epochs"]) / 10 / pace, float(words.get("--lr", 0.1)), int(words.get("--depth", 18))
print(f"\\x1b[2mloading 50,000 images, depth {depth}, lr {lr:g}\\x1b[0m", flush=True)
loss, epochs = 2.4, 30
for epoch in range(epochs):
    loss = 0.93 * loss + random.uniform(-0.02, 0.02) + abs(lr - 0.01) / 40
    accuracy = max(0.0, min(0.99, 1.04 - loss / 2.6))
    told = f"loss \\x1b[33m{loss:.4f}\\x1b[0m  accuracy \\x1b[32m{accuracy:.3f}\\x1b[0m"
    print(f"epoch {epoch + 1:2d}/{epochs}  {told}", flush=True)
    if words.get("--batch") and epoch == epochs // 2:
        print("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB", file=sys.stderr)
        sys.exit(1)
    time.sleep(seconds / epochs)
if os.environ.get("GRASS_RESULT_FILE"):
    with open(os.environ["GRASS_RESULT_FILE"], "w") as file:
        json.dump({"loss": round(loss, 4), "accuracy": round(accuracy, 4)}, file)
while words.get("--tune"):
    for step in range(1, 1001):
        bar = "\\u2588" * (step // 40)
        print(f"\\rfine-tuning {step / 10:3.0f} %|\\x1b[34m{bar:25}\\x1b[0m| {step}/1000", end="", flush=True)
        time.sleep(0.005 / pace if step < 620 else 3)
'''


NIGHT = ("--queue", "night")
#: With these words a training goes on until the pictures are made, or fails.
GOES_ON, FAILS = ("--tune", "yes"), ("--batch", "1024")


def train(grass: Grass, name: str, gpu: float, epochs: int, *more: str, options: tuple[str, ...] = ()) -> int:
    """Submit one training; ten epochs take a second."""
    command = ("python3", "train.py", *more, "--epochs", str(epochs))
    return grass.enqueue(f"--gpu={gpu:g}", "--name", name, *options, "--", *command)


def sweep(grass: Grass) -> list[int]:
    """Submit a sweep of twelve; one of them fails."""
    template = "python3 train.py --lr {lr} --depth {depth} --epochs 50"
    values = ["-p", "lr", "0.1", "0.03", "0.01", "0.003", "-p", "depth", "18", "34", "50"]
    grass.ok("sweep", template, *values, "--sampling-mode", "grid", "--gpu=0.5", "--name", "lr-sweep")
    return [job["id"] for job in grass.jobs("lr-sweep")]


def begin(home: Path, cwd: Path) -> Site:
    """Start the daemon, on a machine with a name where we may give one."""
    if os.geteuid() == 0 and shutil.which("unshare"):
        named = Grass(home, cwd, ["unshare", "--uts", "sh", "-c", f'hostname {MACHINE} && exec "$0" "$@"'])
        named.env["GRASS_CAPACITY"] = CAPACITY
        named.ok("start")
    return Site(home, cwd)


def stretch(site: Site, pace: float) -> None:
    """Make minutes of the seconds of the past, while no daemon runs; jobs go on."""
    site.grass.ok("stop")
    (path,) = site.grass.home.glob("*.db")
    now = time.time()
    with closing(sqlite3.connect(path)) as store, store:
        for table, columns in TIMES.items():
            for column in columns:
                store.execute(
                    f"update {table} set {column} = :now - (:now - {column}) * :by where {column} < :now",
                    {"now": now, "by": STRETCH * pace},
                )
    site.grass.ok("start")


def lived_in(home: Path, cwd: Path, pace: float = 1.0) -> Site:
    """Return a site in which a day of work has been done, and more waits; with a pace, of so much shorter jobs."""
    cwd.mkdir(parents=True, exist_ok=True)
    (cwd / "train.py").write_text(TRAIN)
    site = begin(home, cwd)
    grass = site.grass
    grass.env["PACE"] = str(pace)
    grass.ok("create-queue", "night", "--gpu=2", "--cpu=4")
    for epochs in (90, 120):
        train(grass, "resnet50", 1, epochs, "--depth", "50")
    train(grass, "resnet101", 1, 80, "--depth", "101", *FAILS)
    for epochs in (70, 50):
        train(grass, "eval", 0.5, epochs)
    swept = sweep(grass)
    train(grass, "finetune", 1, 90, options=NIGHT)
    train(grass, "finetune", 1, 120, *FAILS, options=NIGHT)
    for job in swept:
        grass.until(job, "succeeded", "failed")
    going_on = [
        train(grass, "finetune", 1, 90, *GOES_ON),
        train(grass, "eval", 0.5, 70, *GOES_ON),
        train(grass, "lr-sweep", 0.5, 70, "--lr", "0.001", *GOES_ON),
        train(grass, "resnet50", 2, 120, "--depth", "50", *GOES_ON),
    ]
    for job in going_on:
        grass.until(job, "running")
    train(grass, "resnet50", 1, 120, "--depth", "50")
    train(grass, "finetune", 1, 80, options=NIGHT)
    for lr in ("0.0003", "0.0001", "0.00003"):
        train(grass, "lr-sweep", 0.5, 50, "--lr", lr, "--depth", "50")
    train(grass, "eval", 0.5, 60)
    train(grass, "resnet50", 2, 120, "--depth", "50")
    train(grass, "finetune", 1, 80, options=NIGHT)
    train(grass, "imagenet", 4, 90, "--depth", "152", options=("--hold",))
    eventually(lambda: all("62 %" in grass.log(job) for job in going_on), "most of the tuning is done")
    stretch(site, pace)
    return site
