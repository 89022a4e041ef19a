"""The jobs of one submission: a single job, the lines of --stdin, an array, a list or a sweep."""

from __future__ import annotations

from grassq.broker.engine import BRIEF_MAX
from grassq.broker.service import Draft
from grassq.broker.sweeps.objects import NewSweep
from grassq.core.sweeps.arrays import TaskArray, read_array
from grassq.core.sweeps.sweep import DEFINITION_CHARS_MAX, SweepKind
from grassq.core.syntax.enqueue import Enqueue
from grassq.errors import BadInput
from grassq.web import requests
from grassq.web.submit.many import bulk, expand
from grassq.web.submit.many.sources import ManyBody
from grassq.web.submit.validate import DraftBuilder


def most_jobs(body: requests.EnqueueBody) -> int:
    """Return how many jobs a request may have; of an array, which is read later, more than a brief request has."""
    if body.points:
        return max(map(len, body.points.values()))
    if any(isinstance(word, str) and word.startswith("--array") for word in body.words):
        return BRIEF_MAX + 1
    return 1 if body.lines is None else 1 + requests.word_bytes(body.lines).count(b"\n")


def read_typed(body: requests.EnqueueBody, words: list[bytes], builder: DraftBuilder) -> tuple[Enqueue, list[Draft]]:
    """Return what was typed after `enqueue`, and its jobs; none if the lines or points are still to be sent."""
    typed = builder.read_words(words, body.sent, body.script_words, body.at)
    command = typed.command
    if command.array is not None or command.each is not None:
        return typed, _many(body, typed, builder)
    if body.points is not None:
        raise BadInput("points are for --each")
    if not command.stdin and body.lines is None:
        if command.at_once is not None or command.max_fails is not None:
            raise BadInput("--at-once and --max-fails are of many jobs: they go with --array, --each and `grass sweep`")
        return typed, [builder.draft(typed.words, typed.options, builder.request_of(typed.options))]
    if not command.stdin or body.verb == "run":
        raise BadInput("--stdin puts many commands into a queue, and `grass run` follows one: use grass enqueue")
    if body.lines is None:
        builder.draft(typed.words, typed.options, builder.request_of(typed.options))
        return typed, []
    lines = requests.word_bytes(body.lines)
    make = lambda template: bulk.of_lines(lines, template)  # noqa: E731
    return typed, expand.of_sweep(make, typed.options, builder, body.parameters)


def _many(body: requests.EnqueueBody, typed: Enqueue, builder: DraftBuilder) -> list[Draft]:
    command, one = typed.command, "--array" if typed.command.array is not None else "--each"
    if body.verb != "enqueue":
        raise BadInput(f"{one} makes many jobs: use grass enqueue")
    if command.stdin or (command.array is not None and command.each is not None):
        raise BadInput("--stdin, --array and --each each say where many jobs come from; give one of them")
    if command.sync:
        raise BadInput(f"--sync follows one job, and {one} makes many; `grass wait` waits for them")
    if command.array is not None:
        return expand.of_array(typed.words, typed.options, builder, read_array(command.array))
    if body.points is None:
        return []
    return expand.of_points(typed.words, typed.options, builder, body.points, body.points_file)


def new_sweep(body: requests.EnqueueBody, typed: Enqueue) -> NewSweep | None:
    """Return the sweep that was typed; None for a job that is alone, and for lines of --stdin."""
    command, name = typed.command, typed.options.name
    if command.array is not None:
        array = read_array(command.array)
        most = command.at_once if command.at_once is not None else array.at_once
        definition = f"--array {command.array}"[:DEFINITION_CHARS_MAX]
        return NewSweep(kind="array", name=name, definition=definition, at_once=most, max_fails=command.max_fails)
    limits = {"at_once": command.at_once, "max_fails": command.max_fails}
    if command.each is not None:
        return NewSweep(kind="each", name=name, definition=f"--each {command.each}"[:DEFINITION_CHARS_MAX], **limits)
    if body.verb != "sweep":
        if command.stdin and limits != {"at_once": None, "max_fails": None}:
            return NewSweep(kind="each", name=name, definition="--stdin", **limits)
        return None
    if body.sweep.apply and name is None:
        raise BadInput("a sweep that is applied has a name")
    kind: SweepKind = "file" if body.sweep.apply else "sweep"
    return NewSweep(kind=kind, name=name, definition=body.sweep.definition, **limits)


def of_program(body: ManyBody, array: TaskArray | None, builder: DraftBuilder) -> list[Draft]:
    """Return the jobs that a program made: one for each command, or one for each index or row."""
    options = builder.in_project(body.job.options())
    if array is None and not body.each:
        make = lambda template: bulk.of_commands(body.commands, template)  # noqa: E731
        return expand.of_sweep(make, options, builder, body.parameters)
    if len(body.commands) != 1 or body.parameters or (array is not None and body.each):
        raise BadInput("`array` or `each` goes with one command, and without `parameters`")
    command = body.commands[0]
    if isinstance(command, list):
        words = tuple(requests.word_bytes(word) for word in command)
    else:
        words, options = (requests.word_bytes(command),), bulk.for_shell(options)
    if array is not None:
        return expand.of_array(words, options, builder, array)
    return expand.of_points(words, options, builder, body.each, "each")


def sweep_of_program(body: ManyBody, array: TaskArray | None) -> NewSweep | None:
    """Return the sweep that a program asks for; None if its jobs are none."""
    given = body.sweep
    if given is None and array is None and not body.each:
        return None
    given = given or requests.SweepBody()
    if given.apply or given.prune or given.dry_run:
        raise BadInput("`apply`, `prune` and `dry_run` are for POST /v1/enqueue")
    at_once = given.at_once if given.at_once is not None or array is None else array.at_once
    kind: SweepKind = "array" if array is not None else "each" if body.each else "sweep"
    name, definition = body.job.name, given.definition
    return NewSweep(kind=kind, name=name, definition=definition, at_once=at_once, max_fails=given.max_fails)
