"""Grass from Python: submit commands, wait for them, read what they wrote.

with grassq.Client() as grass:
    jobs = [grass.submit(["python", "train.py", "--lr", str(lr)], gpu=0.5) for lr in (0.1, 0.01)]
    for job in jobs:
        print(job.id, job.result())
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import active_count
from time import monotonic, sleep
from typing import Any, TypedDict, Unpack

from grassq import home as homes
from grassq.core.outcome import in_words
from grassq.errors import BadInput, GrassError
from grassq.gc_pause import gc_paused
from grassq.net.client import FINAL_STATES, POLL_LIMIT_S, WAIT_AT_ONCE, compact
from grassq.net.client import ApiClient as _Requests
from grassq.net.encoding import word_value

__all__ = ["Client", "Job", "JobFailed"]

Word = str | bytes
Amount = int | float | str


class JobFailed(GrassError):
    """A job failed or was cancelled; `job` has its log and its state."""

    exit_code = 1

    def __init__(self, job: Job) -> None:
        self.job = job
        self.code: int | None = job.info.get("exit_code")
        self.signal: int | None = job.info.get("signal")
        how = job.info.get("error") or in_words(job.info.get("outcome"), self.code, self.signal)
        super().__init__(f"job {job.id} {job.state}" + (f": {how}" if how else ""))


class Job:
    """One job: a handle shaped like a future. `info` is what was last heard of it."""

    def __init__(self, client: Client, info: dict[str, Any]) -> None:
        self._client = client
        #: The job as `grass show --json` prints it, as of the last refresh.
        self.info = info

    def __repr__(self) -> str:
        return f"<Job {self.id} {self.info.get('state', 'submitted')}>"

    @property
    def id(self) -> int:
        """The number it is known by."""
        return int(self.info["id"])

    @property
    def state(self) -> str:
        """held, waiting, queued, placed, running, succeeded, failed or cancelled, as of now."""
        return str(self.refresh().info["state"])

    def refresh(self) -> Job:
        """Ask the daemon; returns itself. A final job is not asked about again."""
        if self.info.get("state") not in FINAL_STATES:
            self.info = self._client._show_one(self.id)
        return self

    def done(self) -> bool:
        """Whether it has ended, in whatever way."""
        return self.state in FINAL_STATES

    def wait(self, timeout: float | None = None) -> Job:
        """Until it has ended; TimeoutError after `timeout` seconds."""
        self._client.wait(self, timeout=timeout)
        return self

    def result(self, timeout: float | None = None) -> int:
        """Its exit code, 0, once it has succeeded; raises JobFailed if it does not."""
        self.wait(timeout)
        if self.info["state"] != "succeeded":
            raise JobFailed(self)
        return int(self.info.get("exit_code") or 0)

    def log(self) -> bytes:
        """What it has written so far."""
        return self._client.log(self)

    def kill(self, grace_s: float | None = None) -> Job:
        """Ask it to end; after the grace it is killed with all its children."""
        self._client.kill(self, grace_s=grace_s)
        return self


class Options(TypedDict, total=False):
    """What can be said of jobs that are submitted, beside their command: the arguments of `Client.submit`."""

    queue: str | None
    request: Mapping[str, Amount] | None
    gpu: Amount | None
    cpu: Amount | None
    mem: Amount | None
    vram: Amount | None
    name: str | None
    priority: int
    env: Mapping[Word, Word] | None
    hold: bool
    split: bool
    keep_children: bool
    grace_s: float | None
    on_lost: str
    tries: int
    worker: str | None
    labels: Sequence[str]


class Client:
    """This user's queue, or a broker's. Starts the local daemon when none runs; safe to share between threads.

    `broker` is its address, or "local"; without it GRASS_BROKER and `grass use` say which. To a broker on another
    machine nothing is sent of the environment and the directory of this program.
    """

    def __init__(self, home: str | None = None, *, broker: str | None = None) -> None:
        directory = homes.current() if home is None else str(Path(home).absolute())
        self._requests = _Requests(directory, broker=homes.broker(directory, broker))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; jobs are not touched."""
        self._requests.close()

    @property
    def home(self) -> str:
        """The directory that holds the queue, or the right to use another."""
        return self._requests.home

    @property
    def broker(self) -> str | None:
        """The address of the broker; None for this machine's own daemon."""
        return self._requests.broker

    def submit(
        self,
        command: Sequence[Word] | str,
        *,
        queue: str | None = None,
        request: Mapping[str, Amount] | None = None,
        gpu: Amount | None = None,
        cpu: Amount | None = None,
        mem: Amount | None = None,
        vram: Amount | None = None,
        name: str | None = None,
        priority: int = 30,
        env: Mapping[Word, Word] | None = None,
        cwd: str | bytes | os.PathLike[str] | None = None,
        hold: bool = False,
        split: bool = False,
        keep_children: bool = False,
        grace_s: float | None = None,
        on_lost: str = "fail",
        tries: int = 1,
        worker: str | None = None,
        labels: Sequence[str] = (),
        key: str | None = None,
    ) -> Job:
        """Store one job. A list is a program and its words; a string is a line for the shell.

        Give `key` (32 hex digits) to make repeating this call after a crash of your program safe.
        """
        common = _common(
            queue=queue,
            request=request,
            gpu=gpu,
            cpu=cpu,
            mem=mem,
            vram=vram,
            name=name,
            priority=priority,
            env=env,
            hold=hold,
            split=split,
            keep_children=keep_children,
            grace_s=grace_s,
            on_lost=on_lost,
            tries=tries,
            worker=worker,
            labels=labels,
        )
        common["command"] = [word_value(word) for word in _words(command)]
        common["shell"] = isinstance(command, str)
        where = self._place(common, cwd)
        answer = self._requests.submit([common], cwd=where, env=self._env(), umask=self._umask(), key=key)
        _warn(answer)
        return Job(self, {"id": answer["ids"][0]})

    def submit_many(
        self,
        commands: Iterable[Sequence[Word] | str],
        *,
        cwd: str | bytes | os.PathLike[str] | None = None,
        key: str | None = None,
        **options: Unpack[Options],
    ) -> list[Job]:
        """Store a job of each command, all of them or none; the options are those of `submit` and hold for every one.

        A list is a program and its words. A string is a line as `grass enqueue --stdin` takes it: plain words that
        name a program are started without a shell, any other line a shell reads.
        """
        common = _common(**options)
        where = self._place(common, cwd)
        with gc_paused():
            written = [_line(each) if isinstance(each, str) else _written(each) for each in commands]
        if not written:
            return []
        answer = self._requests.submit_many(written, common, cwd=where, env=self._env(), umask=self._umask(), key=key)
        _warn(answer)
        first, count = int(answer["first"]), int(answer["count"])
        with gc_paused():
            return [Job(self, {"id": id_}) for id_ in range(first, first + count)]

    def _place(self, document: dict[str, Any], cwd: str | bytes | os.PathLike[str] | None) -> bytes:
        """Where a job is to run, said as the daemon of this machine or a broker elsewhere wants it."""
        if self.broker is None:
            if cwd is None:
                return os.getcwdb()  # noqa: PTH109 - pathlib makes text of it, and costs more than the rest of a submit
            return os.fsencode(Path(os.fsdecode(cwd)).absolute())
        if cwd is not None:
            # A directory of the worker's: here there is nothing it could be relative to.
            if not Path(os.fsdecode(cwd)).is_absolute():
                raise BadInput(f"cwd={os.fsdecode(cwd)!r} is a directory on another machine; write it from / on")
            document["cwd"] = word_value(os.fsencode(cwd))
        return b"/"

    def _env(self) -> dict[bytes, bytes]:
        return homes.environment() if self.broker is None else {}

    def _umask(self) -> int:
        return _umask() if self.broker is None else 0o022

    def jobs(self, *selectors: str | int) -> list[Job]:
        """The selected jobs; without a selector the current ones, as `grass show` has them."""
        return [Job(self, info) for info in self._requests.show([str(each) for each in selectors])["jobs"]]

    def wait(self, *jobs: Job | int, timeout: float | None = None) -> list[Job]:
        """Until all have ended, in whatever way; TimeoutError after `timeout` seconds."""
        deadline = None if timeout is None else monotonic() + timeout
        handles = [job if isinstance(job, Job) else Job(self, {"id": job}) for job in jobs]
        while pending := {job.id for job in handles if job.info.get("state") not in FINAL_STATES}:
            left = POLL_LIMIT_S if deadline is None else max(0.0, deadline - monotonic())
            began = monotonic()
            first = compact(sorted(pending)[:WAIT_AT_ONCE])[:1]
            answer = self._requests.wait(first, timeout_s=min(left, POLL_LIMIT_S))
            heard = {info["id"]: info for info in answer["jobs"]}
            for job in handles:
                job.info = heard.get(job.id, job.info)
            if deadline is not None and monotonic() >= deadline and not _all_final(handles):
                raise TimeoutError(f"{len(pending)} jobs have not ended after {timeout:g} s")
            if monotonic() - began < 0.01:
                sleep(0.01)  # an answer that came at once and changed nothing must not become a busy loop
        return handles

    def log(self, job: Job | int, *, stream: str = "log", attempt: int | None = None) -> bytes:
        """What a job has written so far; `stream` is out or err for one submitted with split."""
        return b"".join(self._requests.log(_id(job), stream=stream, attempt=attempt))

    def kill(self, job: Job | int, grace_s: float | None = None) -> None:
        """Ask a job to end; after the grace it is killed with all its children."""
        self._requests.kill([str(_id(job))], grace_s=grace_s)

    def _show_one(self, id_: int) -> dict[str, Any]:
        jobs: list[dict[str, Any]] = self._requests.show([str(id_)])["jobs"]
        return jobs[0]


