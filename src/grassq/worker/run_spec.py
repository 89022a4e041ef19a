"""The run spec of an attempt: its command with placeholders filled in, and its environment."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from grassq.core.job_options import SPEC_FIELDS, Pairs
from grassq.core.messages import Start
from grassq.core.resources.amounts import Allocation, amount_text
from grassq.core.syntax.file_words import is_made_early, output_path
from grassq.core.syntax.placeholders import fill
from grassq.core.syntax.resource_names import SLOTS_OF, VRAM, VRAM_OF
from grassq.core.syntax.shell_lines import as_program, wrapper_words
from grassq.core.syntax.slots import device_order
from grassq.run import rundir
from grassq.worker import job_files
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.devices.detectors import DeviceVariables

LEAVE_GRACE_S = 2.0
#: A job inherits only these of our own variables: they name the broker, not a job.
_KEPT = frozenset({b"GRASS_HOME", b"GRASS_BROKER"})
_VRAM_OF = VRAM_OF.encode()
_SLOTS_OF = SLOTS_OF.encode()
#: Environments that are kept encoded; that of a shell has some 4 KB.
BASES_MAX = 32


class Launch(Struct, frozen=True):
    """One attempt, ready to be ordered."""

    #: The values of a `rundir.RunSpec`.
    spec: tuple[Any, ...]
    #: The content of spec.json, with the same values.
    content: bytes
    cwd: bytes


class _Base(Struct, frozen=True):
    """The environment that a job begins with, and its encoding: the same for all jobs of one sender."""

    env: dict[bytes, bytes]
    #: The pairs as JSON, without the brackets.
    written: bytes


_encode = msgspec.json.Encoder().encode
_values = operator.itemgetter(*rundir.RunSpec.FIELDS)
#: The job options that the shim acts on.
_OPTIONS = tuple(name for name in rundir.RunSpec.FIELDS if name in SPEC_FIELDS)


def run_spec(
    start: Start,
    path: str,
    checkpoint: str,
    *,
    store: str,
    boot: str,
    with_daemon: bool,
    default_env: DefaultEnvironment,
    variables: DeviceVariables,
    shares_disk: bool = True,
    log_max: int = 0,
) -> Launch:
    """Return the run spec of an order.

    `default_env` is for a job sent from another machine, and for a machine that does not share the submitter's disk;
    `variables` tell a job which devices it holds. The paths are those of the machine. `log_max` is the limit of the
    logs of a job that has none of its own, in bytes.
    """
    spec, where = start.spec, start.placement
    held = placeholders(where.allocation)
    values = {
        **held,
        b"job.id": b"%d" % start.job,
        b"job.attempt": b"%d" % start.attempt,
        b"job.name": (start.name or "").encode(),
    }
    base = _base(job_files.first_env(start, default_env, shares_disk=shares_disk), variables.hidden)
    own = environment(start, path, checkpoint, held, values, variables)
    words = [fill(word, values) for word in (*where.prefix, *spec.command)]
    command = [spec.shell, b"-c", *words] if spec.shell else words
    wrapped = _behind(where.wrap, _behind(spec.wrap, command, values), values)
    argv, more = job_files.wrapped_command(wrapped, spec, path, own, variables.hidden)
    own |= more
    fields: dict[str, Any] = {
        "store": store,
        "job": start.job,
        "attempt": start.attempt,
        "boot": boot,
        "argv": argv,
        "env": base.env | own,
        "cwd": job_files.directory(start, path, default_env, shares_disk=shares_disk),
        "umask": spec.umask if job_files.is_at_home(start, shares_disk) else default_env.umask,
        "leave_grace_s": LEAVE_GRACE_S,
        "with_daemon": with_daemon,
        "lease": where.lease_s is not None,
        **{name: getattr(spec, name) for name in _OPTIONS},
        **_time_limits(start),
    }
    if spec.log_max is None:
        fields["log_max"] = log_max
    has_output = spec.output is not None and shares_disk
    fields["output"] = output_path(spec.output or b"", start.job, start.attempt, start.name) if has_output else b""
    fields["output_made"] = has_output and is_made_early(spec.output or b"")
    if has_output:
        fields["log_max"] = 0  # the file is the user's: nothing is cut out of it
    submitted = _submitted(start) | {"wrapper": len(argv) - len(command)}
    return Launch(_values(fields), _content(fields | {"submitted": submitted}, own, base), fields["cwd"])


def _time_limits(start: Start) -> dict[str, float]:
    """Return the limits that the shim keeps; 0 for none. A broker of an earlier release names none in a placement."""
    limit_s, warn = start.placement.time_limit_s, start.spec.warn
    return {
        "time_limit_s": limit_s or 0.0,
        "warn_s": 0.0 if warn is None or not limit_s else min(warn.before_s, limit_s),
        "warn_signal": 0 if warn is None else warn.number,
        "idle_limit_s": start.spec.idle_limit_s or 0.0,
    }


def _behind(wrap: bytes | None, command: list[bytes], values: dict[bytes, bytes]) -> list[bytes]:
    """Return a command with the words of a wrapper before it."""
    return command if wrap is None else [*(fill(word, values) for word in wrapper_words(wrap)), *as_program(command)]


def _submitted(start: Start) -> dict[str, object]:
    """Return what `grass doctor` needs to submit the job again: its request, and how many words are the queue's."""
    spec, prefix = start.spec, start.placement.prefix
    request = {name: amount_text(amount) for name, amount in spec.request}
    wrap = {} if spec.wrap is None else {"wrap": rundir.encode_word(spec.wrap)}
    return {"request": request, "prefix": 0 if spec.shell else len(prefix), **wrap}


