"""One call of execute_batch: which lines are left, what is sent, and the jobs that are submitted for them."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from typing import Any

from grassq import home as homes
from grassq.compat.execute_batch import batch_file, output
from grassq.compat.execute_batch.arguments import BatchArguments
from grassq.compat.execute_batch.batch_file import BatchLine
from grassq.compat.execute_batch.copies import check_forward, fetch_patterns
from grassq.compat.execute_batch.held_slots import held_slots, put_held, remove_held
from grassq.compat.execute_batch.job_document import JobDocuments
from grassq.compat.execute_batch.job_watch import JobWatch
from grassq.compat.execute_batch.machines import (
    BatchMachine,
    NamedMachine,
    ask_all,
    machine_slots,
    named_machines,
    usable,
)
from grassq.compat.execute_batch.note import BatchNote, NotedJob, NotedSubmission
from grassq.compat.execute_batch.output import BatchOutput
from grassq.compat.execute_batch.queue import BatchQueue, new_queue_name
from grassq.compat.execute_batch.results import Results
from grassq.compat.messages import Messages
from grassq.compat.signals import Leave
from grassq.errors import EXIT_JOB_FAILED, EXIT_OK, BadInput, Refused, StoreUnavailable
from grassq.home import Sender
from grassq.net.client import ApiClient
from grassq.net.encoding import FINAL_STATES, new_key
from grassq.sdk.watcher import EndWatcher

#: Added to the number of the signal that ended the call.
EXIT_SIGNAL = 128


class BatchCall:
    """One call of execute_batch."""

    def __init__(self, arguments: BatchArguments, messages: Messages) -> None:
        """Read the files; raise BadInput for everything that is wrong about them, before anything is done."""
        self._arguments = arguments
        self._messages = messages
        self._cwd = os.fsdecode(homes.working_directory())
        self._lines = batch_file.read(
            arguments.file, self._cwd, arguments.forward, arguments.backwards, arguments.is_kabuki
        )
        for paths in {line.forward for line in self._lines}:
            check_forward(paths, self._cwd)
        for paths in {line.backwards for line in self._lines}:
            fetch_patterns(paths)
        self._machines: list[NamedMachine] = named_machines(arguments.machines)
        self._results = Results(self._cwd)
        self._output = BatchOutput(messages)
        #: The lines that are skipped because their results exist.
        self._skipped: list[BatchLine] = []

    def run(self, client: ApiClient) -> int:
        """Run the lines that are not done; return the exit code."""
        if self._arguments.is_dry:
            return self._dry_run(client)
        self._results.prepare()
        note = BatchNote(self._results.own, batch_file.batch_name(self._arguments.file, self._cwd))
        try:
            watch = JobWatch(client, self._results, self._output, self._messages, is_verbose=self._arguments.is_verbose)
            try:
                return self._run(client, note, watch)
            except Leave:
                watch.leave()
                raise
        finally:
            note.close()
            self._results.tidy()

    def _run(self, client: ApiClient, note: BatchNote, watch: JobWatch) -> int:
        flight = note.read()
        told: set[int] = set()
        if flight is not None:
            told = self._go_on(client, flight, note, watch)
        if not watch.signal and not watch.unread:
            left, done = self._left(told)
            watch.skip(done)
            if left:
                self._begin(client, left, done, note, watch)
            else:
                self._warn(done)
        if watch.signal:
            return EXIT_SIGNAL + watch.signal
        watch.skip_rest()
        watch.summarise()
        has_failed = bool(watch.failed) | self._tell_failed_earlier()
        return EXIT_JOB_FAILED if has_failed and not self._arguments.always_zero else EXIT_OK

    def _tell_failed_earlier(self) -> bool:
        """Say how many of the skipped lines failed in earlier calls; return whether there are any."""
        failed = sum(self._results.has_failed(line.name) for line in self._skipped)
        if failed:
            again = "--rerun-failed runs failed lines again"
            self._messages.say(f"{failed} of {len(self._skipped)} skipped lines failed earlier; {again}")
        return failed > 0

    def _left(self, told: Collection[int] = ()) -> tuple[list[BatchLine], list[BatchLine]]:
        """Return the lines to run, and the lines that are done, without those of `told` that are done."""
        left, done = list[BatchLine](), list[BatchLine]()
        for line in self._lines:
            if not self._results.has(line.name):
                left.append(line)
            elif line.number not in told:
                again = self._arguments.reruns_failed and self._results.has_failed(line.name)
                (left if again else done).append(line)
        return left, done

    def _warn(self, done: Sequence[BatchLine]) -> None:
        self._skipped += done
        for line in done:
            self._output.line(output.warning_line(line.number))

    def _slots(self, client: ApiClient) -> list[BatchMachine]:
        """Ask the machines what they have free, print the slots, and return them."""
        arguments, say = self._arguments, self._messages.say
        answers = ask_all(client.home, self._machines, accepts_key=arguments.accepts_key)
        found = usable(answers, skips=arguments.skips_unreachable, say=say)
        held = held_slots(client.home, client.show()["queues"])
        machines = machine_slots(found, arguments.needs, held, say)
        self._print_slots({machine.word: machine.gpus for machine in machines})
        return machines

    def _print_slots(self, slots: dict[str, tuple[int | None, ...]]) -> None:
        for text in output.limits_lines(slots):
            self._output.line(text)

    def _dry_run(self, client: ApiClient) -> int:
        _, done = self._left()
        self._slots(client)
        self._warn(done)
        skipped = {line.number for line in done}
        for line in self._lines:
            self._output.line(output.skipped_line(line) if line.number in skipped else output.dry_line(line))
        return EXIT_OK

    def _begin(
        self,
        client: ApiClient,
        left: Sequence[BatchLine],
        done: Sequence[BatchLine],
        note: BatchNote,
        watch: JobWatch,
    ) -> None:
        """Submit the lines that are left, and watch their jobs until the last has ended."""
        needs = self._arguments.needs
        machines = self._slots(client)
        self._warn(done)
        by_gpu = needs.needs_gpu and not needs.reserves_machine
        queue = BatchQueue(client, new_queue_name(), machines, by_gpu=by_gpu)
        documents = JobDocuments(client.home, self._cwd, self._messages).of(left, queue, self._results)
        watch.listen()
        if watch.signal:
            return
        for line in left:
            if self._results.has(line.name):
                kept = self._results.set_failed_aside(line.name)
                self._messages.say(f"the results of {line.name}, which failed, are kept in {kept.name}")
            self._results.forget(line.name)
        queue.create()
        put_held(client.home, queue.name, needs, machines)
        if self._arguments.only_changed:
            pairs = zip(left, documents, strict=True)
            left = [line._replace(sent=document["send"][0]["manifest"]) for line, document in pairs]
        jobs = {line.number: NotedJob(line.name, line.command, None, line.sent) for line in left}
        flight = NotedSubmission(queue.name, new_key(), client.home, homes.umask(), machines, by_gpu, documents, jobs)
        note.write(flight)
        flight = self._submit(client, flight, note)
        watch.take(_jobs_of(flight, {line.number: line for line in left}))
        self._watch(client, flight, note, watch)

    def _submit(self, client: ApiClient, flight: NotedSubmission, note: BatchNote) -> NotedSubmission:
        """Submit jobs, or learn their ids if they were submitted; write them down."""
        # Jobs over ssh have the environment of their machine, and run in what they are sent. And a repeated request
        # must be the same to the last byte.
        sender = Sender(b"/", {}, flight.umask)
        try:
            ids = client.submit(flight.documents, sender, key=flight.key, wait_for_queue=True)["ids"]
        except (BadInput, Refused) as error:
            if not isinstance(error, StoreUnavailable):
                note.remove()  # nothing is stored
            raise
        jobs = {
            number: each._replace(job=int(id_)) for (number, each), id_ in zip(flight.jobs.items(), ids, strict=True)
        }
        flight = flight._replace(jobs=jobs, documents=[])
        note.write(flight)
        return flight

    def _watch(self, client: ApiClient, flight: NotedSubmission, note: BatchNote, watch: JobWatch) -> None:
        queue = BatchQueue(client, flight.queue, flight.machines, by_gpu=flight.by_gpu)
        if watch.run(queue) and not watch.unread:
            note.remove()
            remove_held(client.home, flight.queue)

    def _go_on(self, client: ApiClient, flight: NotedSubmission, note: BatchNote, watch: JobWatch) -> set[int]:
        """Go on with the jobs of an earlier call; return the lines of which something was printed."""
        if flight.home != client.home:
            raise Refused(f"an earlier call submitted these lines to the daemon of {flight.home}; set GRASS_HOME to it")
        watch.listen()
        if flight.documents:
            flight = self._submit(client, flight, note)
        lines = {
            number: BatchLine(number, each.name, each.command, sent=each.sent)
            for number, each in flight.jobs.items()
            if not self._results.has(each.name)
        }
        ids = [each.job for number, each in flight.jobs.items() if number in lines and each.job]
        known = {id_: document for id_, document in EndWatcher(client).fetch(ids) if document is not None}
        self._check_unchanged(flight, known)
        self._messages.say(f"going on with the jobs of an earlier call ({len(known)} of them; queue {flight.queue})")
        self._print_slots({machine.word: machine.gpus for machine in flight.machines})
        _, done = self._left()
        self._warn(done)
        watch.skip(done)
        unfinished = {id_ for id_, document in known.items() if document["state"] not in FINAL_STATES}
        running = {number: line for number, line in lines.items() if flight.jobs[number].job in unfinished}
        watch.take(_jobs_of(flight, running))
        for number, line in lines.items():
            job = flight.jobs[number].job
            document = known.get(job or 0)
            if document is not None and document["state"] in FINAL_STATES:
                watch.end_of(document, line)
        self._watch(client, flight, note, watch)
        return {line.number for line in done} | lines.keys()

    def _check_unchanged(self, flight: NotedSubmission, known: dict[int, dict[str, Any]]) -> None:
        now = {line.number: line.command for line in self._lines}
        for number, each in flight.jobs.items():
            document = known.get(each.job or 0)
            runs = document is not None and document["state"] not in FINAL_STATES
            if runs and now.get(number, each.command) != each.command:
                what = f"line {number} has changed while its earlier command is job {each.job}"
                raise Refused(f"{what}; wait for its end, or `grass kill {each.job}`")


def _jobs_of(flight: NotedSubmission, lines: dict[int, BatchLine]) -> dict[int, BatchLine]:
    """Return these lines by their jobs."""
    return {each.job: lines[number] for number, each in flight.jobs.items() if each.job and number in lines}
