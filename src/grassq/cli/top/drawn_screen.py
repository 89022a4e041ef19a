"""What the screen shows: the widgets, their places, and the lines they draw."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from time import localtime, strftime
from typing import Any, NamedTuple

from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.events import Resize
from textual.geometry import Size

from grassq import __version__
from grassq.cli import job_text
from grassq.cli.top import frame, job_rows
from grassq.cli.top.feeds.asker import Daemon
from grassq.cli.top.feeds.live import News
from grassq.cli.top.filters import JobFilter, parse_filter
from grassq.cli.top.job_pages import ACTIVE, Job
from grassq.cli.top.job_window import JobWindow
from grassq.cli.top.line_input import CommandWords, LineEditor
from grassq.cli.top.widgets.job_pane import JobPane
from grassq.cli.top.widgets.lines import LinesView
from grassq.cli.top.widgets.log_pane import LogPane

#: The smallest screen with both panes.
SPLIT_LINES = 16
#: The border between jobs and log moves in steps of this many lines, so that it does not move with every job.
LAYOUT_STEP = 5

TABS = ("jobs", "failed", "queues", "sweeps", "machines")
JOBS, FAILED, QUEUES, SWEEPS, MACHINES = range(5)


class ListQuery(NamedTuple):
    """Which list of jobs is shown. An answer to another list is dropped."""

    wanted: JobFilter = JobFilter()
    tab: int = JOBS
    order: str = ACTIVE
    is_reversed: bool = False


class DrawnScreen(App[int], inherit_bindings=False):
    """The widgets, and what they show; where that comes from and what keys do is added by the classes below it."""

    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = None
    CSS = """
    Screen { layout: vertical; background: transparent; overflow: hidden hidden; }
    #table, #log, #page, #small { height: 1fr; }
    """

    def __init__(
        self, daemon: Daemon, glyphs: frame.Glyphs, *, read_only: bool, filter_: str, columns: tuple[str, ...]
    ) -> None:
        super().__init__(ansi_color=True)
        self.daemon = daemon
        self.glyphs = glyphs
        #: The error that ended the screen.
        self.failure: BaseException | None = None
        self.is_read_only = read_only
        self.overview: Mapping[str, Any] = {}
        self.running: list[Job] = []
        self.news = News(False, False)
        self.filter = filter_
        self.query_ = ListQuery(parse_filter(filter_))
        self.window = JobWindow()
        #: The cursor of the small tables.
        self.small_cursor = 0
        self.is_log_active = False
        self.is_zoomed = False
        #: The size that a resize told; the one of the application comes later.
        self._screen_size: Size | None = None
        self.page: list[frame.Line] | None = None
        self.page_top = 0
        #: About the selected job: the line above the log, and all lines of it.
        self.reasons: tuple[int, str] = (0, "")
        self.when: dict[int, str] = {}
        #: Which job starts next, and when.
        self.next = ""
        #: What the caller may do, as the daemon says: `read`, `submit` or `admin`; "" if it does not say.
        self.scope = ""
        self.words = CommandWords(self.known_words)
        self.table = JobPane(self.window, self.look, self.nothing_text, columns, id="table")
        self.log_pane = LogPane(id="log")
        self.prompt = LineEditor(self.words)

    # What is on the screen.

    def compose(self) -> ComposeResult:
        """Make the widgets, from top to bottom."""
        yield LinesView(lambda width, height: [self._header(width)], id="head")
        yield LinesView(self._devices, id="devices")
        yield LinesView(lambda width, height: [self._tab_line(width)], id="tabs")
        yield self.table
        yield LinesView(self._small_table, id="small")
        yield LinesView(lambda width, height: self._page_lines(height), id="page")
        yield LinesView(lambda width, height: [self._reason_line(width)], id="why")
        yield LinesView(lambda width, height: [self._log_rule(width)], id="rule")
        yield self.log_pane
        yield LinesView(lambda width, height: [self.foot_line(width)], id="foot")
        yield LinesView(lambda width, height: [self.typed_line(width)], id="typing")

    def on_resize(self, event: Resize) -> None:
        """Give the widgets their places on another screen."""
        self._screen_size = event.size
        self.arrange()

    def arrange(self) -> None:
        """Decide which widgets are shown and how high they are."""
        width, height = self._screen_size or self.size
        is_list = self.query_.tab in (JOBS, FAILED)
        both = height >= SPLIT_LINES and not self.is_zoomed and self.page is None and is_list
        shows_log = self.page is None and is_list and (both or self.is_log_active)
        devices = self._device_count(width, height) if not self.is_zoomed else 0
        self._place("devices", devices > 0, devices)
        self._place("table", self.page is None and is_list and (both or not self.is_log_active), None)
        self._place("small", self.page is None and not is_list, None)
        self._place("page", self.page is not None, None)
        self._place("why", self.page is None and is_list, 1)
        self._place("rule", shows_log, 1)
        self._place("log", shows_log, self._log_height(height - devices - 5) if both else None)
        self._place("typing", self.is_typing, 1)
        self._place("foot", not self.is_typing, 1)
        self.sync()

    def _place(self, id_: str, is_shown: bool, height: int | None) -> None:
        widget = self.query_one(f"#{id_}")
        widget.display = is_shown
        widget.styles.height = "1fr" if height is None else height

    def _device_count(self, width: int, height: int) -> int:
        most = max(2, height // 5)
        return len(frame.device_lines(self.overview, self.running, max(20, width), most, self.glyphs))

    def _log_height(self, room: int) -> int:
        """Return the lines of the log: two fifths of the room, or more if the jobs need less, in steps."""
        needed = -(-(len(self.window.rows) + 1) // LAYOUT_STEP) * LAYOUT_STEP
        return max(4, room * 2 // 5, room - max(needed, 2 * LAYOUT_STEP))

    def repaint(self) -> None:
        """Draw everything, also what the terminal should already show."""
        for view in self.query(LinesView):
            view.forget()
        self.sync()

    def sync(self) -> None:
        """Draw what changed, everywhere."""
        for view in self.query(LinesView):
            if view.display:
                view.sync()

    @property
    def is_typing(self) -> bool:
        """Whether a filter or a command is being typed."""
        return False

    @property
    def may_change(self) -> bool:
        """Whether keys may change jobs: not if that was asked for, nor with a token that may only read."""
        return not self.is_read_only and self.scope in ("", "submit", "admin")

    def look(self) -> job_rows.Look:
        """Return what the cells of the table depend on."""
        return job_rows.Look(job_text.now(), self.glyphs, self.when)

    def nothing_text(self) -> str:
        """Return why the table has no row."""
        if not self.news.is_live:
            return self.news.why or "connecting"
        if not self.window.is_end:
            return "searching" if self.filter else "reading"
        if self.filter:
            return "no job matches; Esc removes the filter"
        return "no jobs yet; `grass enqueue COMMAND` makes one" if self.query_.tab == JOBS else "no job has failed"

    def foot_line(self, width: int) -> frame.Line:
        """Return the last line."""
        raise NotImplementedError

    def typed_line(self, width: int) -> frame.Line:
        """Return the line that is being typed."""
        raise NotImplementedError

    def known_words(self) -> Iterable[str]:
        """Return words that complete a command: states, queues, names, ids."""
        yield from ("all", "failed", "running", "queued", "waiting", "held", "succeeded", "cancelled", "placed")
        yield from (str(queue.get("name")) for queue in self.overview.get("queues") or [])
        jobs = [row.job for row in self.window.rows]
        yield from (str(job["name"]) for job in jobs if job.get("name"))
        yield from (str(job["id"]) for job in jobs)

    def _header(self, width: int) -> frame.Line:
        workers = self.overview.get("workers") or []
        where = self.daemon.broker or ", ".join(str(worker.get("name")) for worker in workers[:3]) or "this machine"
        lost = self.news.lost_at
        since = "" if self.news.is_live or lost is None else strftime("%H:%M:%S", localtime(lost))
        load = f"load {os.getloadavg()[0]:.1f}" if self.daemon.broker is None else ""
        version = str(self.overview.get("version") or __version__)
        is_read_only = not self.may_change
        header = frame.HeaderWords(frame.text(where), version, self.news.is_live, since, is_read_only, load, self.next)
        return frame.header_line(header, self.overview, width, self.glyphs)

    def _devices(self, width: int, height: int) -> list[frame.Line]:
        return frame.device_lines(self.overview, self.running, width, height, self.glyphs)

    def _tab_line(self, width: int) -> frame.Line:
        words = [f"/{frame.text(self.filter)}" if self.filter else ""]
        words.append(f"{len(self.window.marks)} marked" if self.window.marks else "")
        order = self.query_.order + (" reversed" if self.query_.is_reversed else "")
        words.append(order if order != ACTIVE else "")
        return frame.tab_line(TABS, self.query_.tab, "  ".join(filter(None, words)), width, self.glyphs)

    def small_table(self) -> tuple[list[str], list[list[str]], list[str]]:
        """Return the table of queues, sweeps or machines: headers, rows and what each row is called."""
        if self.query_.tab == QUEUES:
            return frame.queue_table(self.overview)
        if self.query_.tab == SWEEPS:
            return frame.sweep_table(self.overview, self.glyphs)
        return frame.machine_table(self.overview, job_text.now())

    def _small_table(self, width: int, height: int) -> list[frame.Line]:
        headers, rows, _ = self.small_table()
        self.small_cursor = min(self.small_cursor, max(0, len(rows) - 1))
        top = max(0, self.small_cursor - height + 2)
        return job_rows.plain_table(headers, rows, width, height, top, self.small_cursor, self.glyphs)

    def _page_lines(self, height: int) -> list[frame.Line]:
        lines = self.page or []
        self.page_top = max(0, min(self.page_top, len(lines) - height))
        shown = lines[self.page_top : self.page_top + height]
        left = len(lines) - self.page_top - height
        return (
            shown if left <= 0 else [*shown[:-1], [(f" {left + 1} more lines; j and PgDn go on, q goes back", "dim")]]
        )

    def _reason_line(self, width: int) -> frame.Line:
        job = self.window.job
        if job is None:
            return []
        id_, reason = self.reasons
        words = reason if id_ == job["id"] else ""
        label = f" {job['id']} {frame.job_title(job)}  "
        return [
            (frame.fit(label, min(cell_len(label), width // 2), self.glyphs.dots), "bold"),
            (f" {frame.text(words)}", ""),
        ]

    def _log_rule(self, width: int) -> frame.Line:
        job, pane = self.window.job, self.log_pane
        if job is None:
            return frame.rule([("log", "")], "", width, self.glyphs)
        state = "staying here, f follows" if not pane.is_following else "ended" if pane.is_ended else "following"
        attempt = f" attempt {job['attempt']}" if (job.get("attempt") or 0) > 1 else ""
        style = "reverse bold" if self.is_log_active else "bold"
        return frame.rule([(f" log {job['id']}{attempt} ", style)], state, width, self.glyphs)
