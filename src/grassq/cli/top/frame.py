"""What the screen says besides the rows of jobs: the first line, the devices, queues, sweeps and machines; as text.

A line is a list of pieces, each a text and a style in rich's words. Texts of jobs are cleaned where they become pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from grassq.cli import job_text
from grassq.cli.listing.bars import bar, percent
from grassq.cli.listing.machines import queue_row, worker_state
from grassq.cli.render import clean

Document = Mapping[str, Any]
Piece = tuple[str, str]
Line = list[Piece]

#: Up to here devices are drawn side by side if the screen is wide enough for two.
SIDE_BY_SIDE = 2
WIDE_COLUMNS = 100
BAR_CELLS = 8
#: Jobs that a device line names.
HOLDERS_NAMED = 6


class Glyphs(NamedTuple):
    """The characters that are drawn beside text."""

    rule: str = "─"
    live: str = "●"
    lost: str = "○"
    pointer: str = "▸"
    mark: str = "*"
    dots: str = "…"
    point: str = "·"
    about: str = "~"
    either: str = "±"
    levels: str = " ▁▂▃▄▅▆▇█"
    is_ascii: bool = False


ASCII = Glyphs("-", "*", "o", ">", "*", "~", "|", "~", "+-", " .:-=+*%#", is_ascii=True)


class DeviceUse(NamedTuple):
    """One device of a worker, and what is taken of it."""

    worker: str
    resource: str
    id: str
    worth: float
    free: float
    others: float
    holders: tuple[tuple[int, str], ...]
    #: The device gets no new jobs.
    is_drained: bool = False

    @property
    def used(self) -> float:
        """The part that is taken, from 0 to 1."""
        return min(1.0, max(0.0, 1.0 - self.free / self.worth)) if self.worth else 0.0


class HeaderWords(NamedTuple):
    """What the first line says about the connection."""

    where: str
    version: str
    is_live: bool
    #: The time of day since when nothing was heard; "" while live.
    since: str
    read_only: bool = False
    #: The load of this machine; "" for another one.
    load: str = ""
    next: str = ""


def text(content: object, width: int | None = None) -> str:
    """Return a text that came from outside, safe to draw; cut or filled to a width."""
    cleaned = clean(str(content))
    return cleaned if width is None else fit(cleaned, width)


def fit(content: str, width: int, dots: str = "…") -> str:
    """Return a text that takes exactly `width` cells."""
    if width <= 0:
        return ""
    if content.isascii():
        return content[: width - 1] + dots if len(content) > width else content.ljust(width)
    if cell_len(content) <= width:
        return set_cell_size(content, width)
    return set_cell_size(content, width - 1) + dots


def width_of(line: Sequence[Piece]) -> int:
    """Return how many cells a line takes."""
    return sum(cell_len(piece) for piece, _ in line)


def plain(line: Sequence[Piece]) -> str:
    """Return a line as text without styles."""
    return "".join(piece for piece, _ in line).rstrip()


def header_line(header: HeaderWords, overview: Document | None, width: int, glyphs: Glyphs) -> Line:
    """Return the first line: where this is, whether it is live, and how many jobs there are."""
    line: Line = [(f" grass {header.version} {glyphs.point} {text(header.where)} {glyphs.point} ", "bold")]
    if header.is_live:
        line.append((f"{glyphs.live} live", "bold green"))
    elif header.since:
        line.append((f"{glyphs.lost} not live since {header.since}", "bold red"))
    else:
        line.append((f"{glyphs.lost} connecting", "yellow"))
    if header.read_only:
        line.append(("  read-only", "yellow"))
    for piece in _totals(overview or {}):
        if width_of(line) + cell_len(piece[0]) + 2 <= width:
            line += [("  ", ""), piece]
    for right in (header.next, header.load):
        if right and width_of(line) + cell_len(right) + 3 <= width:
            line += [("   ", ""), (right, "dim")]
    return line


def _totals(overview: Document) -> Iterator[Piece]:
    totals = {str(state): int(count) for state, count in (overview.get("totals") or {}).items()}
    yield f"run {totals.get('running', 0) + totals.get('placed', 0)}", "cyan"
    yield f"wait {totals.get('queued', 0) + totals.get('waiting', 0)}", ""
    if totals.get("held"):
        yield f"held {totals['held']}", "magenta"
    yield f"failed {totals.get('failed', 0)}", "red" if totals.get("failed") else ""
    yield f"done {totals.get('succeeded', 0)}", "green" if totals.get("succeeded") else ""
    free: dict[str, tuple[int, int]] = {}
    for device in devices(overview, ()):
        have, count = free.get(device.resource, (0, 0))
        is_free = device.free >= device.worth > 0 and not device.is_drained
        free[device.resource] = have + is_free, count + 1
    for resource, (have, count) in free.items():
        yield f"free {text(resource)} {have}/{count}", "bold"
    if overview.get("paused"):
        names = ", ".join("all" if name in ("", "*") else str(name) for name in overview["paused"])
        yield f"paused {text(names, min(24, max(1, cell_len(clean(names)))))}", "bold yellow"
    if overview.get("restored"):
        yield "restored from a backup: starts nothing", "bold red"


def devices(overview: Document, running: Sequence[Document]) -> list[DeviceUse]:
    """Return every device of every worker, with the running jobs that hold some of it."""
    found = []
    for worker in overview.get("workers") or []:
        free, others = worker.get("free") or {}, worker.get("used_by_others") or {}
        for resource, capacity in (worker.get("capacity") or {}).items():
            if not isinstance(capacity, Mapping):
                continue
            for id_, worth in capacity.items():
                if isinstance(worth, int | float):
                    found.append(_device(worker, resource, id_, worth, free, others, running))
    return found


def _device(
    worker: Document,
    resource: str,
    id_: str,
    worth: float,
    free: Document,
    others: Document,
    running: Sequence[Document],
) -> DeviceUse:
    holders = [
        (int(job["id"]), job_title(job))
        for job in running
        if job.get("worker") == worker.get("name") and _part(job.get("allocation"), resource, id_) > 0
    ]
    left, used_by_others = _part(free, resource, id_), _part(others, resource, id_)
    is_drained = id_ in ((worker.get("drained_devices") or {}).get(resource) or ())
    if is_drained:
        # Nothing of it is free for a job; the bar shows what jobs hold.
        here = [job for job in running if job.get("worker") == worker.get("name")]
        left = worth - used_by_others - sum(_part(job.get("allocation"), resource, id_) for job in here)
    return DeviceUse(str(worker.get("name")), resource, id_, worth, left, used_by_others, tuple(holders), is_drained)


def _part(amounts: Document | None, resource: str, id_: str) -> float:
    by_id = (amounts or {}).get(resource)
    part = by_id.get(id_, 0.0) if isinstance(by_id, Mapping) else 0.0
    return float(part) if isinstance(part, int | float) else 0.0


def job_title(job: Document) -> str:
    """Return the name of a job, or its command, on one line."""
    name, command = job.get("name"), job_text.command(job)
    return clean(f"{name}: {command}" if name else command)


def device_lines(overview: Document, running: Sequence[Document], width: int, lines: int, glyphs: Glyphs) -> list[Line]:
    """Return at most `lines` lines about devices and pools: a line each, or a cell each if they are too many."""
    every = devices(overview, running)
    several = len({device.worker for device in every}) > 1
    pools = pool_lines(overview, width, glyphs)[: max(0, lines - bool(every))] if lines else []
    room = lines - len(pools)
    if not every or room <= 0:
        return pools
    if len(every) <= SIDE_BY_SIDE and width >= WIDE_COLUMNS:
        cells = width // len(every)
        return [[piece for device in every for piece in device_line(device, cells, several, glyphs)], *pools]
    if len(every) <= room:
        return [device_line(device, width, several, glyphs) for device in every] + pools
    return _compact(every, width, room, glyphs) + pools


def device_line(device: DeviceUse, width: int, several: bool, glyphs: Glyphs) -> Line:
    """Return one device: its name, how much of it is taken, and the jobs that hold it. Its load will follow the bar."""
    name = f"{device.worker} " if several else ""
    label = text(f" {name}{device.resource}{device.id} ")
    style = "cyan" if device.used > 0 else "dim"
    taken = f" {percent(device.used):>4} "
    line: Line = [(label, "bold"), (bar(device.used, BAR_CELLS, ascii=glyphs.is_ascii), style), (taken, "")]
    named = ", ".join(f"{id_} {title}" for id_, title in device.holders[:HOLDERS_NAMED])
    if len(device.holders) > 1:
        named = " ".join(str(id_) for id_, _ in device.holders[:HOLDERS_NAMED])
        named += f" +{len(device.holders) - HOLDERS_NAMED}" if len(device.holders) > HOLDERS_NAMED else ""
    if device.is_drained:
        named = f"drained{'; ' if named else ''}{named}"
    if device.others > 0:
        named += f"{'; ' if named else ''}{device.others:g} used by others"
    line.append(
        (fit(f" {named}" if named else " free", width - width_of(line) - 1, glyphs.dots) + " ", "" if named else "dim")
    )
    return line


def _compact(every: Sequence[DeviceUse], width: int, lines: int, glyphs: Glyphs) -> list[Line]:
    """Return many devices, one character each, filled as the device is: `gpu 0-15 ▇▇▃▁`, a line per worker."""
    groups: dict[tuple[str, str], list[DeviceUse]] = {}
    for device in every:
        groups.setdefault((device.worker, device.resource), []).append(device)
    several = len({worker for worker, _ in groups}) > 1
    drawn = []
    for (worker, resource), group in groups.items():
        free = sum(device.free >= device.worth > 0 for device in group)
        label = text(f" {f'{worker} ' if several else ''}{resource} {free}/{len(group)} free ")
        top = len(glyphs.levels) - 1
        levels = "".join(glyphs.levels[max(1, round(device.used * top)) if device.used > 0 else 0] for device in group)
        drawn.append(
            [
                (label, "bold"),
                ("[", "dim"),
                (fit(levels, min(len(levels), width - cell_len(label) - 2), glyphs.dots), "cyan"),
                ("]", "dim"),
            ]
        )
    if len(drawn) > lines:
        left = len(drawn) - lines + 1
        return [*drawn[: lines - 1], [(f" and {left} more; 5 lists the machines", "dim")]]
    return drawn


def pool_lines(overview: Document, width: int, glyphs: Glyphs) -> list[Line]:
    """Return the pools of each worker, such as cpu and mem, on a line each."""
    workers = overview.get("workers") or []
    drawn: list[Line] = []
    for worker in workers:
        name = text(f" {worker.get('name')} " if len(workers) > 1 else " ")
        line: Line = [(name, "bold")]
        for resource, capacity in (worker.get("capacity") or {}).items():
            if isinstance(capacity, int | float) and capacity > 0:
                free = (worker.get("free") or {}).get(resource, 0.0)
                used = capacity - free if isinstance(free, int | float) else 0.0
                shown = f"{_amount(resource, used)}/{_amount(resource, capacity)}"
                pieces = [
                    (f"{text(resource)} ", "bold"),
                    (bar(used / capacity, BAR_CELLS, ascii=glyphs.is_ascii), "blue"),
                    (f" {shown}   ", ""),
                ]
                if width_of(line) + width_of(pieces) <= width:
                    line += pieces
        if worker.get("online") is False:
            line.append(("silent", "bold red"))
        elif worker.get("drained"):
            line.append(("drained", "yellow"))
        if len(line) > 1:
            drawn.append(line)
    return drawn


def _amount(resource: str, amount: float) -> str:
    # Sizes count in MiB.
    return f"{amount / 1024:.1f}G" if resource in ("mem", "disk") and amount >= 1024 else f"{amount:g}"


def rule(left: Sequence[Piece], right: str, width: int, glyphs: Glyphs) -> Line:
    """Return a line with words on a rule."""
    line: Line = [(f"{glyphs.rule} ", "dim"), *left, (" ", "")]
    end = f" {right} {glyphs.rule}" if right else glyphs.rule
    room = width - width_of(line) - cell_len(end)
    if room < 0:
        end = fit(end, max(0, width - width_of(line)), glyphs.dots)
    return [*line, (glyphs.rule * max(0, room), "dim"), (end, "dim" if not right else "")]


def tab_line(tabs: Sequence[str], active: int, right: str, width: int, glyphs: Glyphs) -> Line:
    """Return the line with the tabs and the filter."""
    left: Line = []
    for number, tab in enumerate(tabs):
        left.append((f" {number + 1} {tab} ", "reverse bold" if number == active else ""))
    return rule(left, right, width, glyphs)


def queue_table(overview: Document) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the queues as a table: headers, rows, and what each row is called."""
    queues = overview.get("queues") or []
    rows = [queue_row(queue, with_worker=True) for queue in queues]
    names = [str(queue.get("name")) for queue in queues]
    return ["QUEUE", "WORKER", "LIMITS", "FREE", "RUNNING", "QUEUED", "COMMAND"], rows, names


