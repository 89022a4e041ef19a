"""From what was typed or sent to a job that can be stored: split, filled in and checked, with nothing changed yet."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from grassq.broker.service import Draft
from grassq.core.model import (
    ANYWHERE,
    NEUTRAL_PRIORITY,
    STOP_GRACE_S,
    Constraints,
    Offer,
    Pairs,
    RemoteSubmitter,
    Spec,
)
from grassq.core.names import check_mark, shown
from grassq.core.planner.board import Board
from grassq.core.resources.amounts import Request, parse_request
from grassq.core.resources.capacity import Limits, parse_limits
from grassq.core.resources.slots import limits_of
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.core.syntax.enqueue import Enqueue, KnownQueue, SubmitContext
from grassq.core.syntax.placeholders import placeholders
from grassq.core.syntax.resource_names import VRAM, VRAM_OF
from grassq.errors import BadInput, Refused
from grassq.web.submit.json5_text import parse_object, parse_value
from grassq.web.submit.program_check import PATH_SHOWN, DiskCheck, ProgramCheck

ENVIRONMENT_MAX = 2 << 20
WORDS_MAX = 2 << 20
#: Environments of submitters kept as they are stored: who submits again sends the same one. Larger ones are not kept.
ENVIRONMENTS_KEPT = 8
VARIABLES_KEPT_MAX = 1000


class Submitter(Struct, frozen=True):
    """Who submits: where, with which environment and umask; from another machine, with which right instead."""

    cwd: bytes
    env: Pairs
    umask: int
    #: The token of somebody on another machine; None for the owner on this one.
    by: str | None = None
    #: The only queues that token may use; None for every one.
    queues: tuple[str, ...] | None = None
    #: It may use queues that have no command of their own.
    bare: bool = False

    @property
    def is_remote(self) -> bool:
        """Whether the job comes from another machine: environment, directory and umask are then the worker's."""
        return self.by is not None


class Environment(Struct, frozen=True):
    """A submitter's environment, and how it is stored."""

    values: Mapping[bytes, bytes]
    encoded: bytes
    digest: bytes


class QueueSnapshot(Struct, frozen=True):
    """What the board knows that reading a submission needs."""

    #: By queue; of one that several workers have, what they have together.
    offers: dict[str, Offer]
    resources: frozenset[str]
    #: The worker of this machine, and the queues that nobody else has: their jobs are checked here, beforehand.
    local: str | None = None
    local_queues: frozenset[str] = frozenset()

    def has_slots(self, queue: str) -> bool:
        """Whether the jobs of a queue take slots, wherever they run."""
        offer = self.offers.get(queue)
        return offer is not None and bool(offer.slots)

    def runs_here(self, queue: str, worker: str | None) -> bool:
        """Whether this machine will run a job, whatever happens."""
        return queue in self.local_queues if worker is None else worker == self.local and queue in self.offers


def snapshot_of(board: Board) -> QueueSnapshot:
    """What the board knows now."""
    offers: dict[str, Offer] = {}
    elsewhere: set[str] = set()
    for name in sorted(board.worker_states, key=lambda name: (name != board.local, name)):
        for offer in board.worker_states[name].info.offers:
            offers[offer.queue] = _together(offers[offer.queue], offer) if offer.queue in offers else offer
            if name != board.local:
                elsewhere.add(offer.queue)
    return QueueSnapshot(offers, frozenset(board.resource_names()), board.local, frozenset(offers.keys() - elsewhere))


def _together(one: Offer, other: Offer) -> Offer:
    """A queue that several workers have, as far as reading a line goes."""
    # Where one has no slots, what a job asks for counts.
    slots = one.slots if other.slots else ()
    return replace(one, prefix=one.prefix or other.prefix, limits={**other.limits, **one.limits}, slots=slots)


def read_enqueue(
    words: Sequence[bytes],
    who: Submitter,
    known: QueueSnapshot,
    default: Request,
    program_check: ProgramCheck | None = None,
) -> tuple[Enqueue, Draft]:
    """Split the words of an `enqueue`, read its amounts and check it; with --stdin the draft has no command yet."""
    program_check = program_check or DiskCheck()
    env = environment_of(who.env).values
    typed = split(words, known, lambda word: program_check.is_program(word, env, who.cwd), is_remote=who.is_remote)
    if typed.broker is not None:
        # The command line follows it only there, and takes it away: whoever reads on must not guess whose it is.
        raise BadInput("--broker comes first, before the queue: grass enqueue --broker ADDRESS QUEUE ...")
    return typed, draft(typed, request_of(typed, default), who, known, program_check)


