"""What an attempt is started with that was sent files, or that runs on a machine without the submitter's disk."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace
from tests.worker.run_specs import GPU, PATH, VARIABLES, a_start, raw_of, spec_of

from grassq.core.messages import Start
from grassq.core.model import Constraints, RemoteSubmitter
from grassq.core.syntax.file_words import SentTree
from grassq.run.rundir import RunSpec
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.run_spec import run_spec

TREE = b"/home/jobs/12/3/tree"
THERE = DefaultEnvironment(((b"PATH", b"/there"), (b"HOME", b"/home/there"), (b"CONDA", b"x")), b"/home/there", 0o077)


def far_spec(start: Start) -> RunSpec:
    """What a shim reads on a machine that does not share the submitter's disk."""
    launch = run_spec(
        start,
        "/home/jobs/12/3",
        "/home/jobs/12/checkpoint",
        store="s",
        boot="b",
        with_daemon=False,
        default_env=THERE,
        variables=VARIABLES,
        shares_disk=False,
    )
    return RunSpec(json.loads(launch.content))


@pytest.mark.parametrize("of", [spec_of, far_spec], ids=["here", "far"])
def test_a_job_that_was_sent_files_runs_in_them_also_in_a_queue_with_a_directory(of: Any) -> None:
    start = a_start(send=(SentTree("0" * 64),), where={"cwd": b"/queue"})
    assert of(start).cwd == TREE
    inside = replace(start.spec, cwd=b"sub/deep", own_cwd=True)
    assert of(replace(start, spec=inside)).cwd == TREE + b"/sub/deep"


def test_on_another_machine_environment_directory_and_umask_are_those_of_the_machine() -> None:
    spec = far_spec(a_start(env=((b"SECRET", b"here"),)))
    assert (spec.env[b"PATH"], spec.env[b"CONDA"], spec.cwd, spec.umask) == (b"/there", b"x", b"/home/there", 0o077)
    assert b"SECRET" not in spec.env
    assert far_spec(replace(a_start(), spec=replace(a_start().spec, cwd=b"/data", own_cwd=True))).cwd == b"/data"


def test_on_another_machine_the_environment_of_the_submitter_is_given_if_asked_for() -> None:
    spec = far_spec(a_start(env=((b"SECRET", b"here"),), env_from="here"))
    assert (spec.env[b"SECRET"], spec.env[b"PATH"], spec.cwd) == (b"here", PATH[1], b"/home/there")


def test_a_job_from_another_broker_gets_little_of_a_far_machine() -> None:
    spec = far_spec(a_start(constraints=Constraints(remote=RemoteSubmitter())))
    assert spec.env[b"PATH"] == b"/there" and b"CONDA" not in spec.env


def test_the_environment_of_a_login_shell_begins_with_little_and_keeps_the_variables_of_the_job() -> None:
    start = a_start(GPU, ((b"SECRET", b"here"),), env_from="there", command=(b"train", b"it's"))
    spec = spec_of(start, THERE)
    assert b"SECRET" not in spec.env and b"CONDA" not in spec.env
    assert (spec.env[b"PATH"], spec.env[b"HOME"]) == (b"/there", b"/home/there")
    through = spec.env[b"GRASS_WRAPPER"]
    assert b"export CUDA_VISIBLE_DEVICES='0,1'\n" in through
    without = spec_of(replace(start, placement=replace(start.placement, allocation={})), THERE).env[b"GRASS_WRAPPER"]
    assert b"unset CUDA_VISIBLE_DEVICES\n" in without, "a login shell does not give a job devices"
    assert spec.argv[:2] == [b"/bin/sh", b"-c"] and spec.argv[-2:] == [b"train", b"it's"]


def test_a_setup_wraps_the_command_and_doctor_still_knows_it() -> None:
    start = a_start(setup=b"uv sync", setup_files=(b"uv.lock",), command=(b"train", b"x"))
    argv = spec_of(start).argv
    assert argv[:2] == [b"/bin/sh", b"-c"] and argv[3:] == [
        b"grass", b"/home/jobs/12/3", b"/home/setups", b"", b"uv sync", b"1", b"uv.lock", b"train", b"x",
    ]  # fmt: skip
    assert argv[raw_of(start)["submitted"]["wrapper"] :] == [b"train", b"x"]
    assert spec_of(a_start(command=(b"train",))).argv == [b"train"]
