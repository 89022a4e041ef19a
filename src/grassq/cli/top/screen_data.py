"""The data behind the screen: the threads that ask, and how their answers reach the screen."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple

from textual.events import Resize
from textual.geometry import Size
from textual.message import Message
from textual.timer import Timer

from grassq.cli import job_text
from grassq.cli.top import frame
from grassq.cli.top.drawn_screen import FAILED, SWEEPS, DrawnScreen, ListQuery
from grassq.cli.top.feeds.asker import Answered, Asker, Daemon
from grassq.cli.top.feeds.live import LiveEvents, News
from grassq.cli.top.feeds.log_tail import LogFollower, LogNews
from grassq.cli.top.filters import JobFilter
from grassq.cli.top.job_pages import ACTIVE, RUNNING, Job, PlacedJobs, read, resolve, segments_of
from grassq.cli.top.job_rows import when_text
from grassq.cli.top.job_window import WINDOW_ROWS, Need
from grassq.cli.top.widgets.lines import LinesView
from grassq.cli.top.widgets.log_pane import OLDER_LINES, told_line
from grassq.core.term.line import Line as LogLine
from grassq.errors import GrassError, Unreachable
from grassq.net.client import ApiClient, compact
from grassq.net.encoding import FINAL_STATES, query

#: Changes are read again at most this often: the rows, and all the rest.
ROWS_EVERY_S = 0.2
OVERVIEW_EVERY_S = 0.5
#: The ends of the logs of running jobs are looked at this often: how far the jobs are.
PROGRESS_EVERY_S = 2.0
#: When the jobs on the screen start and end is asked this often, if something changed or runs.
WHEN_EVERY_S = 5.0
#: The log and the reasons of a job are asked for when the cursor has rested on it for this long.
REST_S = 0.15
#: Jobs of the window whose documents are read again by id while their order is kept.
HELD_MAX = WINDOW_ROWS


class Told(Message):
    """What a thread tells the screen."""

    def __init__(self, news: News | Answered | LogNews | Exception) -> None:
        super().__init__()
        self.news = news


class FoundRows(NamedTuple):
    """The answer to a question about rows."""

    asked: ListQuery
    #: What the filter turned out to mean.
    resolved: JobFilter
    rows: PlacedJobs | None
    #: Where the rows belong: `replace`, `down`, `up` or `update`.
    how: str
    from_start: bool = False
    jobs: Iterable[Job] = ()


class ScreenData(DrawnScreen):
    """The threads, and the questions they are asked."""

    def __init__(
        self, daemon: Daemon, glyphs: frame.Glyphs, *, read_only: bool, filter_: str, columns: tuple[str, ...]
    ) -> None:
        super().__init__(daemon, glyphs, read_only=read_only, filter_=filter_, columns=columns)
        #: What the filter turned out to mean.
        self._resolved: JobFilter | None = None
        #: Whether the daemon forecasts; an older one does not.
        self._has_forecasts = True
        #: By kind of question: when it was asked last.
        self._asked_at: dict[str, float] = {}
        self._waits: dict[str, Timer] = {}
        self._tail: LogFollower | None = None
        self._followed: tuple[int, int, str] | None = None
        self.asker = Asker("top-asker", daemon, self._tell, self._fail)
        self.doer = Asker("top-doer", daemon, self._tell, self._fail)
        self.live = LiveEvents(daemon, self._tell, self._fail)

    def on_mount(self) -> None:
        """Start the threads and the clock."""
        self.theme = "ansi-dark"
        # After Ctrl-Z the terminal shows what the shell wrote.
        self.app_resume_signal.subscribe(self, lambda _: self.repaint())
        self.arrange()
        for thread in (self.asker, self.doer, self.live):
            thread.start()
        self.ask_overview()
        self.ask_rows()
        self.set_interval(1.0, self._tick)
        self.set_interval(PROGRESS_EVERY_S, self._look_again)

    def _tick(self) -> None:
        """Let clocks go on; and take the size of the terminal, in case no signal told of a new one."""
        if not self.is_headless and os.isatty(1):
            size = Size(*os.get_terminal_size(1))
            if size != self.size and size.width and size.height:
                self.post_message(Resize(size, size))
        self.sync()

    def on_unmount(self) -> None:
        """End the threads."""
        self.asker.close()
        self.doer.close()
        self.live.close()
        if self._tail is not None:
            self._tail.close()

    # What the threads tell.

    def _tell(self, news: News | Answered | LogNews) -> None:
        self.post_message(Told(news))

    def _fail(self, error: Exception) -> None:
        self.post_message(Told(error))

    def on_told(self, message: Told) -> None:
        """Take what a thread tells."""
        match message.news:
            case News():
                self._take_news(message.news)
            case Answered():
                self._take_answer(message.news)
            case LogNews() as news:
                if self._followed is not None and news.job == self._followed[0]:
                    self.log_pane.add(news)
                    self.query_one("#rule", LinesView).sync()
            case Exception() as error:
                self.failure = error
                self.exit(1)

    def _take_news(self, news: News) -> None:
        self.news = news
        if news.has_changed:
            self.later("news", ROWS_EVERY_S, self._read_again)
        self.lost() if not news.is_live else self.found()
        self.sync()

    def _look_again(self) -> None:
        window = self.window
        shown = window.rows[window.top : window.top + self.table.rows_shown]
        if self.news.is_live and any(row.job.get("state") == "running" for row in shown):
            self.ask_rows()

    def _ask_when(self) -> None:
        window = self.window
        shown = window.rows[window.top : window.top + self.table.rows_shown]
        ids = [row.place.id for row in shown if row.job.get("state") not in FINAL_STATES]
        if not ids:
            self._asked_at.pop("when", None)
        elif self._has_forecasts:
            self.asker.ask("when", lambda client: client.get("eta", compact(ids)))

    def _read_again(self) -> None:
        # Before the questions, so that a change after their answers is told again.
        self.live.take()
        self.ask_rows()
        self.later("overview", OVERVIEW_EVERY_S, self.ask_overview)

    def lost(self) -> None:
        """Do what is to be done while the daemon is away."""

    def found(self) -> None:
        """Do what is to be done when the daemon is there."""

    def later(self, kind: str, every_s: float, ask: Callable[[], None]) -> None:
        """Ask now, or when it is time again: never more often than every `every_s` seconds."""
        if kind in self._waits:
            return
        wait_s = self._asked_at.get(kind, 0.0) + every_s - monotonic()

        def ask_now() -> None:
            self._waits.pop(kind, None)
            self._asked_at[kind] = monotonic()
            ask()

        if wait_s <= 0:
            ask_now()
        else:
            self._waits[kind] = self.set_timer(wait_s, ask_now)

    def rest(self, kind: str, ask: Callable[[], None]) -> None:
        """Ask when the cursor rests."""
        if (timer := self._waits.pop(kind, None)) is not None:
            timer.stop()
        self._waits[kind] = self.set_timer(REST_S, ask)

    def _take_answer(self, answer: Answered) -> None:
        self.scope = self.asker.scope
        if answer.error is not None and answer.kind == "when":
            # The jobs were removed meanwhile, or the daemon is of a release without forecasts.
            self._has_forecasts = isinstance(answer.error, Unreachable)
        elif answer.error is not None:
            self.refused(answer.kind, answer.error)
        elif answer.kind == "older":
            if self._followed is not None and answer.value[0] == self._followed[0]:
                self.log_pane.add_older(answer.value[1])
        elif answer.kind == "when":
            self._take_forecasts(answer.value.get("jobs") or [])
        elif answer.kind == "overview":
            self.overview = answer.value
            self.running = [job for job in answer.value.get("jobs", []) if job.get("state") in RUNNING]
            self.arrange()
        elif answer.kind == "rows":
            self._take_rows(answer.value)
        elif answer.kind == "why":
            self.reasons = answer.value
            self.query_one("#why", LinesView).sync()
        else:
            self.done(answer)

    def _take_forecasts(self, jobs: Iterable[Job]) -> None:
        now = job_text.now()
        found = {int(job["id"]): job for job in jobs}
        self.when = {id_: text for id_, job in found.items() if (text := when_text(job, now, self.glyphs))}
        starts = [(str(job["starts"]["likely"]), id_) for id_, job in found.items() if _is_next(job)]
        first = min(starts)[1] if starts else 0
        self.next = f"next {self.when.get(first, '').removeprefix('starts ')} #{first}" if first else ""
        self.sync()

    def refused(self, kind: str, error: GrassError) -> None:
        """Say why a question was not answered."""

    def done(self, answer: Answered) -> None:
        """Take the answer to a change."""

    # Rows.

    def ask_overview(self) -> None:
        """Ask for devices, queues, machines and totals."""
        # Sweeps are counted only where they are shown.
        look = 1 if self.query_.tab == SWEEPS else None
        self.asker.ask("overview", lambda client: client.get("show", look=look))

    def ask_rows(self, need: Need | None = None, *, at_end: bool = False) -> None:
        """Ask for the rows of the window again, for rows beyond an edge, or for the last ones."""
        asked, resolved, window = self.query_, self._resolved, self.window
        if need is None and not at_end and window.is_held:
            ids = compact(window.ids()[:HELD_MAX])
            self.asker.ask("rows", lambda client: _held_rows(client, asked, resolved, ids))
            return
        is_start = window.is_start or not window.rows
        first = None if is_start or at_end else window.rows[0].place
        known = set(window.ids()) if need is not None else set[int]()
        queues = [str(queue.get("name")) for queue in self.overview.get("queues") or []]
        count = min(WINDOW_ROWS, max(3 * self.table.rows_shown, 60))

        def question(client: ApiClient) -> FoundRows:
            meaning = resolved if resolved is not None else resolve(client, asked.wanted, queues)
            states = ("failed",) if asked.tab == FAILED else ()
            order = "newest" if asked.tab == FAILED and asked.order == ACTIVE else asked.order
            chain = segments_of(meaning, order, is_reversed=asked.is_reversed, states=states)

            def ask(pairs: Iterable[tuple[str, object]]) -> Mapping[str, Any]:
                return client.get("jobs" + query(pairs))

            if need is not None:
                found = read(
                    ask, chain, need.start, down=need.down, count=count, known=known, resume=need.resume, look=True
                )
                return FoundRows(asked, meaning, found, "down" if need.down else "up")
            if at_end:
                found = read(ask, chain, None, down=False, count=count, look=True)
                return FoundRows(asked, meaning, found, "end", from_start=found.is_end)
            found = read(ask, chain, first, down=True, count=count, inclusive=True, look=True)
            return FoundRows(asked, meaning, found, "replace", from_start=is_start)

        self.asker.ask("rows", question)

    def _take_rows(self, found: FoundRows) -> None:
        if found.asked != self.query_:
            return
        self._resolved = found.resolved
        window = self.window
        if found.how == "update":
            window.update(found.jobs)
        elif found.rows is not None and found.how in ("down", "up"):
            window.extend(found.rows, down=found.how == "down")
        elif found.rows is not None and found.how == "end":
            window.replace(found.rows._replace(is_end=True), from_start=found.from_start)
            window.move(len(window.rows), self.table.rows_shown)
        elif found.rows is not None:
            window.replace(found.rows, from_start=found.from_start)
        window.show_cursor(self.table.rows_shown)
        self.later("when", WHEN_EVERY_S, self._ask_when)
        self.cursor_moved()

    def show_list(self, asked: ListQuery) -> None:
        """Show another list of jobs."""
        if asked.wanted != self.query_.wanted:
            self._resolved = None
        self.query_ = asked
        self.window.clear()
        self.table.widths.forget()
        self.small_cursor = 0
        self.page = None
        self.arrange()
        self.ask_rows()

    def cursor_moved(self) -> None:
        """Ask for rows that are near, and, when the cursor rests, for the log and the reasons of its job."""
        need = self.window.need(self.table.rows_shown)
        if need is not None:
            self.ask_rows(need)
        job = self.window.job
        if job is not None and self._log_of(job) != self._followed:
            self.rest("log", self._follow)
        if job is not None:
            self.rest("why", self._ask_why)
        self.sync()

    def _log_of(self, job: Job) -> tuple[int, int, str]:
        # A job that waits for its first attempt is followed into it.
        return int(job["id"]), max(1, int(job.get("attempt") or 0)), "out" if job.get("split") else "log"

    def _follow(self) -> None:
        job = self.window.job
        if job is None or self._log_of(job) == self._followed:
            return
        if self._tail is not None:
            self._tail.close()
        self._followed = self._log_of(job)
        self.log_pane.clear()
        self._tail = LogFollower(self.daemon, self._followed[0], self._followed[2], self._tell, self._fail)
        self._tail.start()

    def ask_older(self, byte: int) -> None:
        """Ask for the lines of the log before a byte."""
        if self._followed is not None:
            id_, _, stream = self._followed
            self.asker.ask("older", lambda client: (id_, _older_lines(client, id_, stream, byte)))

    def _ask_why(self) -> None:
        job = self.window.job
        if job is not None:
            id_ = int(job["id"])
            self.asker.ask("why", lambda client: (id_, _reason(client, id_)))


def _older_lines(client: ApiClient, id_: int, stream: str, byte: int) -> list[LogLine]:
    """Return the lines of a log before the line at a byte."""
    path = f"jobs/{id_}/log/lines"
    at = client.get(path, stream=stream, byte=byte, count=1).get("lines") or []
    number = int(at[0].get("n") or 0) if at else 0
    if number <= 1:
        return []
    first = max(1, number - OLDER_LINES)
    return [told_line(each) for each in client.get(path, stream=stream, line=first, count=number - first)["lines"]]


def _is_next(job: Job) -> bool:
    return job.get("state") == "queued" and isinstance(job.get("starts"), Mapping) and bool(job["starts"].get("likely"))


def _held_rows(client: ApiClient, asked: ListQuery, resolved: JobFilter | None, ids: list[str]) -> FoundRows:
    """Return the jobs of the window as they are now; their order stays, and removed jobs stay as they were."""
    jobs = client.jobs(ids, limit=HELD_MAX, look=1)["jobs"]
    return FoundRows(asked, resolved or asked.wanted, None, "update", jobs=jobs)


def _reason(client: ApiClient, id_: int) -> str:
    """Return in one line why a job is where it is."""
    found = client.get("why", [str(id_)])["jobs"]
    if not found:
        return ""
    lines = [line.strip() for line in str(found[0].get("text") or "").splitlines()]
    hints = [str(hint) for hint in found[0].get("hints") or []]
    # The line begins with the job's title, so the text needs no name of the job.
    return re.sub(r"^job \d+ (\([^)]*\) )?", "", "  ".join(lines[:3] + hints[:1]))
