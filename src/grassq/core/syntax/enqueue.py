"""How `enqueue`, `run` and `create-queue` read their words.

For a job, left to right: options, at most one word W, options, then `--` or the job.

1. A `--` preceded only by options and at most one word: W is the queue, every `--NAME=AMOUNT` is a request.
2. Else W is an existing queue: options are ours until the first word we do not know.
3. Else W is a program: all from W on is the job's, and the queue is `default`.
4. Else, with further words and an option of ours that no script gave: the job waits for queue W, with a warning.
5. Else nothing is submitted: a misspelt command never becomes a job.

From another machine rules 3 and 4 do not hold: what is a program there says nothing here, so the queue is named.

`--queue Q` always wins: then no word is taken for the queue, and from the first word on all is the job's.

With `--stdin` among our options there is no job behind them: W is the queue, and the commands are lines on stdin.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from grassq.core import submit_notes
from grassq.core.job_options import COMMAND_OPTIONS, JOB_OPTIONS, CommandOptions, JobOptions, Pairs
from grassq.core.names import DEFAULT_QUEUE, check_name, is_name, plain, shown
from grassq.core.options.parsers import as_text
from grassq.core.printable import exact_span
from grassq.core.resources.slots import Slot, SlotOrder, typed_slots
from grassq.core.syntax import options
from grassq.core.syntax.options import CREATE_QUEUE, ENQUEUE, QUEUE_OPTIONS, GivenOptions, is_option
from grassq.core.syntax.resource_names import COMMON_RESOURCES
from grassq.core.syntax.shell_lines import ASSIGNMENT, quoting_hint
from grassq.errors import BadInput, NotFound


class KnownQueue(msgspec.Struct, frozen=True):
    """What reading a line needs to know of a queue."""

    #: The queue has a command of its own.
    has_prefix: bool = False
    #: The resources of which a line may ask an amount.
    resources: frozenset[str] = frozenset()
    #: The worker on another machine that says so; None if the broker or its own worker does.
    said_by: str | None = None


class SubmitContext(msgspec.Struct, frozen=True):
    """What the words are read against: the queues, the machines' resources, and what is a program to the job."""

    queues: Mapping[str, KnownQueue]
    #: The resources of any machine, and those of every machine.
    resources: frozenset[str]
    shared: frozenset[str]
    is_program: Callable[[bytes], bool]
    #: The words come from another machine: what is a program there says nothing here, so the queue must be named.
    is_remote: bool = False
    #: How many of the first words a script gave its job, which were not typed.
    script_words: int = 0