def _content(fields: dict[str, Any], own: dict[bytes, bytes], base: _Base) -> bytes:
    encode = rundir.encode_word
    # Of a name that occurs twice, the last value counts, so nothing has to be removed from the shared part.
    env = b",".join(part for part in (base.written, _pairs(own.items())) if part)
    content = {
        "v": rundir.FORMAT,
        **fields,
        "argv": [encode(word) for word in fields["argv"]],
        "env": msgspec.Raw(b"[%s]" % env),
        "cwd": encode(fields["cwd"]),
        "output": encode(fields["output"]),
    }
    return _encode(content)


def _pairs(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    encode = rundir.encode_word
    return _encode([(encode(name), encode(value)) for name, value in pairs])[1:-1]


@functools.lru_cache(BASES_MAX)
def _base(given: Pairs, hidden: frozenset[bytes]) -> _Base:
    """Return an environment without the variables that name another job or its devices."""
    env = {
        name: value for name, value in given if name not in hidden and (not name.startswith(b"GRASS_") or name in _KEPT)
    }
    return _Base(env, _pairs(env.items()))


def placeholders(allocation: Allocation) -> dict[bytes, bytes]:
    """Return the values of `{gpu}` and the like: ids joined by commas for devices, the amount for a pool."""
    held: dict[bytes, bytes] = {}
    for name, amount in allocation.items():
        if isinstance(amount, dict):
            ids = ",".join(sorted(amount, key=device_order)).encode()
            if name == VRAM:
                held.setdefault(_VRAM_OF, ids)
                held[b"vram"] = amount_text(max(amount.values())).encode()
            else:
                held[name.encode()] = ids
        else:
            held[name.encode()] = amount_text(amount).encode()
    return held


def _array_variables(start: Start) -> dict[bytes, bytes]:
    """Return what a job of an array is told of its index."""
    index, span = start.spec.array_index, start.spec.array_of
    if index is None or span is None:
        return {}
    names = (b"INDEX", b"COUNT", b"MIN", b"MAX")
    return {b"GRASS_ARRAY_" + name: b"%d" % number for name, number in zip(names, (index, *span), strict=True)}


def environment(
    start: Start,
    path: str,
    checkpoint: str,
    held: dict[bytes, bytes],
    values: dict[bytes, bytes],
    variables: DeviceVariables,
) -> dict[bytes, bytes]:
    """Return the variables on top of the sender's environment: those of the queue, of the job and of Grass."""
    env: dict[bytes, bytes] = {}
    for name, value in held.items():
        env |= variables.of(name, value)
    slot = start.placement.slot
    in_slot = () if slot is None else [(name, slot.encode()) for name in variables.listing.get(_SLOTS_OF, ())]
    for name, value in (*start.placement.env, *in_slot, *start.spec.env):
        env[name] = fill(value, values)
    for name, value in held.items():
        env[b"GRASS_" + name.upper()] = value
    files = os.fsencode(rundir.files_dir(path))
    env |= {
        b"GRASS_JOB_ID": b"%d" % start.job,
        b"GRASS_JOB_NAME": (start.name or "").encode(),
        b"GRASS_QUEUE": start.spec.queue.encode(),
        **_array_variables(start),
        **({} if start.spec.project is None else {b"GRASS_PROJECT": start.spec.project.encode()}),
        b"GRASS_ATTEMPT": b"%d" % start.attempt,
        b"GRASS_WORKER": start.placement.worker.encode(),
        b"GRASS_RUN_DIR": files,
        b"GRASS_RESULT_FILE": os.fsencode(rundir.result_file(path)),
        b"GRASS_CHECKPOINT_DIR": os.fsencode(checkpoint),
    }
    return env
