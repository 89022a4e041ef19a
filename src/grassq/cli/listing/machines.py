"""The tables of queues and workers, the totals, and one line about what is free."""

from __future__ import annotations

from grassq.cli import job_text, render

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

#: The most characters of a cause or of a last line in a pipe.
TOLD_CHARS = 120


def print_machines(answer: Mapping[str, Any]) -> None:
    """Print queues, workers and totals."""
    queues, workers = answer.get("queues", []), answer.get("workers", [])
    if queues:
        render.text("\n")
        print_queues(queues)
    if workers:
        render.text("\n")
        print_workers(workers, answer.get("version"))
    print_restored(answer)
    totals = [f"{count} {state}" for state, count in (answer.get("totals") or {}).items() if count]
    if totals:
        render.text("\n")
        render.line(", ".join(totals))


def print_told(answer: Mapping[str, Any], failed: Sequence[Mapping[str, Any]]) -> None:
    """Print why the last jobs probably failed, with the last lines of their logs, and the sweeps."""
    told = [job for job in failed if job.get("cause") or job.get("last_line")]
    if told:
        render.text("\n")
        rows = [[str(job.get("id")), job_text.result(job), *_cut_words(job, "cause", "last_line")] for job in told]
        render.table(["FAILED", "RESULT", "CAUSE", "LAST LINE"], rows)
    if sweeps := answer.get("sweeps"):
        render.text("\n")
        rows = [
            [*_cut_words(sweep, "name"), f"{sweep.get('ended')}/{sweep.get('jobs')}", _states(sweep)]
            for sweep in sweeps
        ]
        render.table(["SWEEP", "ENDED", "JOBS"], rows)


def _cut_words(document: Mapping[str, Any], *names: str) -> list[str]:
    words = [str(document.get(name) or "") for name in names]
    return [word if len(word) <= TOLD_CHARS else word[: TOLD_CHARS - 3] + "..." for word in words]


def _states(sweep: Mapping[str, Any]) -> str:
    counts = ", ".join(f"{count} {state}" for state, count in (sweep.get("counts") or {}).items())
    return f"stopped, {counts}" if sweep.get("stopped") else counts


def print_restored(answer: Mapping[str, Any]) -> None:
    """Say which workers a restored broker waits for."""
    if waited_for := answer.get("restored"):
        render.notes(
            [
                f"the broker was restored from a backup; nothing starts until these workers connect: "
                f"{', '.join(waited_for)}; `grass resume --restored` goes on without them"
            ]
        )


def print_queues(queues: Sequence[Mapping[str, Any]]) -> None:
    """Print the table of queues."""
    several = len({queue.get("worker") for queue in queues}) > 1 or any(not queue.get("worker") for queue in queues)
    render.table(
        ["QUEUE", *(["WORKER"] if several else []), "LIMITS", "FREE", "RUNNING", "QUEUED", "COMMAND"],
        [queue_row(queue, with_worker=several) for queue in queues],
        flexible="COMMAND",
    )


def queue_row(queue: Mapping[str, Any], *, with_worker: bool) -> list[str]:
    """Return the cells of a queue: name, perhaps worker, limits, what is free, running and queued jobs, command."""
    name = f"{queue.get('name')} (paused)" if queue.get("paused") else str(queue.get("name"))
    prefix = " ".join([*filter(None, [queue.get("wrap")]), job_text.command({"command": queue.get("prefix") or []})])
    counts = [str(queue.get("running", "")), str(queue.get("queued", ""))]
    where = [str(queue.get("worker") or "(none yet)")] if with_worker else []
    free = job_text.holds(queue.get("free"))
    if slots := queue.get("slots"):
        free = job_text.slots([slot for slot in slots if slot.get("job") is None])
    return [name, *where, job_text.queue_limits(queue), free, *counts, prefix]


def print_workers(workers: Sequence[Mapping[str, Any]], version: str | None) -> None:
    """Print the workers, with the versions of those that have another version than the broker."""
    now = job_text.now()
    columns = {
        "WORKER": [str(worker.get("name")) for worker in workers],
        "STATE": [worker_state(worker, now) for worker in workers],
        "LABELS": [" ".join(map(str, worker.get("labels") or [])) for worker in workers],
        "VERSION": ["" if worker.get("version") in (None, version) else str(worker["version"]) for worker in workers],
        "HAS": [job_text.holds(worker.get("capacity")) for worker in workers],
        "FREE": [job_text.holds(worker.get("free")) for worker in workers],
        "USED BY OTHERS": [job_text.holds(worker.get("used_by_others")) for worker in workers],
    }
    for name in ("LABELS", "VERSION", "USED BY OTHERS"):
        if not any(columns[name]):
            del columns[name]
    render.table(list(columns), list(zip(*columns.values(), strict=True)), flexible="HAS")


