"""The screen of `grass show`: what runs, what is next, what is held up, what failed, the sweeps, and counts."""

from __future__ import annotations

from grassq.cli import job_text, render
from grassq.cli.listing import bars
from grassq.cli.listing.columns import needs, plain_state
from grassq.cli.listing.differences import command_text, shortened
from grassq.cli.listing.grid import Grid, GridColumn
from grassq.cli.listing.table import with_slots

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Job = Mapping[str, Any]

#: The most rows of each section on a terminal of 24 lines; a taller one has more.
ROWS = {"running": 8, "next": 5, "blocked": 5, "failed": 3, "sweeps": 5}
SMALL_LINES = 24
#: How rows are reduced, step by step, until a screen fits a height: what is least missed goes first.
FEWER_ROWS = (
    *(("next", 5), ("failed", 3), ("running", 8), ("next", 3), ("blocked", 2), ("failed", 2), ("sweeps", 3)),
    *(("next", 2), ("failed", 1), ("blocked", 1), ("running", 5), ("sweeps", 2), ("next", 1), ("running", 3)),
    *(("sweeps", 1), ("running", 1)),
)
#: Names that a line about the rest lists.
REST_NAMED = 4
#: How far rows stand in below their title.
INDENT = 1
_RED, _GREEN, _CYAN, _DIM = "\x1b[31m", "\x1b[32m", "\x1b[36m", "\x1b[2m"


