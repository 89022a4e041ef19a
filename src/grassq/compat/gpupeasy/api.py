"""The routes of GPUPeasy's API: documents in, documents out. Every answer has `status`, as GPUPeasy's have."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from time import monotonic
from typing import Any, NamedTuple

from grassq.compat.gpupeasy.devices import available_entries, entries_of, find_queue
from grassq.compat.gpupeasy.job_lists import FAILED, RUNNING, SCHEDULED, SUCCEEDED, JobWriter, jobs_of, pages
from grassq.core.batches.batch_text import BATCH_BYTES_MAX
from grassq.core.batches.job_names import job_name
from grassq.core.names import shown
from grassq.core.syntax import shell_lines
from grassq.errors import BadInput, GrassError, NotFound, Refused, StoreUnavailable, Unreachable
from grassq.home import Sender
from grassq.net.client import ApiClient
from grassq.net.encoding import word_value

#: As many jobs may wait in the queue; GPUPeasy refuses more.
QUEUE_MAX = 10_000
COUNT_S = 1.0
#: Bytes of a body; a batch may be larger.
BODY_MAX = 1 << 20
BATCH_BODY_MAX = 2 * BATCH_BYTES_MAX
#: Lines of a log: what is shown if the request does not say, and the most; and the bytes of the answer.
TAIL_LINES, TAIL_LINES_MAX = 20, 10_000
TAIL_BYTES_MAX = 1 << 20

_ID = re.compile(r"[0-9]{1,15}", re.ASCII)
_STATUS = ((BadInput, 400), (NotFound, 404), (StoreUnavailable, 503), (Unreachable, 503), (Refused, 409))
_GET_PATHS = ("availabledevices", "deviceutilization", "scheduledjobs", "successfuljobs", "failedjobs")
_POST_PATHS = ("addnewjob", "batchaddjobs", "testCommandParser", "loadlogfile")

Document = dict[str, Any]


class PeasyAnswer(NamedTuple):
    """The answer to a request: the code of HTTP, and the document."""

    code: int
    document: Document


def failure(code: int, message: str) -> PeasyAnswer:
    """Return the answer to a request that failed."""
    return PeasyAnswer(code, {"status": "failed", "message": message})


def method_of(path: str) -> str | None:
    """Return the method of a path; None if there is no such path."""
    name = path.removeprefix("/")
    if name in _GET_PATHS or name.partition("/")[0] == "jobinfo":
        return "GET"
    return "POST" if name in _POST_PATHS else None


def body_max(path: str) -> int:
    """Return how many bytes the body of a request may have."""
    return BATCH_BODY_MAX if path == "/batchaddjobs" else BODY_MAX


class PeasyApi:
    """Answers requests of GPUPeasy's clients; used by several threads."""

    def __init__(self, client: ApiClient, queue: str, project: str | None, sender: Sender) -> None:
        """`sender` has the directory and the environment of the jobs: those of the server."""
        self._client = client
        self._queue = queue
        self._project = project
        self._sender = sender
        self._waiting, self._count_at = 0, 0.0
        self._lists: dict[str, Callable[[], Document]] = {
            "/availabledevices": self._devices,
            "/deviceutilization": self._running,
            "/scheduledjobs": lambda: self._list(SCHEDULED),
            "/successfuljobs": lambda: self._list(SUCCEEDED),
            "/failedjobs": lambda: self._list(FAILED),
        }
        self._posts: dict[str, Callable[[Document], Document]] = {
            "/addnewjob": self._add,
            "/batchaddjobs": self._add_batch,
            "/testCommandParser": self._parse,
            "/loadlogfile": self._log,
        }

    def get(self, path: str) -> PeasyAnswer:
        """Answer a GET request."""
        return self._answer(lambda: self._lists[path]() if path in self._lists else self._info(path))

    def post(self, path: str, body: bytes, kind: str) -> PeasyAnswer:
        """Answer a POST request; `kind` is the type of the body that the request names."""
        return self._answer(lambda: self._posts[path](_read(body, kind)))

    def _answer(self, handle: Callable[[], Document]) -> PeasyAnswer:
        try:
            return PeasyAnswer(200, {"status": "successful", **handle()})
        except GrassError as error:
            code = next((code for each, code in _STATUS if isinstance(error, each)), 500)
            return failure(code, str(error))

    def _entries(self) -> list[str]:
        return entries_of(self._own_queue())

    def _own_queue(self) -> Document:
        found = find_queue(self._client, self._queue)
        if found is None:
            raise Refused(f"queue {self._queue} is gone; start the server again to make it")
        return found

    def _writer(self) -> JobWriter:
        return JobWriter(self._project, self._entries())

    def _devices(self) -> Document:
        return {"value": available_entries(self._client, self._own_queue())}

    def _running(self) -> Document:
        jobs, more = jobs_of(self._client, self._queue, RUNNING)
        writer = self._writer()
        return {"value": [writer.running(job) for job in jobs], "more": more}

    def _list(self, states: tuple[str, ...]) -> Document:
        jobs, more = jobs_of(self._client, self._queue, states)
        writer = JobWriter(self._project, ())
        write = writer.listed if states is SCHEDULED else writer.ended
        return {"value": [write(job) for job in jobs], "more": more}

    def _info(self, path: str) -> Document:
        # `status` is that of the job, as in GPUPeasy.
        return self._writer().info(self._job(path.removeprefix("/jobinfo").removeprefix("/")))

    def _job(self, text: str) -> Document:
        if not _ID.fullmatch(text):
            raise BadInput(f"{shown(text)} is not a job id; an id is a number")
        try:
            job = self._client.one_job(str(int(text)))
        except (NotFound, BadInput):
            raise NotFound(f"there is no job {int(text)}") from None
        if job.get("queue") != self._queue:
            raise NotFound(f"job {int(text)} is not one of queue {self._queue}; `grass show {int(text)}` shows it")
        return job

    def _add(self, body: Document) -> Document:
        asked = body.get("job")
        if not isinstance(asked, dict):
            raise BadInput('the request has no "job": {"job": {"jobName", "outFile", "jobCommand"}}')
        name, outfile = _text(asked, "jobName"), _text(asked, "outFile")
        command = asked.get("jobCommand")
        if command is None:
            raise BadInput('the job has no "jobCommand"')
        if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
            raise BadInput('"jobCommand" is a list of words: ["python", "-u", "train.py"]')
        if not command or not command[0].strip():
            raise BadInput('"jobCommand" is empty')
        self._check_room()
        job = {**self._named(name), "queue": self._queue, "output": outfile, "command": command}
        [id_] = self._client.submit([job], self._sender)["ids"]
        return {"message": _added([id_], name, job["name"]), "jobID": id_, "jobid": id_}

    def _check_room(self) -> None:
        """Raise Refused if too many jobs wait; jobs are counted once in COUNT_S, and those added since then."""
        if monotonic() >= self._count_at:
            self._waiting = int(self._own_queue().get("queued") or 0)
            self._count_at = monotonic() + COUNT_S
        if self._waiting >= QUEUE_MAX:
            raise Refused(f"{QUEUE_MAX:,} jobs wait in queue {self._queue} already; try again when some have started")
        self._waiting += 1

    def _named(self, name: str) -> Document:
        """Return name and project of a job; `PROJECT/NAME` names both."""
        head, slash, tail = name.rpartition("/")
        project = job_name(head) if slash and head.strip("/ ") else self._project
        named = {"name": job_name(tail if slash and tail.strip() else name)}
        return named if project is None else {**named, "project": project}

    def _add_batch(self, body: Document) -> Document:
        text = _text(body, "batch")
        shared = {"queue": self._queue} | ({} if self._project is None else {"project": self._project})
        found = self._sent("check", {"batch": text, "job": shared})
        if found["problems"]:
            raise _BadBatch([f"line {each['line']}: {each['why']}" for each in found["problems"]])
        ids = self._sent("submit-batch", {"text": text, "job": shared})["ids"]
        return {"message": _added(ids), "jobIDs": ids}

    def _sent(self, action: str, values: Document) -> Document:
        sender = self._sender
        env = [[word_value(name), word_value(value)] for name, value in sender.env.items()]
        return self._client.change(action, **values, cwd=word_value(sender.cwd), umask=sender.umask, env=env)

    def _parse(self, body: Document) -> Document:
        """Tell how a command of a batch is run: its words without a shell, or the line in a shell."""
        line = _text(body, "command").replace("\n", " ").strip()
        words = shell_lines.plain_words(line.encode())
        if words:
            return {"value": [word.decode("utf-8", "backslashreplace") for word in words], "shell": False}
        try:
            split = shlex.split(line)
        except ValueError as error:
            raise BadInput(f"the command cannot be split: {error}") from None
        return {"value": split, "shell": True, "line": line}

    def _log(self, body: Document) -> Document:
        lines = body.get("lastN", TAIL_LINES)
        if isinstance(lines, str) and _ID.fullmatch(lines):
            lines = int(lines)
        if not isinstance(lines, int) or isinstance(lines, bool) or not 0 < lines <= TAIL_LINES_MAX:
            raise BadInput(f'"lastN" is a number from 1 to {TAIL_LINES_MAX}')
        job = self._job(str(body["jobID"])) if "jobID" in body else self._job_with(_text(body, "fileName"))
        if "fileName" in body and self._path(_text(body, "fileName")) != job.get("output"):
            raise NotFound(f"{shown(_text(body, 'fileName'))} is not the output of job {job['id']}")
        text = b""
        if job.get("attempt"):
            for part in self._client.log(int(job["id"]), tail=lines):
                text = (text + part)[-TAIL_BYTES_MAX:]
        return {"value": text.decode("utf-8", "replace"), "jobID": job["id"], "jobid": job["id"]}

    def _job_with(self, file: str) -> Document:
        """Return the newest job with this output file: the log of a job is all that is ever read."""
        path = self._path(file)
        for page in pages(self._client, self._queue):
            for job in page:
                if job.get("output") == path:
                    return job
        raise NotFound(f"{shown(file)} is not the output of a job of queue {self._queue}")

    def _path(self, file: str) -> str:
        # Only compared with the outputs of jobs, never opened.
        return os.fsdecode(os.path.normpath(os.path.join(self._sender.cwd, os.fsencode(file))))  # noqa: PTH118


class _BadBatch(BadInput):
    """A batch with problems; nothing of it was added."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems) + "; no job was added")


def _read(body: bytes, kind: str) -> Document:
    # A browser sends this type to another origin only after it has asked, and it is refused then.
    if kind != "application/json":
        raise BadInput("the request has no JSON; send it with Content-Type: application/json")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise BadInput("the body is not JSON") from None
    if not isinstance(found, dict):
        raise BadInput("the body is not a JSON object")
    return found


def _text(document: Document, key: str) -> str:
    value = document.get(key)
    if value is None:
        raise BadInput(f'the request has no "{key}"')
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise BadInput(f'"{key}" is empty, or not text')
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadInput(f'"{key}" is not text in UTF-8') from None
    return value


def _added(ids: list[int], name: str = "", stored: str = "") -> str:
    if len(ids) != 1:
        return f"{len(ids)} jobs were added: {ids[0]}-{ids[-1]}"
    renamed = f"; its name in Grass is {stored}" if stored and stored != name else ""
    return f"job {ids[0]} was added{renamed}"
