"""The main loop: submits commands from stdin and writes their output to stdout, until both have ended."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from signal import SIGINT
from time import monotonic
from typing import Any

from grassq.compat.event_reader import EventReader, Resubscription
from grassq.compat.messages import Messages
from grassq.compat.signals import END_ALL, STOP, Signals
from grassq.compat.simple_gpu_scheduler.arguments import Arguments
from grassq.compat.simple_gpu_scheduler.command_reader import Command, CommandReader, Found
from grassq.compat.simple_gpu_scheduler.job_table import CANCELLED, SUCCEEDED, JobTable
from grassq.compat.simple_gpu_scheduler.line_submitter import LineSubmitter
from grassq.compat.simple_gpu_scheduler.output import Output, is_file
from grassq.core.outcome import in_words
from grassq.errors import EXIT_JOB_FAILED, EXIT_USAGE, GrassError, NotFound, Refused, Unreachable
from grassq.net.client import ApiClient, compact
from grassq.net.event_stream import Frame, JobEnded, JobShown, JobStarted

#: With this many unfinished jobs, stdin is not read. One read may exceed the limit by its commands.
UNFINISHED_MAX = 10_000
READ_SIZE = 64 << 10
#: Seconds between two tries to cancel jobs after a signal.
PAUSE_S = 1.0

EXIT_SIGNAL = 128


class Scheduler:
    """One call of simple_gpu_scheduler."""

    def __init__(
        self, client: ApiClient, arguments: Arguments, cwd: bytes, messages: Messages, signals: Signals
    ) -> None:
        self._client = client
        self._slots = arguments.slots
        self._always_zero = arguments.always_zero
        self._messages = messages
        self._signals = signals
        self._asked = 0
        #: Jobs cancelled after a signal, and commands that could not be submitted after a signal.
        self._cancelled: set[int] = set()
        self._unstored: Sequence[Command] = ()
        self._cancel_at = 0.0
        self._queue = f"sgs-{os.urandom(4).hex()}"
        self._reader = CommandReader()
        self._table = JobTable()
        self._output = Output()
        self._is_reading = True
        self._is_finite = is_file(0)
        self._bad = 0
        self._told_of_output = False
        self._create_queue()
        table = self._table
        # `known` is called on the event reader's thread. It reads `last` first, so a job up to `last` that is not among
        # the unfinished jobs has ended.
        self._event_reader = EventReader(client.subscribe(self._queue, known=lambda: (table.last, table.unfinished())))
        self._resubscription = Resubscription(self._event_reader, self._create_queue, messages.say)
        self._submitter = LineSubmitter(client, self._queue, cwd, self._create_queue, messages, signals)

    def run(self) -> int:
        """Run until the input and all commands have ended; return the exit code."""
        while self._is_reading or self._table or (self._output.is_waiting and not self._output.trouble):
            for act in self._await():
                act()
        self._messages.hide()
        if not self._table.last:
            # The queue may have no subscriber yet, and the daemon would wait for the first one.
            with suppress(NotFound):
                self._client.change("delete-queue", name=self._queue)
        self._event_reader.close()
        self._submitter.close()
        if self._table.failed or self._table.unstarted:
            self._messages.say(self._table.summary())
        return self._exit_code()

    def _exit_code(self) -> int:
        if self._signals.first:
            return EXIT_SIGNAL + self._signals.first
        if self._bad:
            return EXIT_USAGE
        has_failed = self._table.failed or self._table.unstarted
        return EXIT_JOB_FAILED if has_failed and not self._always_zero else 0

    def _create_queue(self) -> None:
        words = [self._queue, "--slots", " ".join(self._slots), "--order", "stack"]
        self._client.create_queue([os.fsencode(word) for word in words], cwd=b"/", temporary=True)

    def _await(self) -> list[Callable[[], None]]:
        """Wait for signals, output, events or input; return what to do, signals first."""
        acts = {self._signals.fileno(): self._signalled}
        poll = select.poll()
        poll.register(self._signals, select.POLLIN)
        if self._output.is_waiting:
            acts[1] = self._flush
            poll.register(1, select.POLLOUT)
        if self._output.has_room:
            acts[self._event_reader.fileno()] = self._take_events
            poll.register(self._event_reader, select.POLLIN)
        if self._is_reading and len(self._table) < UNFINISHED_MAX:
            acts[0] = self._read
            poll.register(0, select.POLLIN)
        again_s = self._draw()
        ready = {descriptor for descriptor, _ in poll.poll(None if again_s is None else again_s * 1000)}
        return [act for descriptor, act in acts.items() if descriptor in ready]

    def _draw(self) -> float | None:
        table = self._table
        if self._output.is_midline or not self._is_finite or not table.total:
            return None
        return self._messages.draw(table.done, table.total, table.running, table.failed)

    def _read(self) -> None:
        if not self._is_reading:
            return  # a signal in the same round of the loop has ended the reading
        try:
            data = os.read(0, READ_SIZE)
        except BlockingIOError:
            return
        except OSError as error:
            self._messages.say(f"stdin cannot be read: {error.strerror}")
            self._bad += 1
            data = b""
        if data:
            self._take(self._reader.feed(data))
            return
        self._is_reading = False
        self._is_finite = True
        self._take(self._reader.end())

    def _take(self, found: list[Found]) -> None:
        commands: list[Command] = []
        for each in found:
            if isinstance(each, Command):
                commands.append(each)
            else:
                self._complain(f"line {each.number}: {each.why}; skipped")
        result = self._submitter.store(commands)
        self._table.add(result.first, result.stored)
        for command, why in result.refused:
            self._complain(f"{command.shown.decode('utf-8', 'backslashreplace')}: {why}; skipped")
        if result.trouble is None:
            return
        self._table.unstarted += len(result.left)
        if self._signals.first:
            self._messages.say(f"{result.trouble}; not tried again after a signal")
            self._unstored = result.left  # listed with the other commands that were not started
            return
        self._list(result.left)
        if self._table:
            goes_on = f"submitted commands go on ({len(self._table)} not ended)"
            self._messages.say(f"{goes_on}; grass kill queue:{self._queue} ends them")
        raise result.trouble

    def _complain(self, why: str) -> None:
        self._messages.say(why)
        self._bad += 1
        self._table.unstarted += 1

    def _take_events(self) -> None:
        try:
            frames = self._event_reader.take()
        except GrassError as error:
            self._resubscription.after(error)
            return
        for frame in frames:
            self._handle(frame)
        self._flush()
        if self._asked:
            self._cancel_again(at_once=any(isinstance(frame, JobStarted | JobEnded) for frame in frames))

    def _handle(self, frame: Frame) -> None:
        if isinstance(frame, JobStarted):
            command = self._table.start(frame.job, frame.attempt)
            if command is not None:
                where = self._slot(frame.allocation).encode()
                self._output.line(b"Processing command `" + command.shown + b"` on gpu " + where)
        elif isinstance(frame, JobEnded):
            self._output.end(frame.job)
            command = self._table.end(frame.job, frame.state)
            if command is not None and frame.unread:
                self._messages.say(f"job {frame.job}: a part of the output is missing: {frame.unread}")
            # Commands cancelled after a signal are listed when they are cancelled.
            if command is not None and frame.state != SUCCEEDED and not (frame.state == CANCELLED and self._asked):
                self._tell_failure(frame, command)
        elif isinstance(frame, JobShown):
            for job in frame.gone(self._table.unfinished()):
                self._lose(job)
        elif frame.job in self._table:
            self._output.write(frame.job, frame.data)

    def _slot(self, allocation: dict[str, Any] | None) -> str:
        try:
            [index] = (allocation or {})["slot"]
            return self._slots[int(index)]
        except (KeyError, ValueError, IndexError):
            return "?"

    def _tell_failure(self, end: JobEnded, command: Command) -> None:
        how = f"failed ({in_words(end.outcome, end.exit_code, end.signal)})"
        if end.state == CANCELLED:
            how = "was cancelled"
        elif end.error:
            how = f"failed ({end.error})"
        text = command.shown.decode("utf-8", "backslashreplace")
        self._flush()  # on a terminal this comes after what the command wrote
        self._messages.say(f"`{text}` {how}; grass log {end.job}")

    def _lose(self, job: int) -> None:
        """Count a job as failed that the daemon has no record of: it was removed, or the store was replaced."""
        self._output.end(job)
        if self._table.end(job, "lost") is not None:
            self._flush()  # on a terminal this comes after what the command wrote
            self._messages.say(f"job {job} is gone: the daemon has no record of it, and its result is unknown")

    def _flush(self) -> None:
        if self._output.is_waiting:
            self._messages.step_aside()
            self._output.flush()
        if self._output.trouble and not self._told_of_output:
            self._told_of_output = True
            why = f"stdout cannot be written ({self._output.trouble})"
            self._messages.say(f"{why}; the commands keep running, and `grass log` has their output")

    def _signalled(self) -> None:
        before, self._asked = self._asked, self._signals.take()
        if before < STOP <= self._asked:
            self._stop()
        if before < END_ALL <= self._asked:
            self._end_all()

    def _stop(self) -> None:
        """Start no more commands; running commands finish."""
        was_reading, self._is_reading = self._is_reading, False
        left = self._reader.left()
        cancelled = self._cancel_waiting()
        self._table.unstarted += bool(left)
        running = len(self._table) - len(cancelled)
        # Only a repeated ctrl-C has a further effect, and the sender of another signal may have no terminal.
        more = "another ctrl-C" if self._signals.first == SIGINT else f"grass kill queue:{self._queue}"
        ends = f"{running} running will finish ({more} ends them)" if running else "none is running"
        self._messages.say(f"no more commands start; {ends}" + ("; the rest of the input is not read" * was_reading))
        self._list([*cancelled, *self._unstored, *([Command(left, left, left)] if left else [])])

    def _cancel_again(self, *, at_once: bool) -> None:
        """Cancel again: a job that was about to start may have been requeued since then."""
        now = monotonic()
        if at_once or now >= self._cancel_at:
            self._cancel_at = now + PAUSE_S
            with suppress(Unreachable):  # the daemon restarts, and its next events come here again
                self._list(self._cancel_waiting())

    def _cancel_waiting(self) -> list[Command]:
        waiting = {job: command for job, command in self._table.waiting() if job not in self._cancelled}
        cancelled = [job for job in self._cancel(waiting, unstarted=True) if job in waiting]
        self._cancelled.update(cancelled)
        return [waiting[job] for job in cancelled]

    def _list(self, commands: Sequence[Command]) -> None:
        """Print commands that were not started, in a form that can be piped in again."""
        if commands:
            count = f"{len(commands)} command{'s were' if len(commands) > 1 else ' was'}"
            typed = b"".join(each.typed + b"\n" for each in commands)
            self._messages.write(b"# %s not started:\n" % count.encode() + typed)

    def _end_all(self) -> None:
        if self._table:
            self._messages.say(f"ending {len(self._table)} commands; another ctrl-C leaves them running")
            self._cancel(self._table.unfinished(), unstarted=False)

    def _cancel(self, jobs: Collection[int], *, unstarted: bool) -> list[int]:
        if not jobs:
            return []
        try:
            answer = self._client.kill(compact(jobs), unstarted=unstarted)
        except (NotFound, Refused):
            return []  # all of these jobs have ended or started
        # Includes prefetched jobs: the daemon withdraws and then cancels them.
        return [int(job) for job in answer["ids"]]
