"""What can be edited of a job, from the job to named values and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.builders import a_job, a_request

from grassq.core.editing.changes import read
from grassq.core.editing.values import COMMAND, EDITABLE, NOT_EDITABLE, difference, options_of, values_of
from grassq.core.job_options import JOB_OPTIONS, PRIORITY_MAX, TRIES_MAX
from grassq.core.model import Constraints, ForJobs, ForTime, Job, State
from grassq.core.waiting.conditions import Dependency
from grassq.errors import BadInput

RESOURCES = frozenset({"gpu", "cpu", "printer"})

words = st.binary(min_size=1, max_size=12).filter(lambda word: b"\0" not in word)
names = st.binary(min_size=1, max_size=6).filter(lambda word: b"=" not in word and b"\0" not in word)
amounts = st.integers(1, 10**13)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    """Any job that somebody could have submitted."""
    job = a_job(7, draw(st.sampled_from(["default", "q"])), priority=draw(st.integers(-PRIORITY_MAX, PRIORITY_MAX)))
    files = tuple(draw(st.lists(st.sampled_from([b"a", b"b/*.pt", b"\xff"]), max_size=2, unique=True)))
    spec = replace(
        job.spec,
        command=tuple(draw(st.lists(words, min_size=1, max_size=4))),
        request=tuple(sorted(draw(st.dictionaries(st.sampled_from(["gpu", "cpu", "mem", "x"]), amounts)).items())),
        env=tuple(draw(st.lists(st.tuples(names, st.binary(max_size=6)), max_size=3))),
        shell=draw(st.sampled_from([None, b"/bin/sh"])),
        cwd=b"/some\xffwhere",
        own_cwd=draw(st.booleans()),
        tries=draw(st.integers(1, TRIES_MAX)),
        grace_s=draw(st.sampled_from([0.0, 10.0, 0.5, 86400.0])),
        on_lost=draw(st.sampled_from(["fail", "requeue"])),
        split=draw(st.booleans()),
        fetch=files,
        fetch_to=b"/there" if files else None,
        env_from=draw(st.sampled_from(["machine", "there", "here"])),
        python=draw(st.sampled_from([None, b"/venv"])),
        constraints=Constraints(draw(st.sampled_from([None, "w"])), draw(st.sampled_from([(), ("a", "b")]))),
    )
    return replace(job, spec=spec, name=draw(st.sampled_from([None, "name"])))


@given(jobs())
def test_the_values_of_a_job_are_read_back_as_the_same_job(job: Job) -> None:
    edition = read(values_of(job), RESOURCES).applied_to(job, lambda queue: False)
    assert edition.words == job.spec.command
    assert replace(edition.options, request=None) == options_of(job)
    asked = edition.options.request
    assert isinstance(asked, dict) and a_request(**asked) == job.spec.request


@given(jobs(), jobs())
def test_the_values_of_one_job_make_another_job_equal(one: Job, other: Job) -> None:
    edition = read(values_of(other), RESOURCES).applied_to(one, lambda queue: False)
    expected = replace(options_of(other), send=one.spec.send)
    assert (edition.words, replace(edition.options, request=None)) == (other.spec.command, expected)
    assert (difference(one, other) == "") == (values_of(one) == values_of(other))


def test_every_option_of_the_table_can_be_edited_or_says_why_not() -> None:
    fields = {option.field for option in EDITABLE.values()} | set(NOT_EDITABLE)
    assert fields == {option.field for option in JOB_OPTIONS}
    job = a_job(7)
    for name, value in values_of(job).items():
        if value not in (None, []):
            read({name: value}, RESOURCES).applied_to(job, lambda queue: False)


@pytest.mark.parametrize("name", ["env", *(name for name in EDITABLE if name != "require")])
def test_no_value_is_the_default(name: str) -> None:
    job = a_job(7)
    full = replace(
        job,
        name="name",
        priority=3,
        spec=replace(job.spec, env=((b"A", b"1"),), cwd=b"/x", own_cwd=True, tries=5, queue="q"),
    )
    nothings: list[Any] = [None, b"", []]
    for nothing in nothings:
        options = read({name: nothing}, RESOURCES).applied_to(full, lambda queue: False).options
        field = EDITABLE[name].field
        assert getattr(options, field) == getattr(options_of(a_job(8)), field)


def test_amounts_change_one_by_one_and_variables_too() -> None:
    job = a_job(7, gpu=1, cpu=4)
    job = replace(job, spec=replace(job.spec, env=((b"A", b"1"), (b"B", b"2"))))
    given_: dict[str, Any] = {"gpu": b"0.5", "cpu": None, "env": {"B": b"3", "C": b"=", "A": None}}
    edition = read(given_, RESOURCES).applied_to(job, lambda queue: False)
    assert edition.options.request == {"gpu": "0.5"} and not edition.keeps_amounts
    assert edition.options.env == ((b"B", b"3"), (b"C", b"="))


@pytest.mark.parametrize(
    ("line", "shell", "prefix", "expected"),
    [
        (b"python a.py --lr 3", None, False, ((b"python", b"a.py", b"--lr", b"3"), None)),
        (b"python a.py > out", None, False, ((b"python a.py > out",), b"")),
        (b"A=1 python a.py", None, False, ((b"A=1 python a.py",), b"")),
        (b"python a.py", b"/bin/bash", False, ((b"python a.py",), b"/bin/bash")),
        (b"--lr 3", None, True, ((b"--lr", b"3"), None)),
    ],
)
def test_a_command_as_one_line_is_read_like_a_line_of_stdin(
    line: bytes, shell: bytes | None, prefix: bool, expected: tuple[Any, ...]
) -> None:
    job = a_job(7)
    job = replace(job, spec=replace(job.spec, shell=shell))
    edition = read({COMMAND: line}, RESOURCES).applied_to(job, lambda queue: prefix)
    assert (edition.words, edition.options.shell) == expected


@pytest.mark.parametrize(
    ("given_", "words"),
    [
        ({"gpus": 1}, "unknown option 'gpus'; did you mean gpu?"),
        ({"prioritiy": 1}, "unknown option 'prioritiy'; did you mean priority?"),
        ({"x" * 300: 1}, "unknown option 'xxx"),
        ({"": 1}, "unknown option ''"),
        ({"hold": True}, "hold cannot be edited: `grass hold`"),
        ({"send": []}, "send cannot be edited"),
        ({"priority": b"high"}, "--priority needs a whole number"),
        ({"priority": 1.5}, "--priority needs a whole number"),
        ({"priority": 10**400}, "--priority needs a whole number"),
        ({"priority": True}, "priority needs a value, not true"),
        ({"priority": [b"1", b"2"]}, "priority takes one value, not a list"),
        ({"priority": {"a": 1}}, "priority needs a word or a number, not a table"),
        ({"tries": 2, "retries": 2}, "retries is given twice"),
        ({"gpu": 1, "require": {"cpu": 1}}, "give either require or gpu, not both"),
        ({"gpu": [1]}, "gpu needs an amount such as 1 or 0.5, not a list"),
        ({"gpu": True}, "gpu needs an amount such as 1 or 0.5, not true or false"),
        ({"split": b"maybe"}, "split is true or false, not 'maybe'"),
        ({"env": [b"NOVALUE"]}, "--env needs NAME=VALUE"),
        ({"env": {"A=B": b"1"}}, "the name of a variable has no '='"),
        ({"command": 3}, "command is a list of words or a line"),
        ({"command": b"  "}, "the command is empty"),
        ({"command": [[b"a"]]}, "command needs a word or a number, not a list"),
        ({"name": b"1-3"}, "cannot be a job name"),
        ({"name": b"\xff"}, "--name needs text in UTF-8"),
        ({"queue": b"all"}, "cannot be a queue name"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(given_: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInput) as error:
        read(given_, RESOURCES)
    assert words in str(error.value) and "\n" not in str(error.value) and len(str(error.value)) < 300


def test_a_difference_names_variables_and_not_their_values() -> None:
    before = a_job(7, gpu=1)
    after = replace(before, priority=40, spec=replace(before.spec, request=a_request(gpu=0.5), env=((b"KEY", b"s3"),)))
    assert difference(before, after) == "gpu 1 -> 0.5, env KEY, priority 30 -> 40"


@given(st.integers(0, 253_402_300_799))
def test_what_a_job_waits_for_is_a_value_like_any_other(at: int) -> None:
    job = a_job(7, state=State.WAITING)
    spec = replace(job.spec, dependencies=(Dependency("any", ((3, 3), (5, 6))),))
    values = values_of(replace(job, spec=spec, waits=(ForJobs(), ForTime(at + 0.5))))
    typed = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert (values["after"], values["after-any"], values["in"]) == ([], ["3", "5-6"], None)
    assert values["at"] == typed
    edition = read({"at": values["at"], "after-any": values["after-any"], "after": b""}, RESOURCES)
    again = edition.applied_to(job, lambda queue: False)
    assert (again.after, again.is_timed, again.options.at) == ((("ok", ()), ("any", ("3", "5-6"))), True, typed)
