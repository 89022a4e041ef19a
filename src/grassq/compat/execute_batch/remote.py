"""One call of execute_remote: one command on one machine, with its output here and its exit code."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any

from grassq import home as homes
from grassq.cli import render
from grassq.compat.execute_batch.arguments import RemoteArguments
from grassq.compat.execute_batch.batch_file import BatchLine
from grassq.compat.execute_batch.copies import check_forward, fetch_patterns
from grassq.compat.execute_batch.job_document import JobDocuments
from grassq.compat.execute_batch.machines import BatchMachine, NamedMachine, connect, named_machines
from grassq.compat.execute_batch.queue import BatchQueue, new_queue_name
from grassq.compat.execute_batch.results import Record, Results
from grassq.compat.messages import Messages
from grassq.core.outcome import exit_code, in_words, is_own_end
from grassq.errors import EXIT_INTERRUPTED, BadInput, GrassError, Refused
from grassq.home import Sender
from grassq.net.client import POLL_LIMIT_S, ApiClient

STREAMS = {"out": 1, "err": 2}
#: How long the rest of the output is waited for after the end of the job.
OUTPUT_S = 60.0
EXIT_TERMINATED = 128 + signal.SIGTERM


class _Terminated(KeyboardInterrupt):
    """SIGTERM: handled as ctrl-C is."""


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise _Terminated


class RemoteCall:
    """One call of execute_remote."""

    def __init__(self, arguments: RemoteArguments, messages: Messages) -> None:
        """Read the files; raise BadInput for everything that is wrong about them, before anything is done."""
        self._arguments = arguments
        self._messages = messages
        self._cwd = os.fsdecode(homes.working_directory())
        job = arguments.job
        check_forward(job.forward, self._cwd)
        fetch_patterns(job.backwards)
        name = job.name or os.urandom(12).hex()
        self._line = BatchLine(1, name, os.fsencode(job.command), job.forward, job.backwards)
        self._machine: NamedMachine = named_machines([arguments.machine])[0]
        self._results = Results(self._cwd)
        if self._results.has(name):
            raise BadInput(
                f"job_results/{name} is there already, and results are never replaced; use another --job-name"
            )

    def run(self, client: ApiClient) -> int:
        """Run the command; return its exit code."""
        worker = connect(client, self._machine, accepts_key=self._arguments.accepts_key)
        self._results.prepare()
        signal.signal(signal.SIGTERM, _terminate)
        try:
            return self._run(client, worker)
        finally:
            self._results.tidy()

    def _run(self, client: ApiClient, worker: str) -> int:
        machine = BatchMachine(self._machine.word, worker, (None,))
        queue = BatchQueue(client, new_queue_name(), [machine], by_gpu=False)
        self._results.forget(self._line.name)
        documents = JobDocuments(client.home, self._cwd, self._messages).of([self._line], queue, self._results)
        queue.create()
        job = int(client.submit(documents, Sender(b"/", {}, homes.umask()))["ids"][0])
        if self._arguments.is_verbose:
            self._messages.say(f"{self._line.name} is job {job} on {worker}")
        try:
            threads = [self._follow(client.home, job, stream) for stream in STREAMS]
            return self._end(_waited(client, job), threads)
        except KeyboardInterrupt as interrupt:
            leaves = "another ctrl-C leaves at once"
            self._messages.say(f"interrupting the task; waiting for its end and its files ({leaves})")
            client.kill([str(job)])
            self._end(_waited(client, job), ())
            return EXIT_TERMINATED if isinstance(interrupt, _Terminated) else EXIT_INTERRUPTED

    def _follow(self, home: str, job: int, stream: str) -> threading.Thread:
        """Print a stream of the job as it comes, on a thread that the end of the process does not wait for."""

        def follow() -> None:
            try:
                with ApiClient(home) as client:
                    for part in client.follow(job, stream=stream):
                        render.write(part, fd=STREAMS[stream])
            except (GrassError, OSError) as error:
                self._messages.say(f"std{stream} is not whole: {error}; `grass log {job}` has it")

        thread = threading.Thread(target=follow, daemon=True)
        thread.start()
        return thread

    def _end(self, job: dict[str, Any], threads: Sequence[threading.Thread]) -> int:
        for thread in threads:
            thread.join(OUTPUT_S)
        how = (job["outcome"], job["exit_code"], job["signal"])
        if job["state"] != "cancelled" and not job["error"] and is_own_end(job["outcome"]):
            code = exit_code(*how)
            self._results.put(self._line.name, Record(code, int(job["id"]), self._arguments.job.command))
            if self._arguments.job.name is None:
                self._messages.say(f"the results are in job_results/{self._line.name}")
            return code
        place = self._results.put_partial(self._line.name)
        kept = "" if place is None else f"; what came back is in job_results/{place.name}"
        self._messages.say(f"the results are not complete: {job['error'] or in_words(*how)}{kept}")
        return exit_code(*how)


def _waited(client: ApiClient, job: int) -> dict[str, Any]:
    """Return a job when it has ended."""
    while True:
        answer = client.wait([str(job)], timeout_s=POLL_LIMIT_S)
        if not answer["jobs"]:
            raise Refused(f"the daemon has no record of job {job}")
        if answer["done"]:
            return dict(answer["jobs"][0])