class OverviewScreen:
    """Lays out one answer of the daemon for a width and a number of lines."""

    def __init__(self, answer: Mapping[str, Any], width: int, lines: int, *, coloured: bool, now: float) -> None:
        self._answer = answer
        self._width = width
        self._coloured = coloured
        self._now = now
        self._slots = with_slots(answer.get("queues", []))
        self._scale = max(1.0, lines / SMALL_LINES)
        self._rows = self._most_rows()
        self._jobs: Sequence[Job] = answer.get("jobs", [])
        self._totals: Mapping[str, int] = answer.get("totals") or {}
        self._several_workers = len(answer.get("workers", [])) > 1

    def fitted(self, height: int) -> list[str]:
        """Return the lines of the screen with fewer rows in the sections, so that they fit a height if they can."""
        self._rows = self._most_rows()
        lines = self.lines()
        for section, rows in FEWER_ROWS:
            if len(lines) <= height:
                break
            if rows < self._rows[section]:
                self._rows[section] = rows
                lines = self.lines()
        return lines

    def _most_rows(self) -> dict[str, int]:
        return {section: int(rows * self._scale) for section, rows in ROWS.items()}

    def lines(self) -> list[str]:
        """Return the lines of the screen."""
        sections = [
            self._running(),
            self._next(),
            self._blocked(),
            self._failed(),
            self._sweeps(),
            self._succeeded(),
        ]
        lines: list[str] = []
        for section in sections:
            lines += ([""] if lines and section else []) + section
        return lines or ["no jobs"]

    def _in(self, *states: str) -> list[Job]:
        return [job for job in self._jobs if job.get("state") in states]

    def _count(self, *states: str) -> int:
        return sum(int(self._totals.get(state, 0)) for state in states)

    def _some(self, section: str, jobs: Sequence[Job], count: int) -> Sequence[Job]:
        """Return the jobs that a section has rows for; one job more takes no more room than its mention."""
        rows = self._rows[section]
        return jobs[: rows + 1] if count == rows + 1 else jobs[:rows]

    def _title(self, text: str, style: str = "") -> str:
        text, _ = render.cut(text, self._width)
        return f"{render.BOLD}{style}{text}{render.PLAIN}" if self._coloured else text

    def _note(self, text: str) -> str:
        text, _ = render.cut(" " * INDENT + render.clean(text), self._width)
        return f"{_DIM}{text}{render.PLAIN}" if self._coloured else text

    def _section(self, title: str, columns: Sequence[GridColumn], style: str = "") -> list[str]:
        grid = Grid(columns, self._width, indent=INDENT)
        return [self._title(title, style), *grid.rows(self._coloured)]

    def _first_columns(self, jobs: Sequence[Job]) -> list[GridColumn]:
        names = [str(job.get("name") or "") for job in jobs]
        columns = [GridColumn("", [str(job.get("id")) for job in jobs])]
        if any(names):
            columns.append(GridColumn("", names, label="NAME", rank=6, least=8))
        commands = [command_text(job) for job in jobs]
        columns.append(GridColumn("", commands, least=24, shortened=lambda size: shortened(jobs, size, self._jobs)))
        return columns

    def _running(self) -> list[str]:
        all_ = self._in("running", "placed")
        count = max(self._count("running", "placed"), len(all_))
        jobs = self._some("running", all_, count)
        if not jobs:
            return []
        columns = self._first_columns(jobs)
        states = [plain_state(job) for job in jobs]
        if any(state != "running" for state in states):
            columns.append(
                GridColumn("", ["" if state == "running" else state for state in states], label="STATE", rank=9)
            )
        columns.append(GridColumn("", [self._where(job) for job in jobs], rank=5))
        columns.append(GridColumn("", [job_text.took(job, self._now) for job in jobs], rank=8))
        progress = GridColumn("", [bars.progress_text(job) for job in jobs], label="PROGRESS", rank=7, style=_GREEN)
        said = [bars.last_line(job) for job in jobs]
        grid = Grid(
            [*columns, *([progress] if progress.cells and any(progress.cells) else [])]
            + ([GridColumn("", said, label="LAST", rank=4, least=24, style=_DIM)] if any(said) else []),
            self._width,
            indent=INDENT,
        )
        if any(said) and not grid.has("LAST"):
            # One column for both: how far the job is, else what it said last.
            both = [bars.progress_text(job) or line for job, line in zip(jobs, said, strict=True)]
            grid = Grid([*columns, GridColumn("", both, rank=7, least=26)], self._width, indent=INDENT)
        lines = [self._title(f"RUNNING {count}", _CYAN), *grid.rows(self._coloured)]
        if count > len(jobs):
            lines.append(self._note(f"{count - len(jobs)} more; `grass show running` lists them"))
        return lines

    def _where(self, job: Job) -> str:
        held = job_text.holds(job.get("allocation"))
        return f"{job.get('worker')} {held}" if self._several_workers and job.get("worker") else held

    def _next(self) -> list[str]:
        queued = self._in("queued")
        count = max(self._count("queued"), len(queued))
        jobs = self._some("next", queued, count)
        if not jobs:
            return []
        wants = [needs(job, self._slots) for job in jobs]
        reasons = [str(job.get("reason") or "") for job in jobs]
        columns = [
            *self._first_columns(jobs),
            GridColumn("", wants, rank=5),
            GridColumn("", [f"queued {job_text.ago(job.get('created'), self._now)}" for job in jobs], rank=3),
        ]
        if any(reasons):
            columns.append(GridColumn("", reasons, rank=4, least=20))
        title = f"NEXT {count}" if count == len(jobs) else f"NEXT {len(jobs)} of {count}"
        lines = self._section(title, columns)
        if count > len(jobs):
            lines.append(self._note(self._rest(jobs, count)))
        return lines

    def _rest(self, shown: Sequence[Job], count: int) -> str:
        """Return in one line which queued jobs are not shown: by sweep, else by queue."""
        left: dict[str, int] = {}
        by_queue = {str(queue.get("name")): int(queue.get("queued") or 0) for queue in self._answer.get("queues", [])}
        for job in shown:
            by_queue[str(job.get("queue"))] = by_queue.get(str(job.get("queue")), 0) - 1
        for sweep in self._answer.get("sweeps", []):
            of_sweep = int((sweep.get("counts") or {}).get("queued", 0))
            hidden = of_sweep - sum(_is_of(job, sweep) for job in shown)
            if hidden > 0:
                left[f"{hidden} of {sweep.get('name')}"] = hidden
                by_queue[str(sweep.get("queue"))] = by_queue.get(str(sweep.get("queue")), 0) - hidden
        left |= {f"{hidden} in queue {queue}": hidden for queue, hidden in by_queue.items() if hidden > 0}
        named = sorted(left, key=lambda text: -left[text])[:REST_NAMED]
        return f"{count - len(shown)} more: {', '.join(named)}; `grass show queued`"

    def _blocked(self) -> list[str]:
        held, waiting = self._count("held"), self._count("waiting")
        jobs = self._some("blocked", self._in("held", "waiting"), held + waiting)
        if not jobs:
            return []
        title = " and ".join(f"{name} {count}" for name, count in (("HELD", held), ("WAITING", waiting)) if count)
        reasons = [str(job.get("reason") or "") for job in jobs]
        columns = [
            *self._first_columns(jobs),
            GridColumn("", [str(job.get("state")) for job in jobs], label="STATE", rank=5),
        ]
        if any(reasons):
            columns.append(GridColumn("", reasons, rank=7, least=24))
        lines = self._section(title, columns)
        if (more := held + waiting - len(jobs)) > 0:
            lines.append(self._note(f"{more} more; `grass show held,waiting` lists them"))
        return lines

    def _failed(self) -> list[str]:
        all_ = self._in("failed")
        all_.sort(key=lambda job: str(job.get("finished") or ""), reverse=True)
        jobs = all_[: self._rows["failed"]]
        if not jobs:
            return []
        count = self._count("failed")
        why = [str(job.get("cause") or job.get("error") or "") for job in jobs]
        columns = [
            *self._first_columns(jobs),
            GridColumn("", [job_text.result(job) for job in jobs], rank=6),
            GridColumn("", [job_text.ago(job.get("finished"), self._now) for job in jobs], rank=5),
        ]
        # The cause is what people look for: where its column would be cut, it begins the line below.
        with_cause = Grid([*columns, GridColumn("", why, style=_RED)], 10**6)
        is_wide = sum(with_cause.sizes) + render.GAP * len(with_cause.sizes) <= self._width - INDENT
        grid = with_cause if is_wide else Grid(columns, self._width - INDENT)
        title = f"FAILED {count}" if count <= len(jobs) else f"LAST FAILURES {len(jobs)} of {count}"
        lines = [self._title(title, _RED)]
        mark = "└" if render.is_utf8() else "`-"
        for job, row, cause in zip(jobs, grid.rows(self._coloured), why, strict=True):
            lines.append(" " * INDENT + row)
            said = bars.last_line(job)
            below = [text for text in ("" if is_wide else cause, "" if said in cause else said) if text]
            if below:
                lines.append(self._note(f"{' ' * len(str(job.get('id')))} {mark} {'; '.join(below)}"))
        if count > len(jobs):
            lines.append(self._note("`grass show failed` lists all, `grass rerun --failed` runs them again"))
        return lines

    def _sweeps(self) -> list[str]:
        every = self._answer.get("sweeps") or []
        sweeps = every[: self._rows["sweeps"]]
        if not sweeps:
            return []
        done = [f"{sweep.get('ended', 0)}/{sweep.get('jobs', 0)}" for sweep in sweeps]
        counts = [_counts(sweep) for sweep in sweeps]
        size = bars.SWEEP_BAR if self._width >= 70 else bars.JOB_BAR
        fractions = [int(sweep.get("ended") or 0) / max(1, int(sweep.get("jobs") or 1)) for sweep in sweeps]
        drawn = [bars.bar(part, size, ascii=not render.is_utf8()) for part in fractions]
        columns = [
            GridColumn("", [str(sweep.get("name")) for sweep in sweeps], least=12),
            GridColumn("", drawn, rank=1, style=_GREEN),
            GridColumn("", [f"{bars.percent(part):>4}" for part in fractions], rank=3),
            GridColumn("", done),
            GridColumn("", counts, rank=2, least=20),
        ]
        lines = self._section(f"SWEEPS {len(every)}", columns)
        if len(every) > len(sweeps):
            lines.append(self._note(f"{len(every) - len(sweeps)} more; `grass show all --tree` has all of them"))
        return lines

    def _succeeded(self) -> list[str]:
        count, cancelled = self._count("succeeded"), self._count("cancelled")
        if not count and not cancelled:
            return []
        last = job_text.ago(self._answer.get("last_succeeded"), self._now)
        words = [f"{count} succeeded" + (f", the last {last}" if last else "")] if count else []
        words += [f"{cancelled} cancelled"] if cancelled else []
        return [self._title("; ".join(words), _GREEN if count else "")]


def _is_of(job: Job, sweep: Mapping[str, Any]) -> bool:
    """Tell whether a job is part of a sweep: of its id, or by its name if the sweep has none."""
    if sweep.get("id") is not None:
        return bool(job.get("sweep") == sweep["id"])
    return bool(job.get("name") == sweep.get("name"))


def _counts(sweep: Mapping[str, Any]) -> str:
    """Return the counts of a sweep by state; what needs a look comes first."""
    counts = sweep.get("counts") or {}
    order = ("failed", "running", "placed", "queued", "waiting", "held", "succeeded", "cancelled")
    told = ", ".join(f"{counts[state]} {state}" for state in order if counts.get(state))
    return f"stopped, {told}" if sweep.get("stopped") else told
