"""The client: submits jobs, waits for them and changes them."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Unpack

from grassq import home as homes
from grassq.errors import BadInput, NotFound
from grassq.gc_pause import gc_paused
from grassq.home import Sender
from grassq.net.client import ApiClient, compact
from grassq.net.encoding import word_value
from grassq.sdk.fleet import Directory, queue_among
from grassq.sdk.job import Job
from grassq.sdk.job_list import JobList, Which, flat
from grassq.sdk.many import ManyClient
from grassq.sdk.notices import warn
from grassq.sdk.submission import Command, command_document, edit_document, options_document
from grassq.sdk.waiting import as_completed
from grassq.sdk.watcher import EndWatcher, closed_error

if TYPE_CHECKING:
    from grassq.core.job_options import SubmitOptions


class Client(ManyClient):
    """A connection to this user's daemon, which is started if none runs, or to a broker. Threads may share it.

    `broker` is an address or "local" (default: GRASS_BROKER, then `grass use`). The environment and the directory of
    this program are not sent to a broker on another machine. Methods that take jobs take handles, ids, selectors and
    lists of these.
    """

    def __init__(self, home: str | os.PathLike[str] | None = None, *, broker: str | None = None) -> None:
        directory = homes.current() if home is None else str(Path(home).absolute())
        self._api = ApiClient(directory, broker=homes.broker(directory, broker))
        self._watcher = EndWatcher(self._api)
        self._is_closed = False

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Client of {self._place}{' (closed)' if self._is_closed else ''}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.home, self.broker or homes.LOCAL)

    def close(self) -> None:
        """Close the connection; jobs run on. A closed client refuses every request."""
        self._is_closed = True
        self._ends.close()
        self._api.close()

    @property
    def home(self) -> str:
        """The home directory of Grass: the queue, or the tokens for a broker."""
        return self._api.home

    @property
    def broker(self) -> str | None:
        """The address of the broker; None for the local daemon."""
        return self._api.broker

    def submit(
        self,
        command: Command,
        *more: Never,
        shell: bool | None = None,
        cwd: Directory | None = None,
        key: str | None = None,
        wait_for_queue: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> Job:
        """Store one job and return its handle. A list is a program and its arguments; a string is a line for the shell.

        Words are text, bytes, paths or numbers. `shell` says explicitly whether a string is a line for the shell; with
        False it is a program. The options are queue, request, gpu, cpu, mem, vram, disk, name, priority, env, hold,
        split, keep_children, grace_s, on_lost, tries, worker, labels, send, fetch, fetch_to, env_from, python, setup,
        setup_files, notify, wrap, project, tags and unique. Limits of its time are time_limit_s, warn_s, warn_signal
        and idle_limit_s. When it starts is said by after, after_any, after_fail, at and in_s, when it is tried again by
        retry_delay_s, retry_on and no_retry_on. `grassq.core.job_options.SubmitOptions` explains them all. A script may
        give its own job options, in lines such as `#GRASS --gpu 0.5`; those given here win. With `send`, `cwd` is
        inside of what is sent. With `unique`, `Job.existing` tells whether the job was there before. A job for a queue
        that does not exist is refused, unless `wait_for_queue` is True. With the same `key` (32 hex digits), a repeated
        call returns the same job, even after a crash of the program.
        """
        from grassq.sdk.script import ScriptedOptions

        words = command_document(command, shell)
        if more:
            raise TypeError(f"submit takes one command: submit({[command, *more]!r})")
        said = ScriptedOptions(command, options, cwd)
        document = options_document(said.options, self.home, self.broker) | words
        sender = self._sender(document, said.cwd)
        answer = self._requests.submit([document], sender, key=key, wait_for_queue=wait_for_queue)
        warn(answer.get("warnings", []))
        return self._handles(answer["ids"], existing=bool(answer.get("existing")))[0]

    def job(self, which: int | str) -> Job:
        """Return the handle of one job, by its id or by a selector that names one job, such as "@" for the last."""
        return Job(self, self._requests.one_job(str(which)))

    def jobs(self, *which: Which | Iterable[Which]) -> JobList:
        """Return the selected jobs; without a selector the current jobs, as in `grass show`.

        States such as "failed" may match no job; an id, a queue or a name that matches none raises NotFound.
        """
        from grassq.core.names import STATES

        selectors = self._selectors(which)
        if which and not selectors:
            return JobList()
        states = [state for each in selectors for state in each.split(",") if state in STATES]
        # Jobs of any of these states: one selector, so that a state without jobs is no error beside another.
        are_states = bool(states) and ",".join(states) == ",".join(selectors)
        try:
            found = self._requests.show([",".join(states)] if are_states else selectors)["jobs"]
        except NotFound:
            if not are_states:
                raise
            found = []
        return JobList(Job(self, info) for info in found)

    def wait(self, *which: Which | Iterable[Which], timeout: float | None = None) -> JobList:
        """Wait until all these jobs have ended and return them; raise TimeoutError after `timeout` seconds.

        "all", a queue and a name stand for jobs that have not ended yet, as in `grass wait`.
        """
        handles = JobList(job for each in flat(which) for job in self._waited_for(each))
        for _ in as_completed(handles, timeout):
            pass
        return handles

    def log(self, job: Job | int, tail: int | None = None, *, stream: str | None = None) -> str:
        """Return the output of a job so far as text, or its last `tail` lines."""
        return self._handle(job).log(tail, stream=stream)

    def why(self, job: Which) -> str:
        """Return why a job is in its state, as `grass why` prints it."""
        return "\n".join(str(each["text"]) for each in self._requests.get("why", self._selectors([job]))["jobs"])

    def kill(
        self, *which: Which | Iterable[Which], grace_s: float | None = None, with_dependents: bool = False
    ) -> JobList:
        """Cancel jobs: waiting jobs at once, running jobs by SIGTERM and after `grace_s` seconds SIGKILL.

        With `with_dependents`, also the jobs that start after them.
        """
        return self._change("kill", which, grace_s=grace_s, with_dependents=with_dependents)

    def hold(self, *which: Which | Iterable[Which]) -> JobList:
        """Keep jobs that have not started from starting."""
        return self._change("hold", which)

    def suspend(self, *which: Which | Iterable[Which], free: bool = False) -> JobList:
        """Stop the processes of running jobs; with `free`, other jobs may get their devices meanwhile.

        Device memory stays taken: a stopped process keeps what it has allocated.
        """
        return self._change("suspend", which, free=free)

    def resume(self, *which: Which | Iterable[Which], queue: str | None = None) -> JobList:
        """Let suspended jobs go on: at once, or when the devices that they gave back have room for them again.

        Without an argument, or with one that is a queue, start jobs of all queues or of this one again.
        """
        words = [each if isinstance(each, str) else str(self._handle(each).id) for each in flat(which)]
        if queue is not None or not which or (queue := queue_among(self._requests, words)) is not None:
            self._resume_queue(queue)
            return JobList()
        return self._change("resume", which)

    def release(self, *which: Which | Iterable[Which]) -> JobList:
        """Let held jobs start."""
        return self._change("release", which)

    def priority(self, which: Which | Iterable[Which], priority: int) -> JobList:
        """Set the priority of jobs, where larger is sooner and 30 is neutral."""
        return self._change("priority", [which], priority=priority)

    def edit(self, which: Which | Iterable[Which], **changes: Any) -> JobList:
        """Change jobs that have not started: `command`, amounts such as `gpu`, and any option of `submit` but `send`.

        All of them are changed or none. None is the default of an option, also of `after` and `at`; `env` sets single
        variables, of which None removes one. The changed jobs are returned.
        """
        cwd = word_value(Sender.to(self.broker).cwd)
        return self._change("edit", [which], set=edit_document(changes), cwd=cwd)

    def move(
        self,
        which: Which | Iterable[Which],
        *,
        first: bool = False,
        last: bool = False,
        before: Job | int | None = None,
        after: Job | int | None = None,
    ) -> JobList:
        """Move jobs that have not started to another place among jobs of equal priority; return the moved jobs."""
        asked = {"first": first, "last": last, "before": before, "after": after}
        chosen = [name for name, value in asked.items() if value not in (None, False)]
        if len(chosen) != 1:
            raise BadInput("say where to, in one way: first=True, last=True, before=JOB or after=JOB")
        target = before if before is not None else after
        job = None if target is None else str(self._handle(target).id)
        return self._change("move", [which], where=chosen[0], target=job)

    def rerun(
        self,
        *which: Which | Iterable[Which],
        failed: bool = False,
        cancelled: bool = False,
        with_dependents: bool = False,
    ) -> JobList:
        """Submit ended jobs again and return the new jobs.

        With `failed` or `cancelled`, only jobs that ended so and were not run again since; then `which` may be empty.
        With `with_dependents`, also the jobs that start after them.
        """
        return self._change("rerun", which, failed=failed, cancelled=cancelled, with_dependents=with_dependents)

    def clean(self, *which: Which | Iterable[Which], older_s: float | None = None, keep_logs: bool = False) -> int:
        """Remove ended jobs with their logs and results, and return how many; "all" stands for every ended job.

        With `older_s`, only jobs that ended longer ago than this many seconds; then `which` may be empty. With
        `keep_logs`, their logs and files stay in the folder `kept` of the home.
        """
        if not which and older_s is None:
            raise BadInput("say which ended jobs to remove: clean('all'), clean(older_s=7 * 86400), or ids")
        return len(self._change("clean", which or ["all"], older_s=older_s, keep_logs=keep_logs))

    @property
    def _requests(self) -> ApiClient:
        if self._is_closed:
            raise closed_error()
        return self._api

    @property
    def _ends(self) -> EndWatcher:
        """What tells of the ends of jobs; after a fork the child has one of its own."""
        if self._watcher.pid != os.getpid():
            self._watcher = EndWatcher(self._api)
        return self._watcher

    @property
    def _place(self) -> str:
        """Where the jobs are: jobs with equal ids at equal places are the same."""
        return self.broker or self.home

    def _sender(self, document: dict[str, Any], cwd: Directory | None) -> Sender:
        """Return what is sent of this program; for a broker, `cwd` goes into the document: it is on the worker."""
        if cwd is None:
            return Sender.to(self.broker)
        if "send" in document:
            document["cwd"] = word_value(os.fsencode(cwd))
            return Sender.to(self.broker)
        path = Path(os.fsdecode(cwd))
        if self.broker is not None:
            if not path.is_absolute():
                raise BadInput(f"cwd={os.fsdecode(cwd)!r} is a directory on another machine; write an absolute path")
            document["cwd"] = word_value(os.fsencode(cwd))
        return Sender.to(self.broker, os.fsencode(path.absolute()))

    def _change(
        self, verb: str, which: Iterable[Which | Iterable[Which]], *, quiet: bool = False, **values: object
    ) -> JobList:
        """Apply an action to jobs, and return the changed jobs; an empty list of jobs changes nothing."""
        asked = list(which)
        selectors = self._selectors(asked)
        if asked and not selectors:
            return JobList()
        answer = self._requests.change(f"jobs/{verb}", selectors=selectors, **values)
        warn([] if quiet else answer.get("notes", []))
        infos = {info["id"]: info for info in answer.get("jobs", [])}
        return JobList(Job(self, infos.get(id_, {"id": id_})) for id_ in answer["ids"])

    def _selectors(self, which: Iterable[Which | Iterable[Which]]) -> list[str]:
        named = list(flat(which))
        ids = [self._handle(each).id for each in named if not isinstance(each, str)]
        return compact(ids) + [each for each in named if isinstance(each, str)]

    def _waited_for(self, which: Which) -> list[Job]:
        if not isinstance(which, str):
            return [self._handle(which)]
        return [Job(self, info) for info in self._requests.wait([which], timeout_s=0)["jobs"]]

    def _handles(self, ids: Iterable[int], *, existing: bool = False) -> JobList:
        with gc_paused():
            return JobList(Job(self, {"id": id_}, existing=existing) for id_ in ids)

    def _handle(self, job: Job | int) -> Job:
        if not isinstance(job, Job):
            return Job(self, {"id": job})
        if job._client._place != self._place:
            raise BadInput(f"job {job.id} is at {job._client._place}, and this client is of {self._place}")
        return job


def _reopened(home: str, broker: str) -> Client:
    client = Client(home, broker=broker)
    # The program knows only the handles that it has unpickled, so it cannot close this client.
    weakref.finalize(client, client._api.close)
    return client
