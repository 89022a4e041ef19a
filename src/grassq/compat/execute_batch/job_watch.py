"""Watches the jobs of a batch until the last has ended: prints what happens, and puts their results in place."""

from __future__ import annotations

import select
from collections.abc import Iterable
from contextlib import suppress
from math import inf
from signal import SIGHUP
from time import monotonic, sleep
from typing import Any

from grassq.compat.event_reader import EventReader, Resubscription
from grassq.compat.execute_batch import output
from grassq.compat.execute_batch.batch_file import BatchLine
from grassq.compat.execute_batch.copies import UnchangedFiles, stored_trees
from grassq.compat.execute_batch.output import BatchOutput
from grassq.compat.execute_batch.queue import BatchQueue
from grassq.compat.execute_batch.results import Record, Results
from grassq.compat.interruption import Interruption
from grassq.compat.messages import Messages
from grassq.compat.signals import Signals
from grassq.core.outcome import exit_code, in_words, is_own_end
from grassq.core.syntax.resource_names import SLOTS_OF
from grassq.errors import GrassError, NotFound, Refused
from grassq.net.client import ApiClient, compact
from grassq.net.event_stream import Frame, JobEnded, JobOutput, JobShown, JobStarted

#: How long the output of an ended job is asked for, and the pause between two questions.
OUTPUT_S, PAUSE_S = 60.0, 0.5
#: For a terminal: how often the daemon is asked what jobs wait for that were started there, and about how many jobs.
REMARK_S, REMARK_JOBS = 2.0, 100
#: Failed jobs that are listed at the end.
LISTED_MAX = 20

PLACED, SUCCEEDED, CANCELLED = "placed", "succeeded", "cancelled"


