"""From what was typed or sent to a job that can be stored: split, completed and checked. Nothing is changed yet."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import UNSET, Struct, field
from msgspec.structs import replace

from grassq.broker.service import Draft
from grassq.core.job_options import SPEC_FIELDS, JobOptions, uses_files
from grassq.core.model import ANYWHERE, Constraints, Offer, RemoteSubmitter, Spec
from grassq.core.names import check_mark, check_name, shown
from grassq.core.planner.limits.membership import groups_of
from grassq.core.planner.workers import WorkerRoles
from grassq.core.printable import exact_span
from grassq.core.resources.amounts import Request, parse_request
from grassq.core.resources.capacity import Limits, parse_limits
from grassq.core.resources.slots import limits_of
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.core.syntax.enqueue import Enqueue
from grassq.core.syntax.placeholders import placeholders
from grassq.core.syntax.resource_names import VRAM, VRAM_OF
from grassq.core.syntax.shell_lines import quoting_hint, wrapper_words
from grassq.errors import BadInput, Refused
from grassq.web.requests import Submitter
from grassq.web.submit import file_options, outputs
from grassq.web.submit.json5_text import parse_object, parse_value
from grassq.web.submit.notify_targets import check_targets
from grassq.web.submit.program_check import PATH_SHOWN, ProgramCheck
from grassq.web.submit.queue_snapshot import QueueSnapshot
from grassq.web.submit.waiting_options import after_of, as_meant, check_times, start_time

ENVIRONMENT_MAX = 2 << 20
PROJECT_VARIABLE = b"GRASS_PROJECT"
#: Linux gives a program no word, and no NAME=value, that is longer than this (MAX_ARG_STRLEN).
WORD_BYTES_MAX = (128 << 10) - 1
#: Linux gives a program no more than this of words and variables together, however large its stack may get.
EXEC_BYTES_MAX = 6 << 20
#: The bytes of the pointer and the end of each word and variable, and of the variables that Grass adds.
POINTER_BYTES, OWN_BYTES = 9, 8 << 10


def read_offer(typed: enqueue_syntax.CreateQueue, submitter: Submitter, roles: WorkerRoles) -> Offer:
    """Return a queue as typed. A queue with a command runs in the directory it was made in, unless --cwd names another.

    A queue made for another machine runs in the worker's directory, or in the --cwd.
    """
    limits = limits_of(typed.slots) if typed.slots else read_limits(typed)
    cwd = typed.cwd
    if submitter.is_remote or typed.at_broker or not roles.is_here(typed.worker):
        _check_absolute(cwd)
    else:
        cwd = submitter.cwd if cwd is None and typed.prefix else cwd
        if cwd is not None:
            cwd = os.path.join(submitter.cwd, cwd)
            ProgramCheck().check_directory(cwd)
    return Offer(
        typed.name,
        limits,
        typed.prefix,
        cwd,
        typed.env,
        typed.unsecure,
        typed.allow_env,
        slots=typed.slots,
        order=typed.order,
        wrap=typed.wrap,
        time_limit_s=typed.time_limit_s,
        max_time_limit_s=typed.max_time_limit_s,
    )


def read_limits(typed: enqueue_syntax.CreateQueue) -> Limits:
    """Return the limits of a queue, from --capacity or from --NAME=AMOUNT flags."""
    if typed.capacity is not None:
        return parse_limits(parse_object(typed.capacity, "--capacity"))
    return parse_limits({name: _limit_value(name, text) for name, text in typed.limits.items()})


def _limit_value(name: str, text: str) -> object:
    if text.startswith(("[", "{")):
        return parse_value(text, f"--{name}")
    if "," in text:
        return [part.strip() for part in text.split(",")]
    return text


class DraftBuilder(Struct, frozen=True):
    """Makes jobs that can be stored from what one submitter typed or sent."""

    submitter: Submitter
    known: QueueSnapshot
    #: The amounts of a job that asks for none.
    default: Request
    program_check: ProgramCheck = field(default_factory=ProgramCheck)
    #: The hosts that jobs of tokens may send notices to.
    notify_hosts: frozenset[str] = frozenset()
    #: The project of a job that names none, unless the submitter's environment does.
    project: str = ""

    def read_enqueue(self, words: Sequence[bytes], sent: Sequence[str] | None = None) -> tuple[Enqueue, Draft]:
        """Return what was typed after `enqueue`, and the job; with --stdin the job has no command yet."""
        typed = self.read_words(words, sent)
        return typed, self.draft(typed.words, typed.options, self.request_of(typed.options))

    def read_words(
        self,
        words: Sequence[bytes],
        sent: Sequence[str] | None = None,
        script_words: int = 0,
        at: str | None = None,
    ) -> Enqueue:
        """Return what was typed after `enqueue`; the first words may be those of a script.

        `sent` are the manifests of the folders to send; without them the job has none yet. `at` is what --at means.
        """
        env, cwd = self.submitter.env.values, self.submitter.cwd
        is_remote = self.submitter.is_remote
        is_program = partial(self.program_check.is_program, env=env, cwd=cwd)
        typed = self.known.split(words, is_program, is_remote=is_remote, script_words=script_words)
        if typed.command.broker is not None:
            # The command line takes --broker away only there; elsewhere the word may belong to the job's program.
            raise BadInput("--broker comes first, before the queue: grass enqueue --broker ADDRESS QUEUE ...")
        options = as_meant(self.in_project(file_options.with_manifests(typed.options, sent)), at)
        return replace(typed, options=options)

    def in_project(self, options: JobOptions) -> JobOptions:
        """Return the options of a new job with its project: its own, else the submitter's, else the setting."""
        stated = self.submitter.env.values.get(PROJECT_VARIABLE, b"").decode("utf-8", "replace") or self.project
        if options.project is not None or not stated:
            return options
        return replace(
            options, project=check_name(stated, "project name (of GRASS_PROJECT, grass.toml or the setting)")
        )

    def request_of(self, options: JobOptions) -> Request:
        """Return the amounts a job asks for."""
        if isinstance(options.request, str):
            amounts = parse_object(options.request, "--require")
            return parse_request(amounts) if amounts else self.default
        return self.default if options.request is None else parse_request(options.request)

    def draft(self, words: tuple[bytes, ...], options: JobOptions, request: Request) -> Draft:
        """Return a job ready to be stored; refuse what its submitter may not do, and what cannot run on this machine.

        The planner decides whether a worker takes a job from another machine, at submission and at every start.
        """
        submitter, known = self.submitter, self.known
        _check_right(options, submitter)
        if options.name is not None and "{" in options.name:
            check_name(options.name, "job name")  # what stands for a value was filled in where there are values
        options = file_options.completed(options, submitter, self.program_check)
        options = outputs.completed(options, submitter)
        self._check_values(words, options, request)
        _check_warning(options, known.offers.get(options.queue))
        env, cwd = self.default_env(options)
        if options.notify:
            check_targets(options.notify, submitter, self.notify_hosts, self.program_check)
        shell = options.shell if options.shell != b"" else env.get(b"SHELL") or b"/bin/sh"
        offer = known.offers.get(options.queue)
        if submitter.is_remote:
            _check_absolute(options.cwd)
        elif offer is not None and known.runs_here(options.queue, options.worker):
            self.program_check.check_directory(cwd)
            if not file_options.brings_programs(options):
                self._check_program(_started(offer, options, (shell,) if shell else words), env, cwd)
        elif offer is None and options.cwd is not None and known.roles.is_here(options.worker):
            self.program_check.check_directory(cwd)
        if len(submitter.env.encoded) > ENVIRONMENT_MAX:
            raise BadInput(f"the environment is larger than {ENVIRONMENT_MAX:,} bytes")
        spec = Spec(
            command=words,
            queue=options.queue,
            request=request,
            cwd=file_options.stored_cwd(options, submitter.cwd),
            env_digest=submitter.env.digest,
            umask=submitter.umask,
            shell=shell,
            env=options.env,
            own_cwd=options.cwd is not None,
            constraints=_constraints(options, submitter, needs_command=not words),
            by=submitter.caller.by,
            **{name: getattr(options, name) for name in SPEC_FIELDS},
        )
        return Draft(
            spec,
            submitter.env.encoded,
            options.name,
            options.priority,
            options.hold,
            after=after_of(options),
            at=start_time(options, time.time(), is_remote=submitter.is_remote),
            in_s=options.in_s,
        )

    def default_env(self, options: JobOptions) -> tuple[Mapping[bytes, bytes], bytes]:
        """Return the environment and the directory a job would have on this machine."""
        offer = self.known.offers.get(options.queue)
        cwd = file_options.directory(options, self.submitter.cwd)
        if offer is not None and offer.cwd is not None and options.cwd is None and not options.send:
            cwd = offer.cwd
        env = self.submitter.env.values
        if options.env or (offer is not None and offer.env):
            env = {**env, **dict(offer.env if offer else ()), **dict(options.env)}
        return env, cwd

    def _check_values(self, words: tuple[bytes, ...], options: JobOptions, request: Request) -> None:
        if any(b"\0" in part for pair in options.env for part in pair) or any(b"\0" in word for word in words):
            raise BadInput("a word or variable holds a NUL byte, which no program can be given")
        self.check_size(words, options)
        check_times(options)
        if self.known.takes_slots(options.queue) and options.request:
            raise BadInput(
                f"queue {shown(options.queue)} has slots: a job there takes one of them, and asks for no amounts"
            )
        wrap = () if options.wrap is None else (options.wrap,)
        self.check_placeholders((*words, *(value for _, value in options.env), *wrap), request, options.queue)

    def check_size(self, words: tuple[bytes, ...], options: JobOptions) -> None:
        """Refuse words and variables that are too long to be given to a program: the job would fail at its start."""
        given = self.submitter.env
        variables = [*options.env, *(given.values.items() if len(given.encoded) > WORD_BYTES_MAX else ())]
        longest = max([*map(len, words), *(len(name) + 1 + len(value) for name, value in variables)], default=0)
        if longest > WORD_BYTES_MAX:
            raise BadInput(
                f"a word or variable of the job has {longest:,} bytes, and no program can be given one of more than "
                f"{WORD_BYTES_MAX:,} bytes; put it into a file"
            )
        size = sum(map(len, words)) + len(given.encoded) + sum(map(len, itertools.chain.from_iterable(options.env)))
        size += POINTER_BYTES * (len(words) + len(given.values) + len(options.env)) + OWN_BYTES
        if size > (most := _exec_bytes()):
            raise BadInput(
                f"all words and variables together have {size:,} bytes, and no program can be given more than "
                f"{most:,}; put the words into a file"
            )

    def check_placeholders(self, texts: Sequence[bytes], request: Request, queue: str) -> None:
        """Refuse `{gpu}` in a command that requests no gpu; a job in a queue with slots gets what its slot has."""
        if not any(b"{" in text for text in texts):
            return
        held = {name for name, _ in request} | ({VRAM_OF} if VRAM in dict(request) else set())
        used = {name.decode() for text in texts for name in placeholders(text)}
        missing = sorted((used & self.known.may_name(queue)) - held)
        if missing:
            name = missing[0]
            raise BadInput(
                f"{{{name}}} is used but no {name} is asked for; add --{name}=1, or write {{{{{name}}}}} for the text"
            )

    def _check_program(self, words: tuple[bytes, ...], env: Mapping[bytes, bytes], cwd: bytes) -> None:
        # No words means --stdin: the lines follow, and each is checked.
        if words and not placeholders(words[0]) and not self.program_check.is_program(words[0], env, cwd):
            where = shown(cwd, PATH_SHOWN)
            hint = quoting_hint(words[0])
            raise BadInput(f"there is no program {shown(words[0], PATH_SHOWN)} on the job's PATH or in {where}{hint}")