def _common(
    *,
    queue: str | None = None,
    request: Mapping[str, Amount] | None = None,
    gpu: Amount | None = None,
    cpu: Amount | None = None,
    mem: Amount | None = None,
    vram: Amount | None = None,
    env: Mapping[Word, Word] | None = None,
    worker: str | None = None,
    labels: Sequence[str] = (),
    **rest: Any,
) -> dict[str, Any]:
    """What is sent of a job, its command aside; only what was said."""
    if strange := rest.keys() - Options.__annotations__.keys():
        raise TypeError(f"submit has no argument {min(strange)!r}")
    amounts = dict(request or {})
    amounts |= {n: v for n, v in (("gpu", gpu), ("cpu", cpu), ("mem", mem), ("vram", vram)) if v is not None}
    pairs = [[word_value(_bytes(n)), word_value(_bytes(v))] for n, v in env.items()] if env else None
    named = {"queue": queue, "request": amounts, "env": pairs, "worker": worker, "labels": list(labels)}
    return {**{n: v for n, v in named.items() if v}, **{n: v for n, v in rest.items() if v is not None}}


def _warn(answer: Mapping[str, Any]) -> None:
    for text in answer.get("warnings", []):
        warnings.warn(text, stacklevel=3)


def _line(line: str) -> str | dict[str, str]:
    if not line.strip():
        raise BadInput("a command is empty")
    return _word(line)


