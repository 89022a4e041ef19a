"""The files of the jobs on one machine over ssh: trees go there before a job is ordered, results come back after."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import time
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path

from grassq.core.messages import Start
from grassq.core.model import AttemptId
from grassq.core.names import shown
from grassq.core.states import SENDING, Exited
from grassq.core.syntax.file_words import parts_of
from grassq.errors import GrassError
from grassq.files.blobs import BlobStore
from grassq.machines.far_files import FarCommands
from grassq.machines.file_fetch import fetch
from grassq.machines.file_send import prune, send, sweep
from grassq.machines.transport import LinkLost, Transport
from grassq.run import attempt_notes, rundir
from grassq.worker import job_files
from grassq.worker.attempts import one_alone
from grassq.worker.local_files.background import BackgroundWork
from grassq.worker.local_files.fetch import PATH_SHOWN

log = logging.getLogger(__name__)

#: How often a person is told how far a transfer is.
TOLD_S = 5.0
#: How often what a machine keeps for later jobs is brought below its bound.
SWEEP_S = 3600.0
MIB = 1 << 20


class TransferWords:
    """Says in words how far a transfer is: at most every TOLD_S seconds, and not of a transfer that is soon over."""

    def __init__(self, what: str, tell: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._what = what
        self._tell = tell
        self._clock = clock
        self._began = self._told_at = clock()

    def __call__(self, done: int, total: int) -> None:
        """Note the bytes that are done, of all."""
        now = self._clock()
        if now - self._told_at < TOLD_S:
            return
        self._told_at = now
        speed = done / (now - self._began)
        left = f", {(total - done) / speed:.0f} s left" if speed else ""
        self._tell(f"{self._what}: {done >> 20:,} of {total >> 20:,} MiB, {speed / MIB:.1f} MiB/s{left}")


class FarJobFiles:
    """Sends and fetches the files of attempts over one connection, on threads.

    What is to be fetched, and where to, is noted on this side: the far side must not choose where files arrive.
    """

    def __init__(self, transport: Transport, far: FarCommands, blobs: BlobStore, folder: str, machine: str) -> None:
        """`folder` is the machine's own on this side."""
        self._transport = transport
        self._far = far
        self._blobs = blobs
        self._folder = folder
        self._machine = machine
        self._background = BackgroundWork()
        self._call_soon: Callable[..., object] | None = None
        self._sent: set[AttemptId] = set()
        self._errors: dict[AttemptId, OSError] = {}
        self._swept_at: float | None = None

    def open(self, call_soon: Callable[..., object]) -> None:
        """Report results with `call_soon`, which any thread may call."""
        self._call_soon = call_soon
        self._background.open(call_soon)

    def note_fetch(self, start: Start, path: str, cwd: bytes) -> None:
        """Note what to fetch of an attempt whose run dir there is `path` and whose directory is `cwd`."""
        order = job_files.fetch_order(start.spec, path, cwd)
        if order is not None:
            self._make_note(start.id)
            job_files.note_fetch(self._note(start.id), order)
        elif start.spec.output is not None:
            self._make_note(start.id)
            attempt_notes.write_fetched(self._note(start.id), _no_output(start))

    def is_sent(self, start: Start) -> bool:
        """Tell whether everything that a job is sent is there; raise OSError with the reason if it cannot be sent."""
        if (error := self._errors.pop(start.id, None)) is not None:
            raise error
        return not start.spec.send or start.id in self._sent

    def send(
        self,
        start: Start,
        path: str,
        *,
        sent: Callable[[], None],
        refused: Callable[[LinkLost], None],
        failed: Callable[[str], None],
        told: Callable[[str], None],
    ) -> None:
        """Make the job's tree in its run dir `path` there, then call `sent`; without waiting.

        `told` is called with words about the progress, `refused` when the connection did not carry it, and `failed`
        with the reason if it cannot be sent at all. An error of this computer is raised by `is_sent`.
        """

        def done(error: object) -> None:
            if isinstance(error, LinkLost):
                refused(error)
            elif isinstance(error, OSError):
                log.error("files_not_sent job=%s attempt=%s error=%s", *start.id, error)
                self._errors[start.id] = OSError(errno.EIO, f"its files: {error.strerror}")
            elif isinstance(error, GrassError):
                failed(f"its files cannot be sent: {error}")
            else:
                self._sent.add(start.id)
                self._note_sent(start)
                sent()
                self._sweep_if_due()

        self._background.ask(start.id, partial(self._send, start, path, told), done)

    def _send(self, start: Start, path: str, told: Callable[[str], None]) -> None:
        assert self._call_soon is not None
        tree = os.fsencode(rundir.tree_dir(path))
        progress = TransferWords(SENDING, partial(self._call_soon, told), time.monotonic)
        for each in job_files.in_order(start.spec.send):
            manifest = self._blobs.manifest(each.manifest)
            dest = b"/".join((tree, *parts_of(each.dest)))
            send(self._transport, self._far, manifest, self._blobs, dest, progress)

    def _note_sent(self, start: Start) -> None:
        """Note what a job was sent, to remove it when the job has succeeded; not if its children may need it."""
        if start.spec.keep_children:
            return
        with one_alone(start.id):
            self._make_note(start.id)
            attempt_notes.write_sent(self._note(start.id), [(each.manifest, each.dest) for each in start.spec.send])

    def _sweep_if_due(self) -> None:
        """Have the machine remove what no job used for long, beside other work; if it fails, later jobs do it."""
        now = time.monotonic()
        if self._swept_at is None or now - self._swept_at >= SWEEP_S:
            self._swept_at = now
            self._background.ask("sweep", partial(sweep, self._transport, self._far), lambda result: None)

    def collect(
        self,
        attempt: AttemptId,
        path: str,
        end: Exited,
        fetched: Callable[[], None],
        refused: Callable[[LinkLost], None],
    ) -> Exited | None:
        """Return the end to report; None while files are fetched, and then `fetched` is called.

        `path` is the run dir there.
        """
        note = self._note(attempt)
        order = job_files.noted_fetch(note, end)
        if order is None:
            end = job_files.with_fetch_error(note, end)
            if end.code == 0 and end.error is None and (found := attempt_notes.read_sent(note)) is not None:
                work = partial(self._prune, note, os.fsencode(rundir.tree_dir(path)), found[1])
                self._background.ask(("prune", attempt), work, lambda result: None)
            return end

        def done(error: object) -> None:
            if isinstance(error, LinkLost):
                refused(error)
            elif isinstance(error, OSError):
                log.error("fetch_put_off job=%s attempt=%s error=%s", *attempt, error)
            else:
                with one_alone(attempt):
                    if isinstance(error, GrassError):  # it would be the same at every try: the end must not wait for it
                        self._note_fetched(note, order, [str(error)])
                    fetched()

        self._background.ask(attempt, partial(self._fetch, note, order), done)
        return None

    def _fetch(self, note: str, order: job_files.FetchOrder) -> None:
        problems: list[str] = []
        try:
            where = self._transport, self._far, order.root, order.patterns, order.to
            paths = fetch(*where, note=problems.append, umask=order.umask)
            problems += job_files.unmatched(order.patterns, paths)
        except LinkLost:
            raise
        except OSError as error:
            problems.append(f"{shown(error.filename or order.to, PATH_SHOWN)}: {error.strerror}")
        except GrassError as error:
            problems.append(str(error))
        self._note_fetched(note, order, problems)

    def _note_fetched(self, note: str, order: job_files.FetchOrder, problems: list[str]) -> None:
        where = f"on machine {self._machine} in {shown(order.root, PATH_SHOWN)}"
        attempt_notes.write_fetched(note, job_files.not_fetched(problems, where))

    def _prune(self, note: str, tree: bytes, trees: list[tuple[str, bytes]]) -> None:
        """Remove what a job that has succeeded left as it was sent: the contents are kept for later jobs."""
        for manifest, dest in reversed(trees):
            place = parts_of(dest)
            below = [b"/".join((*place, entry.path)) for entry in reversed(self._blobs.manifest(manifest).entries)]
            prune(self._transport, self._far, tree, [*below, b"/".join(place)])
        attempt_notes.forget_sent(note)

    def forget(self, jobs: Collection[int]) -> None:
        """Delete the notes of jobs that were removed."""
        for job in jobs:
            shutil.rmtree(Path(self._note((job, 0))).parent, ignore_errors=True)

    def _make_note(self, attempt: AttemptId) -> None:
        Path(self._note(attempt)).mkdir(mode=0o700, parents=True, exist_ok=True)

    def _note(self, attempt: AttemptId) -> str:
        return rundir.attempt_dir(self._folder, *attempt)


def _no_output(start: Start) -> str:
    return f"--output is not written by a machine over ssh; `grass log {start.job} > FILE` does it"