def _check_warning(options: JobOptions, offer: Offer | None) -> None:
    """Refuse a warning without a time limit that is longer, of the job or of its queue."""
    if options.warn is None:
        return
    limit_s = options.time_limit_s
    if limit_s is None and offer is not None:
        limit_s = offer.usual_limit_s
    if limit_s is None:
        raise BadInput("--warn needs a time limit that it comes before: add --time-limit, such as --time-limit 2h")
    if options.warn.before_s >= limit_s:
        before, limit = exact_span(options.warn.before_s), exact_span(limit_s)
        raise BadInput(f"--warn {before} must be shorter than the time limit of {limit}")


def _exec_bytes() -> int:
    """Return how many bytes of words and variables a program can be given on this machine: a quarter of its stack."""
    stated = os.sysconf("SC_ARG_MAX")
    return min(stated, EXEC_BYTES_MAX) if stated > 0 else EXEC_BYTES_MAX


def _started(offer: Offer, options: JobOptions, words: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """Return the words that this machine starts; with a wrapper, the command may be a program only inside of it."""
    outer = offer.wrap or options.wrap
    return (*offer.prefix, *words) if outer is None else wrapper_words(outer)


def _constraints(options: JobOptions, submitter: Submitter, *, needs_command: bool) -> Constraints:
    """Return what the job demands of its worker, and for a remote submitter what the submitter chose."""
    worker = None if options.worker is None else check_mark(options.worker, "worker name")
    labels = tuple(sorted({check_mark(label, "label") for label in options.labels}))
    names = tuple(sorted({name for name, _ in options.env}))
    remote = None
    if submitter.is_remote:
        own_cwd, shell = options.cwd is not None, options.shell is not None
        remote = RemoteSubmitter(submitter.caller.bare, names, own_cwd, shell)
        remote = remote if options.output is None else replace(remote, output=True)
    constraints = Constraints(
        worker,
        labels,
        remote,
        needs_command,
        files=True if uses_files(options) else UNSET,
        wraps=UNSET if options.wrap is None else True,
        limit_s=UNSET if options.time_limit_s is None else options.time_limit_s,
        lasts_s=UNSET if options.time_limit_s is None else options.time_limit_s + options.grace_s,
        idle_limit=UNSET if options.idle_limit_s is None else True,
        groups=groups_of(options),
    )
    return ANYWHERE if constraints == ANYWHERE else constraints


def _check_right(options: JobOptions, submitter: Submitter) -> None:
    queues, limits = submitter.caller.queues, submitter.caller.limits
    if queues is not None and options.queue not in queues:
        allowed = ", ".join(queues) or "none"
        raise Refused(f"your token may not use queue {shown(options.queue)}; it may use: {allowed}")
    if limits is not None:
        limits.check_priority(options.priority)


def _check_absolute(cwd: bytes | None) -> None:
    if cwd is not None and not cwd.startswith(b"/"):
        raise BadInput(f"--cwd {shown(cwd, PATH_SHOWN)} on another machine must be an absolute path")