def _written(words: Sequence[Word]) -> list[str | dict[str, str]]:
    # Most are plain: then there is nothing to encode, and not even a call to be paid for.
    written = [word if word.__class__ is str and word.isascii() else _word(word) for word in words]
    if isinstance(words, bytes) or not written or (isinstance(written[0], str) and not written[0].strip()):
        _words(words)  # says what is wrong
    return written


def _word(word: Word) -> str | dict[str, str]:
    return word if isinstance(word, str) and word.isascii() else word_value(_bytes(word))


def _words(command: Sequence[Word] | str) -> list[bytes]:
    if isinstance(command, bytes):
        raise BadInput("a command is a list of words, or a string for the shell; bytes alone could be either")
    words = [_bytes(command)] if isinstance(command, str) else [_bytes(word) for word in command]
    if not words or not words[0].strip():
        raise BadInput("the command is empty")
    return words


def _bytes(word: Word) -> bytes:
    if isinstance(word, str | bytes | os.PathLike):
        return os.fsencode(word)
    raise BadInput(f"{word!r} is {type(word).__name__}, not text; words of a command or environment are str or bytes")


def _umask() -> int:
    if active_count() == 1:
        return homes.umask()
    # Read, not set and set back: another thread may be making files.
    try:
        status = Path("/proc/self/status").read_bytes()
        return int(status.partition(b"\nUmask:")[2].split(None, 1)[0], 8)
    except (OSError, IndexError, ValueError):
        return 0o077


def _id(job: Job | int) -> int:
    return job.id if isinstance(job, Job) else job


def _all_final(jobs: list[Job]) -> bool:
    return all(job.info.get("state") in FINAL_STATES for job in jobs)
