"""What `make demo` runs: a small grid of pretend trainings on two logical GPUs, two to a GPU.

It works in a home of its own, prints every `grass` command it types, and leaves nothing behind, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from grassq import Client, Job

TRAIN = Path(__file__).with_name("train.py")
QUEUE = "demo"
LRS = ("0.3", "0.1", "0.03", "0.01")
BATCH_SIZES = ("16", "64")
STEPS = 20
LOOK_S = 0.2
#: How long the demo waits for Enter.
PAGE_S = 600
FINAL = ("succeeded", "failed", "cancelled")
STEP = re.compile(r"step (\d+)/\d+ accuracy ([\d.]+)")

console = Console(highlight=False)


def main() -> int:
    """Run the demo; 0 when every training succeeded."""
    parser = argparse.ArgumentParser(description="A grid of pretend trainings on two logical GPUs.")
    parser.add_argument("--seconds", type=float, default=6.0, help="how long one training takes")
    seconds = parser.parse_args().seconds
    signal.signal(signal.SIGTERM, interrupt)
    try:
        with own_home() as home:
            return show_off(home, seconds)
    except KeyboardInterrupt:
        console.print("interrupted; the jobs, the daemon and the home of this demo are gone")
        return 130


def show_off(home: str, seconds: float) -> int:
    """Make a queue, fill it, watch it, and print what came of it."""
    say("Two logical GPUs. On a machine with real ones, leave the capacity out and they are detected.")
    console.print(f"$ export GRASS_HOME={home} GRASS_CAPACITY='{os.environ['GRASS_CAPACITY']}'", style="bold")
    grass("create-queue", QUEUE, "--gpu=2")
    say("Eight trainings, each on half a GPU: four run at once. Outside this demo they would go on when you log out.")
    for lr in LRS:
        for batch_size in BATCH_SIZES:
            # The same word as the path in a checkout, so that the line can be typed again.
            train = os.path.relpath(TRAIN)
            options = ("--lr", lr, "--batch-size", batch_size, "--steps", str(STEPS), "--seconds", f"{seconds:g}")
            grass("enqueue", QUEUE, "--gpu=0.5", "--name=grid", "--", "python", train, *options)
    with Client(home) as client:
        jobs = client.jobs(f"queue:{QUEUE}")
        say("Why does the last one not run yet?")
        grass("why", "@")
        say("How far are they? (`grass show` and `grass log -f JOB` tell the same.)")
        watch = watch_on_terminal if console.is_terminal else watch_in_lines
        watch(jobs)
        grass("log", "--tail=2", "@")
        print_results(jobs)
        show_page()
        return 0 if all(job.state == "succeeded" for job in jobs) else 1


def show_page() -> None:
    """Print a link to the web page; at a keyboard, keep the page until Enter is pressed."""
    say("The same in a browser, with the grid's sweep, its logs and a timeline of both GPUs:")
    grass("web", "--no-open")
    if not sys.stdin.isatty():
        say("Nobody can press Enter here, so the demo and its page end now. In a terminal the page stays.")
        return
    say(f"Enter ends the demo, and the page with it (as {PAGE_S // 60} minutes do). `l` and Enter print a new link.")
    end = time.monotonic() + PAGE_S
    while select.select([sys.stdin], [], [], max(0.0, end - time.monotonic()))[0]:
        if sys.stdin.readline().strip() != "l":
            return
        grass("web", "--no-open")


def watch_on_terminal(jobs: list[Job]) -> None:
    """Bars that move until every job has ended."""
    progress = Progress(TextColumn("{task.description}"), BarColumn(30), TextColumn("{task.fields[remark]}"))
    bars = {job.id: progress.add_task(title(job), total=STEPS, remark="queued") for job in jobs}
    totals = Text()
    with Live(Group(progress, totals), console=console, refresh_per_second=8):
        while True:
            looks = [look(job) for job in jobs]
            for job, (step, remark) in zip(jobs, looks, strict=True):
                progress.update(bars[job.id], completed=step, remark=remark)
            counts = {state: sum(job.info["state"] == state for job in jobs) for state in ("running", *FINAL)}
            totals.plain = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
            if all(job.info["state"] in FINAL for job in jobs):
                return
            time.sleep(LOOK_S)


def watch_in_lines(jobs: list[Job]) -> None:
    """One line per start and end, for a pipe or a file."""
    seen: dict[int, str] = {}
    while True:
        for job in jobs:
            _, remark = look(job)
            state = str(job.info["state"])
            if state != seen.get(job.id) and state in ("running", *FINAL):
                seen[job.id] = state
                say(f"{title(job)}  {remark}", gap=False)
        if all(job.info["state"] in FINAL for job in jobs):
            return
        time.sleep(LOOK_S)


def look(job: Job) -> tuple[int, str]:
    """How many steps a job has made, and a remark."""
    state = job.state
    if state not in ("running", *FINAL):
        return 0, state
    steps = STEP.findall(job.log())
    step, accuracy = (int(steps[-1][0]), steps[-1][1]) if steps else (0, "")
    return step, f"{state} on gpu {devices(job)}" + (f"  accuracy {accuracy}" if accuracy else "")


def print_results(jobs: list[Job]) -> None:
    """The table of jobs, devices, times and results."""
    results = {job.id: accuracy_of(job) for job in jobs}
    best = max(results, key=lambda job: results[job])
    table = Table(title="What came of it", box=None, padding=(0, 2, 0, 0), title_justify="left", header_style="bold")
    for name in ("JOB", "LR", "BATCH", "STATE", "GPU", "WAITED", "TOOK", "ACCURACY"):
        table.add_column(name, no_wrap=True)
    for job in jobs:
        lr, batch_size = parameters(job)
        waited, took = (between(job, *ends) for ends in (("created", "started"), ("started", "finished")))
        accuracy = f"{results[job.id]:.4f}" + (" best" if job.id == best else "")
        state, style = str(job.info["state"]), "bold green" if job.id == best else ""
        table.add_row(str(job.id), lr, batch_size, state, f"{devices(job)} (half)", waited, took, accuracy, style=style)
    console.print()
    console.print(table)
    console.print()
    say("Each wrote its accuracy to $GRASS_RESULT_FILE. Next: README.md, and `.venv/bin/grass help`.")


def grass(*words: str) -> None:
    """Type a command: print it, run it, print its answer."""
    console.print("$ " + shlex.join(["grass", *words]), style="bold", soft_wrap=True)
    done = subprocess.run(["grass", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    console.print(done.stdout, end="", markup=False, soft_wrap=True)
    if done.returncode:
        raise SystemExit(f"`grass {words[0]}` ended with {done.returncode}")


@contextmanager
def own_home() -> Iterator[str]:
    """A home for this run alone, in this process's environment; at the end its jobs, daemon and files go."""
    home = tempfile.mkdtemp(prefix="grass-demo.")
    for name in [name for name in os.environ if name.startswith("GRASS_")]:
        del os.environ[name]
    os.environ["GRASS_HOME"] = home
    # So that the demo is the same on every machine, whatever is built into it.
    os.environ["GRASS_CAPACITY"] = "{gpu: 2}"
    # `make demo` does not activate the environment it made.
    os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    try:
        yield home
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for words in (["kill", "--grace=1s", "all"], ["wait", "--timeout=10s", "all"], ["stop"]):
            subprocess.run(["grass", *words], capture_output=True, check=False)
        shutil.rmtree(home, ignore_errors=True)