def machine_table(overview: Document, now: float) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the machines as a table: headers, rows, and what each row is called."""
    workers = overview.get("workers") or []
    rows = []
    for worker in workers:
        rows.append(
            [
                str(worker.get("name")),
                worker_state(worker, now),
                str(worker.get("jobs", "")),
                job_text.holds(worker.get("capacity")),
                job_text.holds(worker.get("free")),
                job_text.holds(worker.get("used_by_others")),
            ]
        )
    names = [str(worker.get("name")) for worker in workers]
    return ["MACHINE", "STATE", "JOBS", "HAS", "FREE", "USED BY OTHERS"], rows, names


def sweep_table(overview: Document, glyphs: Glyphs) -> tuple[list[str], list[list[str]], list[str]]:
    """Return sweeps, which are jobs that share a name, as a table: headers, rows, and what each row is called."""
    rows, names = [], []
    for sweep in overview.get("sweeps") or []:
        counts = sweep.get("counts") or {}
        total, ended, running = (int(sweep.get(name) or 0) for name in ("jobs", "ended", "running"))
        drawn = bar(ended / total if total else 0.0, BAR_CELLS * 2, ascii=glyphs.is_ascii)
        waiting = max(0, total - ended - running)
        names.append(str(sweep.get("name")))
        numbers = [str(running), str(waiting), str(counts.get("failed", 0))]
        rows.append([names[-1], str(sweep.get("queue") or ""), f"{drawn} {ended}/{total}", *numbers])
    return ["SWEEP", "QUEUE", "ENDED", "RUNNING", "WAITING", "FAILED"], rows, names