def split(
    words: Sequence[bytes], known: QueueSnapshot, is_program: Callable[[bytes], bool], *, is_remote: bool = False
) -> Enqueue:
    """Split the words of an `enqueue`, given what is known of queues and what counts as a program."""
    views = {name: KnownQueue(bool(o.prefix), frozenset(o.limits)) for name, o in known.offers.items()}
    return enqueue_syntax.split_enqueue(words, SubmitContext(views, known.resources, is_program, is_remote))


def request_of(typed: Enqueue, default: Request) -> Request:
    """What a line asks for."""
    amounts: dict[str, object] = dict(typed.amounts)
    if len(amounts) != len(typed.amounts):
        raise BadInput("a resource is asked for twice")
    if typed.require is not None:
        amounts = parse_object(typed.require, "--require")
    return parse_request(amounts) if amounts else default


def read_offer(typed: enqueue_syntax.CreateQueue, who: Submitter, local: str | None = None) -> Offer:
    """A queue as typed: with a command of its own it runs where it was made, unless told otherwise.

    Made for another machine than the one it was typed on, it runs in that worker's directory, or where --cwd says.
    """
    limits = limits_of(typed.slots) if typed.slots else read_limits(typed)
    cwd = typed.cwd
    if who.is_remote or typed.worker not in (None, local):
        _check_absolute(cwd)
    else:
        cwd = who.cwd if cwd is None and typed.prefix else cwd
        if cwd is not None:
            cwd = os.path.join(who.cwd, cwd)
            DiskCheck().check_directory(cwd)
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
    )


def read_limits(typed: enqueue_syntax.CreateQueue) -> Limits:
    """The limits of a queue, from --capacity or from --NAME=AMOUNT flags."""
    if typed.capacity is not None:
        return parse_limits(parse_object(typed.capacity, "--capacity"))
    values: dict[str, object] = {}
    for name, text in typed.limits:
        if name in values:
            raise BadInput(f"--{name} is given twice")
        values[name] = _limit_value(name, text)
    return parse_limits(values)


def _limit_value(name: str, text: str) -> object:
    if text.startswith(("[", "{")):
        return parse_value(text, f"--{name}")
    if "," in text:
        return [part.strip() for part in text.split(",")]
    return text


def draft(
    asked: Enqueue, request: Request, who: Submitter, known: QueueSnapshot, program_check: ProgramCheck | None = None
) -> Draft:
    """A job ready to be stored; refuses what its sender may not do, and what cannot run if this machine will run it.

    Whether a worker takes what comes from another machine is for the planner to say, at once and at every start.
    """
    program_check = program_check or DiskCheck()
    _check_right(asked, who)
    _check_values(asked, request, known)
    env, cwd = default_env(asked, who, known)
    shell = _shell(asked.shell, env)
    offer = known.offers.get(asked.queue)
    if who.is_remote:
        _check_absolute(asked.cwd)
    elif offer is not None and known.runs_here(asked.queue, asked.worker):
        program_check.check_directory(cwd)
        _check_program((*offer.prefix, *((shell,) if shell else asked.words)), env, cwd, program_check)
    elif offer is None and asked.cwd is not None and asked.worker in (None, known.local):
        program_check.check_directory(cwd)
    environment = environment_of(who.env)
    if len(environment.encoded) > ENVIRONMENT_MAX:
        raise BadInput(f"the environment is larger than {ENVIRONMENT_MAX:,} bytes")
    spec = Spec(
        command=asked.words,
        queue=asked.queue,
        request=request,
        cwd=_directory(asked, who),
        env_digest=environment.digest,
        umask=who.umask & 0o777,
        shell=shell,
        env=asked.env,
        own_cwd=asked.cwd is not None,
        split=asked.split,
        keep_children=asked.keep_children,
        grace_s=STOP_GRACE_S if asked.grace_s is None else asked.grace_s,
        on_lost=asked.on_lost or "fail",
        tries=asked.tries or 1,
        constraints=_constraints(asked, who),
        by=who.by,
    )
    priority = NEUTRAL_PRIORITY if asked.priority is None else asked.priority
    return Draft(spec, environment.encoded, asked.name, priority, asked.hold)


