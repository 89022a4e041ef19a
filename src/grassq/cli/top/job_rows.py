"""The rows of the table of jobs: which columns fit, how wide they are, and what each cell says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import localtime, strftime
from typing import Any, NamedTuple

from rich.cells import cell_len

from grassq.cli import job_text
from grassq.cli.listing.bars import bar, percent
from grassq.cli.listing.columns import directory, plain_state
from grassq.cli.listing.differences import command_text, shortened
from grassq.cli.render import STATE_COLOURS
from grassq.cli.top.frame import Glyphs, Line, Piece, fit, text
from grassq.cli.top.job_window import JobWindow
from grassq.errors import BadInput
from grassq.net.encoding import FINAL_STATES

Job = Mapping[str, Any]
PROGRESS_CELLS = 7
#: Blanks between two columns.
GAP = 1


class Look(NamedTuple):
    """What the cells depend on besides the job."""

    now: float
    glyphs: Glyphs
    #: By job: the line of the forecast.
    when: Mapping[int, str] = {}


class Column(NamedTuple):
    """A column: its cell, its width, and how soon it is left out on a narrow screen; 0 is never."""

    title: str
    cell: Callable[[Job, Look], str]
    most: int
    dropped: int
    #: Takes the room that is left, by this weight.
    stretch: int = 0


def _state(job: Job, look: Look) -> str:
    state = plain_state(job)
    return f"{state} {job_text.result(job)}" if state == "failed" else state


def _name(job: Job, look: Look) -> str:
    return _named(job, command_text(job))


def _named(job: Job, command: str) -> str:
    return f"{job['name']}  {command}" if job.get("name") else command


def _where(job: Job, look: Look) -> str:
    if job.get("state") in FINAL_STATES:
        return ""
    return job_text.holds(job.get("allocation"))


def _request(job: Job, look: Look) -> str:
    return job_text.amounts(job.get("request"))


def _time(job: Job, look: Look) -> str:
    return job_text.took(job, look.now)


def progress_of(job: Job) -> float | None:
    """Return the part of a job that is done, if its log tells: from 0 to 1."""
    progress = job.get("progress")
    part = progress.get("fraction") if isinstance(progress, Mapping) else progress
    return min(1.0, max(0.0, float(part))) if isinstance(part, int | float) and part == part else None


def _progress(job: Job, look: Look) -> str:
    part = progress_of(job)
    if part is None or job.get("state") != "running":
        return ""
    return f"{bar(part, PROGRESS_CELLS, ascii=look.glyphs.is_ascii)} {percent(part):>4}"


def _why(job: Job, look: Look) -> str:
    state = job.get("state")
    if state in FINAL_STATES:
        ended = job_text.clock(job.get("finished"), look.now)
        told = job.get("cause") or job.get("error") or (job.get("last_line") if state == "failed" else None)
        return ": ".join(str(each) for each in (ended, told) if each)
    when = look.when.get(job["id"], "")
    if state == "running" and not job.get("unreachable"):
        return "; ".join(filter(None, (when or _ends(job, look), str(job.get("last_line") or ""))))
    return "; ".join(filter(None, (when, str(job.get("reason") or ""))))


def _ends(job: Job, look: Look) -> str:
    """Return when a job ends if it goes on as its last progress bar says."""
    progress = job.get("progress")
    left = progress.get("left_s") if isinstance(progress, Mapping) else None
    if not isinstance(left, int | float) or not 0 <= left < job_text.LONGEST_S:
        return ""
    return f"ends {look.glyphs.about}{_clock(look.now + left, look.now)}"


def when_text(forecast: Job, now: float, glyphs: Glyphs) -> str:
    """Return when a job ends, or starts if it has not: `starts ~14:31 (+-6m)`; "" if there is no estimate."""
    is_running = forecast.get("state") in ("running", "placed")
    interval = forecast.get("ends" if is_running else "starts")
    times = [job_text.seconds(interval.get(name)) for name in ("low", "likely", "high")] if interval else []
    if len(times) != 3 or None in times:
        return ""
    low, likely, high = (time or 0.0 for time in times)
    about = f"{glyphs.about}{_clock(likely, now)}"
    spread = f" ({glyphs.either}{job_text.span((high - low) / 2)})" if high - low >= 2 else ""
    return f"{'ends' if is_running else 'starts'} {about}{spread}"


def _clock(at: float, now: float) -> str:
    return strftime("%H:%M" if at - now < 20 * 3600 else "%b %d %H:%M", localtime(at))


COLUMNS = {
    column.title: column
    for column in (
        Column("ID", lambda job, look: str(job.get("id")), 12, 0),
        Column("STATE", _state, 18, 0),
        Column("QUEUE", lambda job, look: str(job.get("queue") or ""), 12, 4),
        Column("NAME", _name, 200, 0, stretch=3),
        Column("REQUEST", _request, 16, 3),
        Column("WHERE", _where, 16, 6),
        Column("WORKER", lambda job, look: str(job.get("worker") or ""), 12, 5),
        Column("PRIORITY", lambda job, look: str(job.get("priority", "")), 8, 2),
        Column("ATTEMPT", lambda job, look: str(job.get("attempt") or ""), 7, 1),
        Column("PID", lambda job, look: str(job.get("pid") or ""), 8, 1),
        Column("CREATED", lambda job, look: job_text.clock(job.get("created"), look.now), 12, 2),
        Column("STARTED", lambda job, look: job_text.clock(job.get("started"), look.now), 12, 2),
        Column("FINISHED", lambda job, look: job_text.clock(job.get("finished"), look.now), 12, 2),
        Column("TIME", _time, 8, 8),
        Column("PROGRESS", _progress, PROGRESS_CELLS + 5, 7),
        Column("CWD", lambda job, look: directory(job), 40, 1),
        Column("WHY", _why, 200, 5, stretch=2),
    )
}
DEFAULT_COLUMNS = ("ID", "STATE", "QUEUE", "NAME", "REQUEST", "WHERE", "WORKER", "TIME", "PROGRESS", "WHY")


def parse_columns(typed: str) -> tuple[str, ...]:
    """Return the columns that were typed, separated by blanks or commas; raise BadInput for one that is not there."""
    titles = tuple(dict.fromkeys(typed.upper().replace(",", " ").split()))
    if wrong := [title for title in titles if title not in COLUMNS]:
        raise BadInput(f"there is no column {text(wrong[0])!r}; the columns are {', '.join(COLUMNS)}")
    if not titles:
        raise BadInput(f"name some columns of {', '.join(COLUMNS)}")
    return titles


class Widths:
    """The columns that are shown and their widths. A column grows with its cells and never shrinks by itself."""

    def __init__(self, titles: Sequence[str] = DEFAULT_COLUMNS) -> None:
        self.titles = tuple(titles)
        self._seen: dict[str, int] = {}

    def forget(self) -> None:
        """Let columns shrink: another list is shown."""
        self._seen.clear()

    def fit(self, cells: Sequence[Mapping[str, str]], width: int) -> dict[str, int]:
        """Return the columns that fit a screen, with their widths."""
        for title in self.titles:
            longest = max((cell_len(row[title]) for row in cells), default=0)
            self._seen[title] = max(self._seen.get(title, 0), min(longest, COLUMNS[title].most))
        shown = [title for title in self.titles if self._is_told(title, cells)]
        while True:
            sizes = {title: self._size(title) for title in shown}
            if sum(sizes.values()) + GAP * len(sizes) < width or not (out := _first_dropped(shown)):
                break
            shown.remove(out)
        return _stretched(sizes, self._seen, width)

    def _is_told(self, title: str, cells: Sequence[Mapping[str, str]]) -> bool:
        """Tell whether a column says anything; what is the same everywhere says nothing."""
        if title == "QUEUE":
            return {row[title] for row in cells} - {"", "default"} != set()
        if title == "WORKER":
            return len({row[title] for row in cells} - {""}) > 1 or self.titles != DEFAULT_COLUMNS
        return self._seen.get(title, 0) > 0 or not cells or COLUMNS[title].dropped == 0

    def _size(self, title: str) -> int:
        column = COLUMNS[title]
        # A stretched column first asks for little; then it is given what is left.
        least = 12 if column.stretch else 0
        return max(len(title), min(self._seen.get(title, 0), least) if column.stretch else self._seen.get(title, 0))


def _first_dropped(shown: Sequence[str]) -> str | None:
    droppable = [title for title in shown if COLUMNS[title].dropped]
    return min(droppable, key=lambda title: COLUMNS[title].dropped) if droppable else None


def _stretched(sizes: dict[str, int], seen: Mapping[str, int], width: int) -> dict[str, int]:
    """Give the room that is left to the columns that stretch, as far as their cells need it."""
    room = width - 1 - sum(sizes.values()) - GAP * len(sizes)
    while room > 0:
        short = [title for title in sizes if COLUMNS[title].stretch and sizes[title] < seen.get(title, 0)]
        if not short:
            break
        weights = sum(COLUMNS[title].stretch for title in short)
        for title in short:
            given = min(max(1, room * COLUMNS[title].stretch // weights), seen[title] - sizes[title])
            sizes[title] += max(0, min(given, width - 1 - sum(sizes.values()) - GAP * len(sizes)))
        left = width - 1 - sum(sizes.values()) - GAP * len(sizes)
        if left == room:
            break
        room = left
    return sizes


def cells_of(job: Job, titles: Sequence[str], look: Look) -> dict[str, str]:
    """Return the cells of a job, safe to draw."""
    return {title: text(COLUMNS[title].cell(job, look)) for title in titles}


def _short_names(jobs: Sequence[Job], size: int, glyphs: Glyphs) -> list[str]:
    """Return the names and commands of the jobs on the screen; of commands that are too wide, what differs."""
    groups: dict[str, list[int]] = {}
    for at, job in enumerate(jobs):
        groups.setdefault(str(job.get("name") or ""), []).append(at)
    names = [""] * len(jobs)
    for name, places in groups.items():
        room = size - (cell_len(text(name)) + 2 if name else 0)
        commands = shortened([jobs[at] for at in places], max(1, room), mark=glyphs.dots)
        for at, command in zip(places, commands, strict=True):
            names[at] = text(_named(jobs[at], command))
    return names


def header_row(sizes: Mapping[str, int], width: int, glyphs: Glyphs) -> Line:
    """Return the titles of the columns."""
    titles = {"WHY": "WHY / WHEN"}
    shown = " ".join(
        fit(titles.get(title, title) if size >= len(titles.get(title, title)) else title, size)
        for title, size in sizes.items()
    )
    return [(fit(" " + shown, width, glyphs.dots), "bold")]


def job_row(
    job: Job, cells: Mapping[str, str], sizes: Mapping[str, int], width: int, look: Look, *, at: bool, marked: bool
) -> Line:
    """Return the row of a job; `at` is under the cursor."""
    glyphs = look.glyphs
    sign = glyphs.mark if marked else glyphs.pointer if at else " "
    over = "reverse" if at else "bold yellow" if marked else ""
    line: list[Piece] = [(sign, over)]
    for title, size in sizes.items():
        style = over or (
            STATE_COLOURS.get(cells[title].split(" ")[0], "")
            if title == "STATE"
            else "dim"
            if job.get("state") in FINAL_STATES and title != "ID"
            else ""
        )
        line += [(fit(cells[title], size, glyphs.dots), style), (" " * GAP, over if at else "")]
    used = 1 + sum(sizes.values()) + GAP * len(sizes)
    return [*line, (" " * max(0, width - used), over if at else "")]


def plain_table(
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int,
    height: int,
    top: int,
    cursor: int,
    glyphs: Glyphs,
) -> list[Line]:
    """Return a small table with a cursor, such as that of the queues."""
    cleaned = [[text(cell) for cell in row] for row in rows]
    sizes = [max(cell_len(row[at]) for row in (list(headers), *cleaned)) for at in range(len(headers))]
    drawn: list[Line] = [
        [
            (
                fit(
                    " " + "  ".join(fit(cell, size) for cell, size in zip(headers, sizes, strict=True)),
                    width,
                    glyphs.dots,
                ),
                "bold",
            )
        ]
    ]
    for index, row in list(enumerate(cleaned))[top : top + height - 1]:
        body = "  ".join(fit(cell, size) for cell, size in zip(row, sizes, strict=True))
        sign = glyphs.pointer if index == cursor else " "
        drawn.append([(fit(sign + body, width, glyphs.dots), "reverse" if index == cursor else "")])
    return drawn


def table_lines(
    window: JobWindow,
    widths: Widths,
    look: Look,
    width: int,
    height: int,
    nothing: str = "",
    *,
    has_cursor: bool = True,
) -> list[Line]:
    """Return the lines of a table of jobs."""
    rows = window.rows[window.top : window.top + height - 1]
    cells = [cells_of(row.job, widths.titles, look) for row in rows]
    sizes = widths.fit(cells, width)
    if "NAME" in sizes:
        names = _short_names([row.job for row in rows], sizes["NAME"], look.glyphs)
        cells = [{**row, "NAME": name} for row, name in zip(cells, names, strict=True)]
    lines = [header_row(sizes, width, look.glyphs)]
    for at, row in enumerate(rows):
        is_at = has_cursor and window.top + at == window.cursor
        is_marked = row.place.id in window.marks
        lines.append(job_row(row.job, cells[at], sizes, width, look, at=is_at, marked=is_marked))
    if not rows and nothing:
        lines.append([(f" {nothing}", "dim")])
    return lines
