"""The options of a stored job as named values, and the difference of two versions in words."""

from __future__ import annotations

import json
from collections.abc import Mapping

from grassq.core.job_options import JOB_OPTIONS, SPEC_FIELDS, JobOptions, Option
from grassq.core.model import Job, Spec
from grassq.core.names import plain
from grassq.core.options.moments import written_moment
from grassq.core.options.warning import Warn
from grassq.core.resources.amounts import amount_number
from grassq.core.waiting.conditions import Condition
from grassq.errors import BadInput

#: The names of what has no option of its own on the command line, and of all amounts.
COMMAND, REQUIRE = "command", "require"
#: The options that no edit changes, and why.
NOT_EDITABLE = {
    "hold": "`grass hold` and `grass release` do that",
    "unique": "the key was looked for when the job was submitted; submit it again, and `grass kill` this one",
    "send": "the folder was copied when the job was submitted; submit it again, and `grass kill` this one",
    "output": "the file was made when the job was submitted; submit it again, and `grass kill` this one",
}
#: The options that say what a job waits for, which is no part of its spec alone: of jobs by condition, and of a time.
WAITS_FOR_JOBS: dict[str, Condition] = {"after": "ok", "after_any": "any", "after_fail": "fail"}
WAITS_FOR_TIME = ("at", "in_s")
#: Characters of one value, and of the whole difference, in a job's story.
VALUE_SHOWN, DIFFERENCE_SHOWN = 60, 500

#: A value as it is written: bytes stand for a word.
Value = bool | int | float | str | bytes | None | list[bytes] | list[str] | dict[str, int | float]


def _editable() -> dict[str, Option]:
    """Return the first option of each field by name: `tries`, but not `retries`, which sets the same field."""
    first: dict[str, Option] = {}
    for option in JOB_OPTIONS:
        first.setdefault(option.field, option)
    return {option.name: option for option in first.values() if option.field not in NOT_EDITABLE}


EDITABLE = _editable()


def options_of(job: Job) -> JobOptions:
    """Return the options with which a job would be submitted as it is; without its amounts, which are in its spec."""
    spec = job.spec
    return JobOptions(
        **{name: getattr(spec, name) for name in SPEC_FIELDS},
        worker=spec.constraints.worker,
        labels=spec.constraints.labels,
        name=job.name,
        priority=job.priority,
        env=spec.env,
        cwd=spec.cwd if spec.own_cwd else None,
        shell=spec.shell,
        queue=spec.queue,
    )


def values_of(job: Job) -> dict[str, Value]:
    """Return everything that can be edited of a job by name; None is an option that was not given."""
    options = options_of(job)
    found: dict[str, Value] = {COMMAND: list(job.spec.command)}
    for name, option in EDITABLE.items():
        value = _waits_of(job, option.field) or _written(getattr(options, option.field), option)
        found[name] = request_of(job.spec) if name == REQUIRE else None if _is_untypeable(option, value) else value
    return found


def _waits_of(job: Job, field: str) -> Value:
    """Return what a job waits for as it is typed, under the option that asks for it; None if it waits for nothing."""
    if field == "at" and job.for_time is not None and not job.tried:
        return written_moment(job.for_time.at)
    ranges = next((each.ranges for each in job.spec.dependencies if each.condition == WAITS_FOR_JOBS.get(field)), ())
    return [f"{first}" if first == last else f"{first}-{last}" for first, last in ranges] or None


def request_of(spec: Spec) -> dict[str, int | float]:
    """Return the amounts that a job asks for, as numbers."""
    return {name: amount_number(amount) for name, amount in spec.request}


def _is_untypeable(option: Option, value: Value) -> bool:
    """Tell whether a value is a default that cannot be typed, such as the one of --env-from."""
    if not isinstance(value, str):
        return False
    try:
        option.parse(option, [value.encode()])
    except BadInput:
        return True
    return False


def _written(value: object, option: Option) -> Value:
    """Return the value of an option as it is typed: NAME=VALUE for a variable."""
    if option.written is not None:
        return option.written(value) if value else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Warn):
        return value.typed
    if isinstance(value, tuple):
        return [_pair(each) if isinstance(each, tuple) else each for each in value]
    assert value is None or isinstance(value, bool | int | float | str | bytes), value
    return value


def _pair(pair: tuple[bytes, bytes] | tuple[str, str]) -> bytes:
    """Return a variable or a tag as it is typed."""
    return b"=".join([each.encode() if isinstance(each, str) else each for each in pair])


def difference(before: Job, after: Job) -> str:
    """Return what an edit changed: `gpu 1 -> 0.5, priority 30 -> 40`. Values of variables are left out."""
    old, new = values_of(before), values_of(after)
    parts: list[str] = []
    for name in new:
        if old[name] == new[name]:
            continue
        if name == "env":
            parts.append(f"env {', '.join(_changed_variables(before.spec, after.spec))}")
        elif name == REQUIRE:
            parts += _changed_amounts(request_of(before.spec), request_of(after.spec))
        else:
            parts.append(f"{name} {_shown(old[name])} -> {_shown(new[name])}")
    return plain(", ".join(parts), DIFFERENCE_SHOWN)


def _changed_variables(before: Spec, after: Spec) -> list[str]:
    old, new = dict(before.env), dict(after.env)
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [plain(name, VALUE_SHOWN) for name in names] or ["in another order"]


def _changed_amounts(old: Mapping[str, int | float], new: Mapping[str, int | float]) -> list[str]:
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name} {old.get(name, 0):g} -> {new.get(name, 0):g}" for name in names]


def _shown(value: Value) -> str:
    if isinstance(value, bytes | str):
        return plain(value, VALUE_SHOWN) or "none"
    if isinstance(value, list):
        return plain(" ".join([plain(each, VALUE_SHOWN) for each in value[:VALUE_SHOWN]]), VALUE_SHOWN) or "none"
    return "none" if value is None else json.dumps(value)