def default_env(asked: Enqueue, who: Submitter, known: QueueSnapshot) -> tuple[Mapping[bytes, bytes], bytes]:
    """The environment and the directory a job would have on this machine."""
    offer = known.offers.get(asked.queue)
    cwd = _directory(asked, who)
    if offer is not None and offer.cwd is not None and asked.cwd is None:
        cwd = offer.cwd
    env = environment_of(who.env).values
    if asked.env or (offer is not None and offer.env):
        env = {**env, **dict(offer.env if offer else ()), **dict(asked.env)}
    return env, cwd


def environment_of(pairs: Pairs) -> Environment:
    """An environment as it is stored."""
    return _kept_environment(pairs) if len(pairs) <= VARIABLES_KEPT_MAX else _environment(pairs)


def _environment(pairs: Pairs) -> Environment:
    encoded = msgspec.msgpack.encode(pairs)
    return Environment(dict(pairs), encoded, hashlib.sha256(encoded).digest())


_kept_environment = lru_cache(maxsize=ENVIRONMENTS_KEPT)(_environment)


def _constraints(asked: Enqueue, who: Submitter) -> Constraints:
    """What the job demands of its worker, and, of one from another machine, what its sender chose."""
    worker = None if asked.worker is None else check_mark(asked.worker, "worker name")
    labels = tuple(sorted({check_mark(label, "label") for label in asked.labels}))
    names = tuple(sorted({name for name, _ in asked.env}))
    remote = RemoteSubmitter(who.bare, names, asked.cwd is not None, asked.shell is not None) if who.is_remote else None
    constraints = Constraints(worker, labels, remote)
    return ANYWHERE if constraints == ANYWHERE else constraints


def _check_right(asked: Enqueue, who: Submitter) -> None:
    if who.queues is not None and asked.queue not in who.queues:
        allowed = ", ".join(who.queues) or "none"
        raise Refused(f"your token does not reach queue {shown(asked.queue)}; those it reaches: {allowed}")


def _check_absolute(cwd: bytes | None) -> None:
    if cwd is not None and not cwd.startswith(b"/"):
        raise BadInput(f"--cwd {shown(cwd, PATH_SHOWN)} on another machine must be a whole path, from / on")


def _check_values(asked: Enqueue, request: Request, known: QueueSnapshot) -> None:
    if any(b"\0" in part for pair in asked.env for part in pair) or any(b"\0" in word for word in asked.words):
        raise BadInput("a word or variable holds a NUL byte, which no program can be given")
    if sum(map(len, asked.words)) > WORDS_MAX:
        raise BadInput(f"the command is longer than {WORDS_MAX:,} bytes")
    if known.has_slots(asked.queue) and (asked.amounts or asked.require is not None):
        raise BadInput(f"queue {shown(asked.queue)} has slots: a job there takes one of them, and asks for no amounts")
    check_placeholders((*asked.words, *(value for _, value in asked.env)), request, known, asked.queue)


def check_placeholders(texts: Sequence[bytes], request: Request, known: QueueSnapshot, queue: str) -> None:
    """Refuse `{gpu}` in what is to run when no gpu is asked for; who takes a slot holds what that has."""
    if not any(b"{" in text for text in texts) or known.has_slots(queue):
        return
    held = {name for name, _ in request} | ({VRAM_OF} if VRAM in dict(request) else set())
    used = {name.decode() for text in texts for name in placeholders(text)}
    missing = sorted((used & known.resources) - held)
    if missing:
        name = missing[0]
        raise BadInput(
            f"{{{name}}} is used but no {name} is asked for; add --{name}=1, or write {{{{{name}}}}} for the text"
        )


def _directory(asked: Enqueue, who: Submitter) -> bytes:
    if asked.cwd is None:
        return who.cwd
    if b"\0" in asked.cwd:
        raise BadInput("--cwd holds a NUL byte")
    return os.path.join(who.cwd, asked.cwd)


def _shell(shell: bytes | None, env: Mapping[bytes, bytes]) -> bytes | None:
    return shell if shell is None or shell else env.get(b"SHELL") or b"/bin/sh"


def _check_program(
    words: tuple[bytes, ...], env: Mapping[bytes, bytes], cwd: bytes, program_check: ProgramCheck
) -> None:
    # Without a word there is no command yet: lines follow, each of which is looked at.
    if words and not placeholders(words[0]) and not program_check.is_program(words[0], env, cwd):
        where = shown(cwd, PATH_SHOWN)
        raise BadInput(f"there is no program {shown(words[0], PATH_SHOWN)} on the job's PATH or in {where}")
