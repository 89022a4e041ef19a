"""The part of the client that submits many jobs at once: lists, sweeps, arrays and sweeps in files."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from grassq.errors import BadInput, GrassError
from grassq.gc_pause import gc_paused
from grassq.net.client import SUBMIT_AT_ONCE
from grassq.sdk.fleet import Directory, FleetClient
from grassq.sdk.job_list import JobList
from grassq.sdk.notices import warn
from grassq.sdk.submission import Command, Word, key_of_part, options_document, written_line

if TYPE_CHECKING:
    from grassq.core.job_options import SubmitOptions
    from grassq.home import Sender
    from grassq.sdk.sweep_file import SweepFileResult


class ManyClient(FleetClient):
    """Submits many jobs with one call; `Client` inherits it."""

    @abstractmethod
    def _sender(self, document: dict[str, Any], cwd: Directory | None) -> Sender:
        """Return what is sent of this program."""

    @abstractmethod
    def _handles(self, ids: Iterable[int], *, existing: bool = False) -> JobList:
        """Return handles of jobs."""

    def submit_many(
        self,
        commands: Iterable[Command],
        *,
        cwd: Directory | None = None,
        key: str | None = None,
        wait_for_queue: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> JobList:
        """Store one job per command, all of them or none, each with the given options of `submit`.

        A list is a program and its arguments. A string is a line of `grass enqueue --stdin`: a line of plain words that
        names a program runs without a shell, a shell runs every other line. Options inside of scripts are not read:
        each command may run another. A broker on another machine takes 2,000 jobs per request: more are sent in parts,
        and each part is stored whole or not at all.
        """
        if isinstance(commands, str | bytes):
            raise BadInput("submit_many takes a list of commands; submit takes one")
        document = options_document(options, self._requests.home, self._requests.broker)
        return self._submit_many(commands, document, cwd, key, wait_for_queue)

    def sweep(
        self,
        command: Command,
        parameters: Mapping[str, Iterable[Word]],
        *,
        samples: int | None = None,
        seed: int | None = None,
        exclude: str | Iterable[str] = (),
        at_once: int | None = None,
        max_fails: int | None = None,
        cwd: Directory | None = None,
        key: str | None = None,
        wait_for_queue: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> JobList:
        """Store a job for every combination of parameter values, all of them or none; `{lr}` stands for a value.

        In a list each word is filled in by itself, so values may hold blanks; a string is a line as in `submit_many`.
        Values are a list, or a range as text: "0..4", "32..256*2", "log:1e-5..1e-1:20". The order is that of nested
        loops. `samples` takes only that many combinations, at random; `seed` makes the choice the same each time.
        `exclude` leaves out points: "lr=0.1 bs=32". At most `at_once` jobs run at once; after `max_fails` failures,
        what has not started is cancelled. `{{gpu}}` is the text {gpu}, which becomes the ids of the job's devices.
        """
        from grassq.sdk.script import ScriptedOptions
        from grassq.sdk.sweep import combinations, sweep_members

        commands, values = combinations(command, parameters, samples, seed, exclude)
        said = ScriptedOptions(command, options, cwd, {"at_once": at_once, "max_fails": max_fails})
        document = options_document(said.options, self._requests.home, self._requests.broker)
        return self._submit_many(
            commands, document, said.cwd, key, wait_for_queue, values, sweep_members(**said.limits)
        )

    def submit_array(
        self,
        command: Command,
        array: str | Mapping[str, Iterable[Word]],
        *,
        at_once: int | None = None,
        max_fails: int | None = None,
        cwd: Directory | None = None,
        key: str | None = None,
        wait_for_queue: bool = False,
        **options: Unpack[SubmitOptions],
    ) -> JobList:
        """Store a job for each index of an array such as "0-99%8", or for each row of a list, all of them or none.

        `{index}` in the command, `env`, `output` and `name` becomes the index, which is also $GRASS_ARRAY_INDEX. A list
        has the values of each column; `{column}` becomes a value, which is one word also in a line for the shell.
        """
        from grassq.sdk.script import ScriptedOptions
        from grassq.sdk.sweep import array_members

        said = ScriptedOptions(command, options, cwd, {"at_once": at_once, "max_fails": max_fails})
        document = options_document(said.options, self._requests.home, self._requests.broker)
        more = array_members(array, **said.limits)
        return self._submit_many([command], document, said.cwd, key, wait_for_queue, more=more)

    def sweep_file(
        self, file: str | os.PathLike[str], *, dry_run: bool = False, prune: bool = False
    ) -> SweepFileResult:
        """Apply a sweep in a TOML file, as `grass sweep --file` does: run what is new, changed or failed.

        With `dry_run`, only find out what would be done. With `prune`, also end the unfinished jobs of points that are
        no longer in the file.
        """
        from grassq.sdk.sweep_file import apply_file

        return apply_file(self._requests, os.fspath(file), self._handles, dry_run=dry_run, prune=prune)

    def _submit_many(
        self,
        commands: Iterable[Command],
        document: dict[str, object],
        cwd: Directory | None,
        key: str | None,
        wait_for_queue: bool,
        parameters: Mapping[str, list[str]] | None = None,
        more: dict[str, object] | None = None,
    ) -> JobList:
        sender = self._sender(document, cwd)
        with gc_paused():
            written = [written_line(each) for each in commands]
        at_once = max(len(written), 1) if self._requests.broker is None else SUBMIT_AT_ONCE
        if more and more.get("sweep") and len(written) > at_once:
            raise BadInput(f"a broker on another machine takes a sweep with limits of at most {at_once:,} jobs")
        ids: list[int] = []
        is_existing = False
        for at in range(0, len(written), at_once):
            part, part_key = written[at : at + at_once], key_of_part(key, at)
            try:
                answer = self._requests.submit_many(
                    part,
                    document,
                    sender,
                    key=part_key,
                    wait_for_queue=wait_for_queue,
                    parameters={name: values[at : at + at_once] for name, values in (parameters or {}).items()},
                    more=more,
                )
            except GrassError as error:
                if not ids:
                    raise
                raise type(error)(f"{error}; of {len(written):,} jobs the first {len(ids):,} are stored") from error
            warn(answer.get("warnings", []))
            first, is_existing = int(answer["first"]), bool(answer.get("existing"))
            ids += range(first, first + int(answer["count"]))
        return self._handles(ids, existing=is_existing)
