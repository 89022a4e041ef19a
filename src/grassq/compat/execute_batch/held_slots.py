"""The slots of the batches that run, in the home: a batch counts what others asked for and may not use yet.

Each batch has a file of the name of its queue. The file of a queue that is gone is removed by the next batch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from grassq.compat.execute_batch.machines import BatchMachine
from grassq.compat.execute_batch.slots import HeldSlot, Needs

FOLDER = "batches"
#: Files that are read, and the bytes of one file.
FILES_MAX = 1000
FILE_MAX = 1 << 20


def put_held(home: str, queue: str, needs: Needs, machines: Sequence[BatchMachine]) -> None:
    """Write the file of a batch whose queue was made."""
    folder = Path(home, FOLDER)
    folder.mkdir(mode=0o700, exist_ok=True)
    said = {name: str(value) if isinstance(value, Fraction) else value for name, value in needs._asdict().items()}
    document = {"needs": said, "machines": {machine.worker: machine.gpus for machine in machines}}
    aside = folder / f".{queue}"
    aside.write_text(json.dumps(document), encoding="ascii")
    aside.rename(folder / queue)


def remove_held(home: str, queue: str) -> None:
    """Remove the file of a batch that has ended."""
    Path(home, FOLDER, queue).unlink(missing_ok=True)


def held_slots(home: str, queues: Sequence[Mapping[str, Any]]) -> dict[str, list[HeldSlot]]:
    """Return the slots that batches hold, by worker; remove the files of batches whose queues are gone.

    `queues` are the queues of each worker, as `show` has them. A batch holds the slots of its running jobs, and one
    more for each job that waits.
    """
    held: dict[str, list[HeldSlot]] = {}
    folder = Path(home, FOLDER)
    try:
        files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))[:FILES_MAX]
    except FileNotFoundError:
        return {}
    for file in files:
        on_workers = {str(queue["worker"]): queue for queue in queues if queue["name"] == file.name}
        if not on_workers:
            file.unlink(missing_ok=True)
            continue
        for worker, slots in _needed(_read(file), on_workers).items():
            held.setdefault(worker, []).extend(slots)
    return held


def _needed(slots: dict[str, list[HeldSlot]], on_workers: Mapping[str, Mapping[str, Any]]) -> dict[str, list[HeldSlot]]:
    """Return the slots of a batch that its unfinished jobs need; all slots while no job is there: they come soon."""
    waiting = max(int(queue["queued"]) for queue in on_workers.values())
    if not waiting and not any(queue["running"] for queue in on_workers.values()):
        return slots
    needed: dict[str, list[HeldSlot]] = {}
    for worker, own in slots.items():
        queue = on_workers.get(worker, {})
        jobs = [slot["job"] for slot in queue.get("slots") or ()]
        # A queue whose slots have no GPUs only counts its jobs.
        if len(jobs) == len(own):
            used = [slot for slot, job in zip(own, jobs, strict=True) if job is not None]
            free = [slot for slot, job in zip(own, jobs, strict=True) if job is None]
        else:
            count = int(queue.get("running", 0))
            used, free = own[:count], own[count:]
        needed[worker] = [*used, *free[:waiting]]
        waiting -= len(free[:waiting])
    return needed


def _read(file: Path) -> dict[str, list[HeldSlot]]:
    """Return the slots in a file, by worker; none if the file is gone or cannot be read."""
    try:
        with file.open("rb") as opened:
            document = json.loads(opened.read(FILE_MAX))
        said = document["needs"]
        needs = Needs._make(
            Fraction(value) if isinstance(value, str) else value for value in map(said.get, Needs._fields)
        )
        return {worker: [HeldSlot(needs, gpu) for gpu in gpus] for worker, gpus in document["machines"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}