def parameters(job: Job) -> tuple[str, str]:
    """Learning rate and batch size, from the words of the job."""
    words = job.info["command"]
    return words[words.index("--lr") + 1], words[words.index("--batch-size") + 1]


def title(job: Job) -> str:
    """A job in a few words."""
    lr, batch_size = parameters(job)
    return f"job {job.id}  lr={lr:<5} batch={batch_size:<3}"


def devices(job: Job) -> str:
    """The ids of the GPUs a job holds or held."""
    return ",".join((job.info.get("allocation") or {}).get("gpu", {})) or "?"


def accuracy_of(job: Job) -> float:
    """What the job wrote to its $GRASS_RESULT_FILE; 0 when it wrote nothing."""
    return float((job.info["result"] or {}).get("accuracy", 0.0))


def between(job: Job, first: str, last: str) -> str:
    """Seconds between two of a job's times."""
    ends = [datetime.datetime.fromisoformat(job.info[key]) for key in (first, last) if job.info.get(key)]
    return f"{(ends[1] - ends[0]).total_seconds():.1f} s" if len(ends) == 2 else ""


def say(sentence: str, *, gap: bool = True) -> None:
    """Tell the reader what comes next."""
    console.print(("\n" if gap and console.is_terminal else "") + sentence, markup=False, soft_wrap=True)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """A SIGTERM is tidied up after as a Ctrl-C is."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