def worker_state(worker: Mapping[str, Any], now: float) -> str:
    """Return whether a worker is connected, and what keeps jobs from starting there."""
    since = job_text.clock(worker.get("since"), now)
    state = "online" if worker.get("online") else f"silent since {since}" if since else "silent"
    state = f"{state}, disk full" if worker.get("disk_short") else state
    state = f"{state}, drained" if worker.get("drained") else state
    for key, word in (("drained_devices", "drained"), ("leaving_devices", "leaving")):
        for resource, ids in (worker.get(key) or {}).items():
            state += f", {resource} {','.join(map(str, ids))} {word}"
    return state


def machine_lines(answer: Mapping[str, Any], width: int, *, coloured: bool) -> list[str]:
    """Return queues and workers as lines for a screen: a line each, with what is free of what there is."""
    from grassq.cli.listing.grid import Grid, GridColumn

    lines: list[str] = []
    queues = [queue for queue in answer.get("queues", []) if not _is_plain(queue)]
    now = job_text.now()
    if queues:
        workers = [str(queue.get("worker") or "(none yet)") for queue in queues]
        columns = [
            GridColumn("QUEUE", [queue_row(queue, with_worker=False)[0] for queue in queues], least=12),
            GridColumn("WORKER", workers if len(set(workers)) > 1 else [""] * len(queues), rank=2),
            GridColumn("RUNNING", [str(queue.get("running", "")) for queue in queues], rank=5),
            GridColumn("QUEUED", [str(queue.get("queued", "")) for queue in queues], rank=5),
            GridColumn("FREE", [_free_of_queue(queue) for queue in queues], rank=4, least=12),
            GridColumn("COMMAND", [queue_row(queue, with_worker=False)[-1] for queue in queues], rank=1, least=12),
        ]
        lines += ["", *_titled(Grid([c for c in columns if any(c.cells)], width), coloured)]
    if workers_ := answer.get("workers", []):
        others = [job_text.holds(worker.get("used_by_others")) for worker in workers_]
        columns = [
            GridColumn("WORKER", [str(worker.get("name")) for worker in workers_], least=12),
            GridColumn("STATE", [worker_state(worker, now) for worker in workers_], rank=5),
            GridColumn(
                "FREE", [free_text(worker.get("free"), worker.get("capacity")) for worker in workers_], least=12
            ),
            GridColumn("USED BY OTHERS", others, rank=3, least=12),
            GridColumn(
                "LABELS", [" ".join(map(str, worker.get("labels") or [])) for worker in workers_], rank=1, least=8
            ),
        ]
        lines += ["", *_titled(Grid([c for c in columns if any(c.cells)], width), coloured)]
    return lines


def _titled(grid: Any, coloured: bool) -> list[str]:
    head = f"{render.BOLD}{grid.head()}{render.PLAIN}" if coloured else grid.head()
    return [head, *grid.rows(coloured)]


def _is_plain(queue: Mapping[str, Any]) -> bool:
    """Tell whether there is nothing to say about a queue: the default one, without limits."""
    is_default = queue.get("name") == "default" and not queue.get("paused")
    return is_default and not job_text.queue_limits(queue) and not queue.get("prefix") and not queue.get("wrap")


def _free_of_queue(queue: Mapping[str, Any]) -> str:
    if slots := queue.get("slots"):
        return f"{sum(slot.get('job') is None for slot in slots)}/{len(slots)} slots"
    return free_text(queue.get("free"), queue.get("limits"))


def free_text(free: Mapping[str, Any] | None, capacity: Mapping[str, Any] | None) -> str:
    """Return what is free of what there is: `gpu 1/4, cpu 2/8, mem 12/64G`."""
    parts = []
    for name, has in (capacity or {}).items():
        whole, left = _sum(has), _sum((free or {}).get(name, 0))
        if name in ("mem", "vram", "disk") and whole >= 1024:
            parts.append(f"{name} {_short(left / 1024)}/{_short(whole / 1024)}G")
        else:
            parts.append(f"{name} {_short(left)}/{_short(whole)}")
    return ", ".join(parts)


def _sum(amount: Any) -> float:
    values = amount.values() if isinstance(amount, dict) else (amount,)
    return float(sum(value for value in values if isinstance(value, int | float)))


def _short(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0") if value < 100 else f"{value:.0f}"
