"""The description of a job's options: what derives from it by hand says the same."""

from __future__ import annotations

import pytest
from msgspec.structs import fields

from grassq.core import job_options
from grassq.core.job_options import JOB_OPTIONS, SPEC_FIELDS, JobOptions, SubmitOptions, check_bounds
from grassq.core.model import Spec
from grassq.run import rundir


def test_every_option_has_a_help_line_and_a_name_of_its_own() -> None:
    assert all(option.help for option in JOB_OPTIONS)
    assert len({option.name for option in JOB_OPTIONS}) == len(JOB_OPTIONS)
    # The parameters of a sweep are given by `grass sweep -p` and by programs.
    assert {option.field for option in JOB_OPTIONS} == set(JobOptions.__struct_fields__) - {"parameters"}


def test_a_program_can_say_what_can_be_typed() -> None:
    # The directory is an argument of its own, and whether a shell reads the command is told by the command's type.
    # `Client.sweep` takes the parameters. A warning is typed as one word, and has two parts.
    typed = set(JobOptions.__struct_fields__) - {"cwd", "shell", "parameters", "warn"} | {"warn_s", "warn_signal"}
    assert SubmitOptions.__annotations__.keys() == typed | {"gpu", "cpu", "mem", "vram", "disk"}


def test_an_option_that_reaches_the_shim_is_kept_in_the_spec() -> None:
    spec = {field.name: field.default for field in fields(Spec)}
    assert {"split", "grace_s", "keep_children"} <= set(rundir.RunSpec.FIELDS) & set(SPEC_FIELDS)
    later = {name: value for name, value in rundir.LATER.items() if name in SPEC_FIELDS}
    # None is a setting of the worker, and workers of earlier releases had no such setting.
    defaults = {name: spec[name] or None for name in later}
    assert {name: value or None for name, value in later.items()} == defaults, "a spec.json without it has its default"


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [("priority", -1_000_000, 1_000_000), ("tries", 1, 1000), ("grace_s", 0, 365 * 86400)],
)
def test_numbers_have_bounds(field: str, least: float, most: float) -> None:
    for good in (least, most):
        check_bounds(**{field: good})
    for bad in (least - 1, most + 1, float("nan")):
        with pytest.raises(ValueError, match=f"{field} must lie between {least} and {most}"):
            check_bounds(**{field: bad})


def test_what_stands_in_a_spec_is_read_by_name() -> None:
    assert set(job_options.SpecOptions.__struct_fields__) <= set(Spec.__struct_fields__)
