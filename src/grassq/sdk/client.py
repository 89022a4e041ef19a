"""The client: submits jobs, waits for them, reads their logs and kills them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Unpack

from grassq import home as homes
from grassq.errors import BadInput, GrassError
from grassq.gc_pause import gc_paused
from grassq.home import Sender
from grassq.net.client import POLL_LIMIT_S, SUBMIT_AT_ONCE, WAIT_AT_ONCE, compact
from grassq.net.client import ApiClient as _Requests
from grassq.net.encoding import FINAL_STATES, word_value
from grassq.sdk.job import Job

if TYPE_CHECKING:
    from grassq.core.job_options import SubmitOptions

Word = str | bytes


class Client:
    """A connection to this user's daemon, which is started if none runs, or to a broker. Threads may share it.

    `broker` is an address or "local" (default: GRASS_BROKER, then `grass use`). The environment and the directory of
    this program are not sent to a broker on another machine.
    """

    def __init__(self, home: str | None = None, *, broker: str | None = None) -> None:
        directory = homes.current() if home is None else str(Path(home).absolute())
        self._requests = _Requests(directory, broker=homes.broker(directory, broker))

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; jobs run on."""
        self._requests.close()

    @property
    def home(self) -> str:
        """The home directory of Grass: the queue, or the tokens for a broker."""
        return self._requests.home

    @property
    def broker(self) -> str | None:
        """The address of the broker; None for the local daemon."""
        return self._requests.broker

    def submit(
        self,
        command: Sequence[Word] | str,
        *,
        cwd: str | bytes | os.PathLike[str] | None = None,
        key: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> Job:
        """Store one job. A list is a program and its arguments; a string is a line for the shell.

        The options are those of `grassq.core.job_options.SubmitOptions`: queue, request, gpu, name, env and so on.
        With the same `key` (32 hex digits), a repeated call returns the same job, even after a crash of the program.
        """
        words = _written([command] if isinstance(command, str) else command)
        document = _document(options) | {"command": words, "shell": isinstance(command, str)}
        answer = self._requests.submit([document], self._sender(document, cwd), key=key)
        _warn(answer)
        return Job(self, {"id": answer["ids"][0]})

    def submit_many(
        self,
        commands: Iterable[Sequence[Word] | str],
        *,
        cwd: str | bytes | os.PathLike[str] | None = None,
        key: str | None = None,
        **options: Unpack[SubmitOptions],
    ) -> list[Job]:
        """Store one job per command, all of them or none, each with the given options of `submit`.

        A list is a program and its arguments. A string is a line of `grass enqueue --stdin`: a line of plain words that
        names a program runs without a shell, a shell runs every other line. A broker on another machine takes 2,000
        jobs per request: more are sent in parts, and each part is stored whole or not at all.
        """
        document = _document(options)
        sender = self._sender(document, cwd)
        with gc_paused():
            written = [_written([each])[0] if isinstance(each, str) else _written(each) for each in commands]
        if not written:
            return []
        at_once = len(written) if self.broker is None else SUBMIT_AT_ONCE
        ids: list[int] = []
        for at in range(0, len(written), at_once):
            try:
                answer = self._requests.submit_many(
                    written[at : at + at_once], document, sender, key=_key_of_part(key, at)
                )
            except GrassError as error:
                if not ids:
                    raise
                raise type(error)(f"{error}; of {len(written):,} jobs the first {len(ids):,} are stored") from error
            _warn(answer)
            first = int(answer["first"])
            ids += range(first, first + int(answer["count"]))
        with gc_paused():
            return [Job(self, {"id": id_}) for id_ in ids]

    def _sender(self, document: dict[str, Any], cwd: str | bytes | os.PathLike[str] | None) -> Sender:
        """Return what is sent of this program; for a broker, `cwd` goes into the document: it is on the worker."""
        if cwd is None:
            return Sender.to(self.broker)
        path = Path(os.fsdecode(cwd))
        if self.broker is not None:
            if not path.is_absolute():
                raise BadInput(f"cwd={os.fsdecode(cwd)!r} is a directory on another machine; write an absolute path")
            document["cwd"] = word_value(os.fsencode(cwd))
        return Sender.to(self.broker, os.fsencode(path.absolute()))

    def jobs(self, *selectors: str | int) -> list[Job]:
        """Return the selected jobs; without a selector the current jobs, as in `grass show`."""
        return [Job(self, info) for info in self._requests.show([str(each) for each in selectors])["jobs"]]

    def wait(self, *jobs: Job | int, timeout: float | None = None) -> list[Job]:
        """Wait until all jobs have ended; raise TimeoutError after `timeout` seconds."""
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
            all_ended = all(job.info.get("state") in FINAL_STATES for job in handles)
            if deadline is not None and monotonic() >= deadline and not all_ended:
                raise TimeoutError(f"{len(pending)} jobs have not ended after {timeout:g} s")
            if monotonic() - began < 0.01:
                sleep(0.01)  # no busy loop if answers come at once and change nothing
        return handles

    def log(self, job: Job | int, *, stream: str = "log", attempt: int | None = None) -> bytes:
        """Return the output of a job so far; `stream` is "out" or "err" for a job with split=True."""
        return b"".join(self._requests.log(_id(job), stream=stream, attempt=attempt))

    def kill(self, job: Job | int, grace_s: float | None = None) -> None:
        """Send SIGTERM to a job, and after `grace_s` seconds SIGKILL to the job and all its children."""
        self._requests.kill([str(_id(job))], grace_s=grace_s)

    def _show_one(self, id_: int) -> dict[str, Any]:
        jobs: list[dict[str, Any]] = self._requests.jobs([str(id_)])["jobs"]
        return jobs[0]


def _document(options: SubmitOptions) -> dict[str, Any]:
    """Return the options as sent to the daemon, without those that were not given."""
    # Imported at the first submit: waiting and reading logs do not need it.
    from grassq.core.job_options import SubmitOptions

    if strange := options.keys() - SubmitOptions.__annotations__.keys():
        raise TypeError(f"submit has no argument {min(strange)!r}")
    said: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    amounts = {name: said.pop(name) for name in ("gpu", "cpu", "mem", "vram") if name in said}
    said["request"] = {**said.get("request", {}), **amounts}
    said["labels"] = list(said.get("labels", ()))
    said["env"] = [[word_value(_bytes(n)), word_value(_bytes(v))] for n, v in said.get("env", {}).items()]
    return {name: value for name, value in said.items() if value not in ("", [], {})}


def _key_of_part(key: str | None, at: int) -> str | None:
    """Return the key of the part that begins at an index; a repeated call makes the same keys."""
    if key is None or not at:
        return key
    from hashlib import sha256

    return sha256(f"{key} {at}".encode()).hexdigest()[:32]


def _warn(answer: Mapping[str, Any]) -> None:
    for text in answer.get("warnings", []):
        warnings.warn(text, stacklevel=3)


def _written(words: Sequence[Word]) -> list[str | dict[str, str]]:
    """Return the words of a command as sent."""
    if isinstance(words, bytes):
        raise BadInput("a command is a list of words, or a string for the shell; bytes alone could be either")
    # Most words are plain ASCII: no encoding and no call per word.
    written = [word if word.__class__ is str and word.isascii() else word_value(_bytes(word)) for word in words]
    if not written or (isinstance(written[0], str) and not written[0].strip()):
        raise BadInput("a command is empty")
    return written


def _bytes(word: Word) -> bytes:
    if isinstance(word, str | bytes | os.PathLike):
        return os.fsencode(word)
    raise BadInput(f"{word!r} is {type(word).__name__}, not text; words of a command or environment are str or bytes")


def _id(job: Job | int) -> int:
    return job.id if isinstance(job, Job) else job
