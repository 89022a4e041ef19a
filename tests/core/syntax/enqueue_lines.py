"""Lines of `grass enqueue`, read against a few queues and programs."""

from __future__ import annotations

import shlex
from typing import Any

from grassq.core.job_options import CommandOptions, JobOptions
from grassq.core.syntax.enqueue import Enqueue, KnownQueue, SubmitContext, split_enqueue

PROGRAMS = frozenset({b"python", b"ls", b"git", b"./train.sh", b"exp1", b"echo"})

MACHINE = frozenset({"cpu", "mem", "disk", "gpu", "license"})
CONTEXT = SubmitContext(
    queues={
        "default": KnownQueue(resources=MACHINE),
        "exp1": KnownQueue(resources=MACHINE),
        "exp2": KnownQueue(resources=MACHINE),
        "job1": KnownQueue(has_prefix=True, resources=MACHINE),
        "cifar100": KnownQueue(has_prefix=True, resources=MACHINE),
        "print": KnownQueue(has_prefix=True, resources=MACHINE | {"printer"}),
    },
    resources=MACHINE,
    shared=MACHINE,
    is_program=PROGRAMS.__contains__,
)


def words_of(line: str) -> list[bytes]:
    return [word.encode() for word in shlex.split(line)]


def cases(text: str) -> list[str]:
    return [case.strip() for case in text.split(";")]


def enqueue(line: str, context: SubmitContext = CONTEXT) -> Enqueue:
    return split_enqueue(words_of(line), context)


def job(line: str, amounts: tuple[tuple[str, str], ...] = (), warnings: tuple[str, ...] = (), **fields: Any) -> Enqueue:
    command = {name: fields.pop(name) for name in CommandOptions.__struct_fields__ if name in fields}
    if amounts:
        fields["request"] = dict(amounts)
    options = JobOptions(**fields)
    return Enqueue(words=tuple(words_of(line)), options=options, command=CommandOptions(**command), warnings=warnings)