class Enqueue(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it was typed: which words are the job's, nothing checked against the machine yet."""

    words: tuple[bytes, ...]
    options: JobOptions
    command: CommandOptions = CommandOptions()
    #: Remarks that -q silences.
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class CreateQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue as it was typed, nothing checked against the machine yet."""

    name: str
    prefix: tuple[bytes, ...] = ()
    capacity: str | None = None
    limits: Mapping[str, str] = {}
    slots: tuple[Slot, ...] = ()  # instead of limits
    order: SlotOrder = "stack"
    cwd: bytes | None = None
    env: Pairs = ()
    worker: str | None = None
    at_broker: bool = False
    labels: tuple[str, ...] = ()
    unsecure: bool = False
    allow_env: tuple[bytes, ...] = ()
    wrap: bytes | None = None
    time_limit_s: float | None = None
    max_time_limit_s: float | None = None
    broker: str | None = None
    json: bool = False
    quiet: bool = False


def split_enqueue(words: Sequence[bytes], context: SubmitContext) -> Enqueue:
    """Read what was typed after `grass enqueue` or `grass run`."""
    _refuse_nul(words)
    separator = _separator(words)
    if separator is not None:
        return _split_at(separator, words, context)
    given = GivenOptions(ENQUEUE)

    def is_ours(name: str) -> bool:
        # Before the queue is known any resource may be its own; that is checked once it is.
        forced = given.value("queue")
        return forced is None or _has(context, forced, name)

    at = given.take(words, 0, is_ours)
    queue = given.value("queue")
    if queue is not None or at == len(words):
        return _finish(given, queue or DEFAULT_QUEUE, words[at:], context)
    if is_option(words[at]):
        raise options.unknown(words[at], ENQUEUE, context.resources)
    return _split_by_word(words, at, given, context)


def split_create_queue(words: Sequence[bytes], resources: Collection[str] = ()) -> CreateQueue:
    """Read what was typed after `grass create-queue`; `resources` are the names that are known already."""
    _refuse_nul(words)
    given = GivenOptions(CREATE_QUEUE)
    at = given.take(words, 0)
    if at == len(words) or words[at] == b"--":
        raise BadInput("create-queue needs a name: grass create-queue NAME [--gpu=N ...] [COMMAND...]")
    if is_option(words[at]):
        raise options.unknown(words[at], CREATE_QUEUE)
    name = check_name(as_text(words[at], "the name of a queue"), "queue name")
    at = given.take(words, at + 1)
    command = words[at:]
    if command and is_option(command[0]):
        raise options.unknown(command[0], CREATE_QUEUE)
    _check_limits(given, resources)
    assigned, prefix = _peel(command[1:] if command and command[0] == b"--" else command)
    _check_assigned(assigned, prefix)
    if prefix and (prefix[0].startswith(b"-") or not prefix[0]):
        raise BadInput(f"the command of queue {shown(name)} cannot start with {shown(prefix[0])}")
    limit = next((f"--{name}=..." for name in given.amounts), None)
    if given.has("capacity") and limit:
        raise BadInput(f"give either --capacity or {limit}, not both")
    fields = given.fields(QUEUE_OPTIONS)
    if given.has("worker") and given.has("at-broker"):
        raise BadInput("a queue is made on one worker (--worker) or for all that match (--at-broker), not both")
    if given.has("label") and not given.has("at-broker"):
        raise BadInput("--label says which workers offer a queue of the broker; it goes with --at-broker")
    slots, order = typed_slots(
        fields.pop("slots", None), fields.pop("order", None), "--capacity" if given.has("capacity") else limit
    )
    fields["env"] = fields.get("env", ()) + assigned
    usual_s, most_s = fields.get("time_limit_s"), fields.get("max_time_limit_s")
    if usual_s is not None and most_s is not None and usual_s > most_s:
        raise BadInput(f"--time-limit {exact_span(usual_s)} is longer than --max-time-limit {exact_span(most_s)}")
    return CreateQueue(name=name, prefix=prefix, limits=given.amounts, slots=slots, order=order, **fields)


def _separator(words: Sequence[bytes]) -> int | None:
    """Find the `--` that has only options and at most one word before it."""
    may_be_queue = True
    at = 0
    while at < len(words) and words[at] != b"--":
        if is_option(words[at]):
            # With --queue the first word is the job's already, so a later `--` is the job's too.
            may_be_queue = may_be_queue and words[at].partition(b"=")[0] != b"--queue"
            at += options.width(words[at], ENQUEUE)
        elif may_be_queue:
            may_be_queue = False
            at += 1
        else:
            return None
    return at if at < len(words) else None


def _split_at(separator: int, words: Sequence[bytes], context: SubmitContext) -> Enqueue:
    given = GivenOptions(ENQUEUE)
    at = given.take(words, 0)
    word = None
    if at < separator and not is_option(words[at]):
        word = words[at]
        at = given.take(words, at + 1)
    if at < separator:
        raise options.unknown(words[at], ENQUEUE, context.resources)
    queue = given.value("queue")
    if word is not None:
        named = as_text(word, "the name of a queue")
        _refuse_two_queues(named, queue)
        queue = check_name(named, "queue name")
    return _finish(given, queue or DEFAULT_QUEUE, words[at + 1 :], context, separated=True)


def _split_by_word(words: Sequence[bytes], at: int, given: GivenOptions, context: SubmitContext) -> Enqueue:
    word, job = words[at], words[at:]
    named = word.decode("utf-8", "replace")
    if named in context.queues:
        at = given.take(words, at + 1, lambda name: _has(context, named, name))
        _refuse_two_queues(named, given.value("queue"))
        return _finish(given, named, words[at:], context)
    if context.is_remote:
        raise _no_queue(word, context)
    assigned, command = _peel(job)
    if assigned and not given.has("shell") and not given.has("stdin"):
        # An assignment can name neither a queue nor a program: the job starts here.
        if command and not context.is_program(command[0]):
            raise NotFound(f"no program is called {shown(command[0])}")
        return _finish(given, DEFAULT_QUEUE, job, context)
    if given.has("stdin"):
        _refuse_program(word, context)
    elif (word and context.is_program(word)) or (given.has("shell") and (len(job) == 1 or not is_name(named))):
        return _finish(given, DEFAULT_QUEUE, job, context)
    if given.has("wrap"):
        raise NotFound(
            f"no queue and no program is called {shown(word)}; if the program is only inside of the wrapper, put -- "
            "before the command"
        )
    asked = GivenOptions(ENQUEUE)
    asked.take(words, asked.take(words, context.script_words) + 1, lambda name: _has(context, named, name))
    at = given.take(words, at + 1, lambda name: _has(context, named, name))
    if is_name(named) and (at < len(words) or given.has("stdin")) and _asks(asked, context):
        _refuse_two_queues(named, given.value("queue"))
        return _finish(given, named, words[at:], context)
    raise _not_found(word, context)


def _finish(
    given: GivenOptions, queue: str, job: Sequence[bytes], context: SubmitContext, separated: bool = False
) -> Enqueue:
    view = context.queues.get(queue)
    shell = given.value("shell")
    # Where the queue brings the command, the job's words are its arguments: `lr=0.01` is one like any other.
    is_arguments = view is not None and view.has_prefix
    assigned, words = ((), tuple(job)) if shell is not None or is_arguments else _peel(job)
    _check_amounts(given, queue, context, separated)
    if given.has("stdin"):
        _check_stdin(given, words, queue, view)
    else:
        _check_command(words, queue, view, context, separated)
        if shell is not None:
            _check_line(words, queue, view)
    warnings = _queue_warnings(queue, words, context, separated, is_forced=given.has("queue"))
    notes = [*submit_notes.notes_on_units(given.values)]
    if shell is None and not given.has("stdin"):
        notes += _notes(given, queue, assigned, words, context, separated)
    if view is not None and view.said_by is not None and view.has_prefix and not separated:
        warnings += _taken_warnings(given, queue, view.said_by)
    fields = given.fields(JOB_OPTIONS) | {"queue": queue}
    fields["env"] = fields.get("env", ()) + assigned
    if given.amounts:
        fields["request"] = given.amounts
    command = CommandOptions(**given.fields(COMMAND_OPTIONS))
    return Enqueue(
        words=words, options=JobOptions(**fields), command=command, notes=tuple(notes), warnings=tuple(warnings)
    )


def _has(context: SubmitContext, queue: str, name: str) -> bool:
    """Say whether `--NAME=AMOUNT` is ours for a queue: the queue has the resource, or everybody knows it."""
    view = context.queues.get(queue)
    if name in COMMON_RESOURCES:
        return True
    if view is None:
        return name in context.shared
    # Where the job's own words begin with a program, an option before them can belong to nothing else.
    return name in view.resources or (not view.has_prefix and name in context.resources)


def _resources(context: SubmitContext, queue: str) -> frozenset[str]:
    """Return the resources that a queue or some machine has."""
    view = context.queues.get(queue)
    return context.resources if view is None else context.resources | view.resources


def _asks(given: GivenOptions, context: SubmitContext) -> bool:
    """Say whether an option of ours was given, so the line was surely meant for Grass."""
    return bool(given.values) or any(_has(context, "", name) for name in given.amounts)


def _peel(job: Sequence[bytes]) -> tuple[Pairs, tuple[bytes, ...]]:
    """Take the leading NAME=value words off a command, as a shell does."""
    count = next((at for at, word in enumerate(job) if not ASSIGNMENT.match(word)), len(job))
    pairs = [word.partition(b"=") for word in job[:count]]
    return tuple((name, value) for name, _, value in pairs), tuple(job[count:])


def _refuse_nul(words: Sequence[bytes]) -> None:
    for word in words:
        if b"\0" in word:
            raise BadInput(f"the word {shown(word)} holds a NUL byte, which no program can be given")


def _refuse_two_queues(word: str, forced: str | None) -> None:
    if forced is not None:
        raise BadInput(f"the queue is named twice: {shown(word)} and --queue {shown(forced)}")


def _check_amounts(given: GivenOptions, queue: str, context: SubmitContext, separated: bool) -> None:
    if given.has("require") and given.amounts:
        raise BadInput(f"give either --require or --{next(iter(given.amounts))}=..., not both")
    known = _resources(context, queue)
    for name, amount in given.amounts.items():
        word = f"--{name}={amount}".encode()
        if _has(context, queue, name):
            continue
        if queue in context.queues and not separated:
            raise options.unknown(word, ENQUEUE, known)
        if name not in known and options.meant_by(f"--{name}".encode(), ENQUEUE, known):
            insist = f'for a resource called {name}: --require "{{{name}: {amount}}}"'
            raise BadInput(f"{options.unknown(word, ENQUEUE, known)} ({insist})")


def _check_limits(given: GivenOptions, resources: Collection[str]) -> None:
    for name, amount in given.amounts.items():
        if meant := options.misspelt_resource(name, resources):
            insist = f'for a resource called {name}: --capacity "{{{name}: {amount}}}"'
            raise BadInput(f"there is no resource {name} yet; did you mean --{meant}? ({insist})")


def _check_assigned(assigned: Pairs, prefix: tuple[bytes, ...]) -> None:
    """Refuse `gpu=2` where a limit was probably meant: a resource's name, or no command behind it."""
    for name, value in assigned:
        if not prefix or name.decode("ascii", "replace") in COMMON_RESOURCES:
            word = plain(name + b"=" + value)
            raise BadInput(f"{word} is not an option: a limit is --{word}, a variable is --env {word}")


def _notes(
    given: GivenOptions,
    queue: str,
    assigned: Pairs,
    words: tuple[bytes, ...],
    context: SubmitContext,
    separated: bool,
) -> list[str]:
    if given.has("require") or separated:
        on_options: Iterable[str] = ()
    else:
        known = {name for name in _resources(context, queue) if _has(context, queue, name)}
        on_options = submit_notes.notes_on_options(words, given.amounts, known)
    view = context.queues.get(queue)
    on_operators = submit_notes.notes_on_operators(words, are_arguments=view is not None and view.has_prefix)
    return [*on_options, *on_operators, *submit_notes.notes_on_variables(assigned)]


def _check_command(
    words: tuple[bytes, ...], queue: str, view: KnownQueue | None, context: SubmitContext, separated: bool
) -> None:
    if view is not None and view.has_prefix:
        return
    if not words:
        where = "" if queue == DEFAULT_QUEUE else f"--queue {queue} "
        raise BadInput(f"there is nothing to run: name a command, as in grass enqueue {where}-- COMMAND")
    if view is None and queue != DEFAULT_QUEUE:
        return  # it may be created with a command of its own, to which any word can be an argument
    if is_option(words[0]) and not separated:
        raise options.unknown(words[0], ENQUEUE, context.resources)
    if words[0].startswith(b"-") or not words[0]:
        raise BadInput(f"a command cannot start with {shown(words[0])}; queue {shown(queue)} has none of its own")


def _check_line(words: tuple[bytes, ...], queue: str, view: KnownQueue | None) -> None:
    if view is not None and view.has_prefix:
        raise BadInput(f"queue {shown(queue)} has a command of its own, so it takes words, not a line for a shell")
    if len(words) != 1:
        raise BadInput(f"--shell runs one line, not {len(words)} words; put quotes around the whole line")


def _check_stdin(given: GivenOptions, words: tuple[bytes, ...], queue: str, view: KnownQueue | None) -> None:
    if words:
        raise BadInput(
            f"with --stdin the commands come from stdin, one a line, so {shown(words[0])} has no place here; "
            "for an option of the job's own put -- before the command"
        )
    if given.has("sync"):
        raise BadInput("--sync follows one job; with --stdin there are as many as lines. `grass wait` waits for them")
    if given.has("shell") and view is not None and view.has_prefix:
        raise BadInput(f"queue {shown(queue)} has a command of its own, so it takes words, not lines for a shell")


def _refuse_program(word: bytes, context: SubmitContext) -> None:
    if word and context.is_program(word):
        raise BadInput(
            f"with --stdin the commands come from stdin, one a line, and {shown(word)} is a program and no queue; "
            "for an option of the program's own put it behind the program"
        )


def _queue_warnings(
    queue: str, words: tuple[bytes, ...], context: SubmitContext, separated: bool, *, is_forced: bool
) -> list[str]:
    if queue in context.queues:
        return []
    meant = options.closest(queue, context.queues)
    if meant and not is_forced and not options.differ_in_numbers(queue, meant):
        raise NotFound(
            f"there is no queue {shown(queue)}; did you mean {shown(meant)}? "
            f"To wait until {shown(queue)} is created: --queue {queue}"
        )
    near = f" (there is one called {shown(meant)})" if meant else ""
    warnings = [f"there is no queue {shown(queue)} yet{near}; the job waits until it is created"]
    if not separated and words and is_option(words[0]):
        warnings.append(f"{shown(words[0])} is left to the job; to have Grass read it, put -- before the command")
    return warnings


def _taken_warnings(given: GivenOptions, queue: str, worker: str) -> list[str]:
    """Say which options were not given to the queue's command, because a worker elsewhere has such a resource."""
    taken = [(name, amount) for name, amount in given.amounts.items() if name not in COMMON_RESOURCES]
    return [
        f"--{name}={amount} asks for the resource {name} of worker {worker}; to give it to the command: "
        f"grass enqueue {queue} -- --{name}={amount}"
        for name, amount in taken
    ]


def _no_queue(word: bytes, context: SubmitContext) -> NotFound:
    meant = options.closest(word.decode("utf-8", "replace"), context.queues)
    near = f" (did you mean {shown(meant)}?)" if meant else ""
    return NotFound(
        f"there is no queue {shown(word)}{near}; from another machine a job names its queue first, as in "
        f"grass enqueue --queue {meant or 'QUEUE'} {plain(word)} ..."
    )


def _not_found(word: bytes, context: SubmitContext) -> NotFound:
    named = word.decode("utf-8", "replace")
    if not is_name(named):
        return NotFound(f"no program is called {shown(word)}{quoting_hint(word)}")
    meant = options.closest(named, context.queues)
    near = f" (did you mean the queue {shown(meant)}?)" if meant else ""
    return NotFound(
        f"no queue and no program is called {shown(word)}{near}; "
        f"to wait for a queue of that name: grass enqueue --queue {named} ..."
    )