class JobWatch:
    """The jobs of one call."""

    def __init__(
        self,
        client: ApiClient,
        results: Results,
        lines: BatchOutput,
        messages: Messages,
        *,
        is_verbose: bool = False,
    ) -> None:
        self._client = client
        self._results = results
        self._output = lines
        self._messages = messages
        self._signals: Signals | None = None
        self._is_verbose = is_verbose
        self._unchanged = UnchangedFiles(stored_trees(client.home))
        self._jobs: dict[int, BatchLine] = {}
        self._running: set[int] = set()
        self._last = 0
        self._done = 0
        self._remark, self._remark_at = "", 0.0
        self._interruption: Interruption | None = None
        #: A signal was noticed that ends the jobs.
        self._is_interrupted = False
        #: The failed lines, each with how its job ended.
        self.failed: list[tuple[BatchLine, str]] = []
        #: The numbers of lines whose jobs have ended and whose output cannot be read now.
        self.unread: set[int] = set()
        #: The lines whose results exist, in order; each is told of when its turn has come.
        self._skipped: list[BatchLine] = []

    def listen(self) -> None:
        """Take signals as wishes about the jobs from now on: before the first job is submitted."""
        self._signals = self._signals or Signals(leave_at=2, on_first=self._end_jobs)

    @property
    def signal(self) -> int:
        """The first signal since `listen`; 0 if there was none."""
        return 0 if self._signals is None else self._signals.first

    def take(self, jobs: dict[int, BatchLine]) -> None:
        """Take jobs that have not ended; from now on a signal ends them, whatever else the call does."""
        self.listen()
        self._jobs, self._last = dict(jobs), max(jobs, default=0)
        self._interruption = Interruption(self._client.home, self._jobs)
        if self.signal:
            self._end_jobs(self.signal)

    def _end_jobs(self, number: int) -> None:
        if self._interruption is not None and number != SIGHUP:
            self._interruption.begin()

    def leave(self) -> None:
        """Say what becomes of the jobs. Wait a little before: the daemon should have been told to end the jobs."""
        if self._interruption is None or not self._jobs:
            return
        if self._interruption.is_told():
            self._messages.say("jobs that had not ended are being ended")
        else:
            self._messages.say(f"the daemon does not answer, so {len(self._jobs)} jobs may go on")

    def run(self, queue: BatchQueue) -> bool:
        """Watch the jobs, which are of one queue; return whether all have ended, False if the call leaves them."""
        if not self._jobs:
            return True
        # `known` is called on the reader's thread.
        reader = EventReader(self._client.subscribe(queue.name, known=lambda: (self._last, list(self._jobs))))
        resubscription = Resubscription(reader, queue.create, self._messages.say)
        try:
            while self._jobs and self.signal != SIGHUP:
                self._await(reader, resubscription)
        finally:
            reader.close()
            self._messages.hide()
        if self._jobs:
            self._messages.say(f"left; {len(self._jobs)} jobs go on, and the same call goes on with them")
        return not self._jobs

    def _await(self, reader: EventReader, resubscription: Resubscription) -> None:
        """Wait for signals and events, and handle them."""
        assert self._signals is not None
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        poll.register(reader, select.POLLIN)
        total = self._done + len(self._jobs)
        self._ask_remark()
        again_s = self._messages.draw(self._done, total, len(self._running), len(self.failed), self._remark)
        ready = {descriptor for descriptor, _ in poll.poll(None if again_s is None else again_s * 1000)}
        if self._signals.fileno() in ready:
            self._signals.take()
            self._notice_signal()
        if reader.fileno() in ready:
            try:
                frames = reader.take()
            except GrassError as error:
                resubscription.after(error)
                return
            for frame in frames:
                # Before each frame: it may be the end of a job that the signal ended.
                self._notice_signal()
                self._handle(frame)

    def _ask_remark(self) -> None:
        """Ask now and then, for a terminal, what a job waits for that has its slot, such as how far its files are."""
        now = monotonic()
        if not self._messages.is_watched or now < self._remark_at + REMARK_S:
            return
        self._remark, self._remark_at = "", now
        if self._running:
            with suppress(GrassError, OSError):  # it is only a remark
                jobs = self._client.glance(compact(self._running)[:1], limit=REMARK_JOBS)
                self._remark = next(
                    (str(job["reason"]) for job in jobs if job["state"] == PLACED and job["reason"]), ""
                )

    def _handle(self, frame: Frame) -> None:
        if isinstance(frame, JobShown):
            for job in frame.gone(list(self._jobs)):
                self._lose(job)
            return
        line = self._jobs.get(frame.job)
        if line is None:
            return
        if isinstance(frame, JobStarted):
            self._start(frame, line)
        elif isinstance(frame, JobOutput):
            self._results.write(line.name, frame.offset, frame.data)
        else:
            self._end(frame, line)

    def _start(self, frame: JobStarted, line: BatchLine) -> None:
        self._results.begin(line.name)
        if frame.job in self._running:
            return  # another attempt: its machine did not take the first one
        self._skip_before(line.number)
        self._running.add(frame.job)
        gpus = ",".join((frame.allocation or {}).get(SLOTS_OF, {}))
        self._output.line(output.started_line(line, gpus))
        if self._is_verbose:
            where = self._client.one_job(str(frame.job)).get("worker")
            self._messages.say(f"{line.name} is job {frame.job} on {where}")

    def end_of(self, document: dict[str, Any], line: BatchLine) -> None:
        """Put the results of a job in place that ended while no call watched it; a job that is not done runs again."""
        how = {name: document[name] for name in ("state", "exit_code", "signal", "outcome")}
        end = JobEnded(int(document["id"]), **how, error=document.get("error"), unread="not watched")
        if document.get("started") and (why := self._write_streams(end, line)):
            self._tell_end(end, line, why)
            return
        if why := self._keep(end, line):
            self._messages.say(f"job {end.job} of line {line.number} is not done: {why}; the line runs again")
            return
        self._tell_end(end, line, "")

    def _end(self, end: JobEnded, line: BatchLine) -> None:
        self._jobs.pop(end.job, None)
        has_run = end.job in self._running
        self._running.discard(end.job)
        if end.state == CANCELLED and self._is_interrupted and not has_run:
            return
        self._results.close(line.name)
        why = self._write_streams(end, line) if has_run else ""
        self._tell_end(end, line, why or self._keep(end, line))

    def _tell_end(self, end: JobEnded, line: BatchLine, why: str) -> None:
        """Print the end of a job; `why` says why the job is not done, "" if it is."""
        self._done += 1
        is_ok = end.state == SUCCEEDED and not why
        self._output.line(output.ended_line(line, is_ok=is_ok))
        if not is_ok:
            self.failed.append((line, why or in_words(end.outcome, end.exit_code, end.signal)))

    def _write_streams(self, end: JobEnded, line: BatchLine) -> str:
        """Write stderr, and stdout unless all of it has come while the job ran; return what cannot be read, "" if all.

        A machine that is connected again soon is waited for.
        """
        deadline = monotonic() + OUTPUT_S
        for stream in ("out", "err") if end.unread is not None else ("err",):
            while True:
                try:
                    self._results.put_stream(line.name, stream, self._client.log(end.job, stream=stream))
                    break
                except NotFound:
                    break  # the job never ran
                except GrassError as error:
                    if monotonic() > deadline or self.signal:
                        self.unread.add(line.number)
                        return f"its std{stream} cannot be read: {error}; the same call tries again"
                sleep(PAUSE_S)
        return ""

    def _keep(self, end: JobEnded, line: BatchLine) -> str:
        """Put what came back in its place; return why the job is not done, "" if it is."""
        how = in_words(end.outcome, end.exit_code, end.signal)
        if end.state == CANCELLED:
            why = f"it was {'interrupted' if self._is_interrupted else 'cancelled'}"
        elif end.error or not is_own_end(end.outcome):
            # Its files could not be brought back, or it is not known how the job ended.
            why = end.error or how
        else:
            if line.sent:
                self._unchanged.remove(self._results.arriving(line.name), line.sent)
            command = line.command.decode("utf-8", "backslashreplace")
            code = exit_code(end.outcome, end.exit_code, end.signal)
            try:
                self._results.put(line.name, Record(code, end.job, command))
            except Refused as error:
                return str(error)
            return ""
        place = self._results.put_partial(line.name)
        return why if place is None else f"{why}; what came back is in job_results/{place.name}"

    def _lose(self, job: int) -> None:
        """Count a job as failed that the daemon has no record of: it was removed, or the store was replaced."""
        line = self._jobs.pop(job)
        self._running.discard(job)
        self._done += 1
        self._results.close(line.name)
        self._output.line(output.ended_line(line, is_ok=False))
        self.failed.append((line, f"the daemon has no record of job {job}"))

    def _notice_signal(self) -> None:
        """Say once that the jobs are ended. What running jobs leave comes back, and their lines are not done."""
        if self._is_interrupted or self.signal in (0, SIGHUP):
            return
        self._is_interrupted = True
        running = len(self._running)
        ends = f"; waiting for {running} of them to end and for their files (another ctrl-C leaves at once)"
        self._messages.say("interrupting tasks" + (ends if running else ""))

    def skip(self, lines: Iterable[BatchLine]) -> None:
        """Tell of lines whose results exist, each when its turn has come."""
        self._skipped = sorted([*self._skipped, *lines])

    def _skip_before(self, number: float) -> None:
        while self._skipped and self._skipped[0].number < number:
            self._output.line(output.skipped_line(self._skipped.pop(0)))

    def skip_rest(self) -> None:
        """Tell of the lines whose turn comes after the last start."""
        self._skip_before(inf)

    def summarise(self) -> None:
        """List the failed jobs."""
        if not self.failed:
            return
        self._messages.say(f"{len(self.failed)} of {self._done} jobs failed:")
        for line, how in self.failed[:LISTED_MAX]:
            self._messages.say(f"  {line.name} ({how}); see job_results/{line.name}.err")
        if len(self.failed) > LISTED_MAX:
            self._messages.say(f"  and {len(self.failed) - LISTED_MAX} more")
