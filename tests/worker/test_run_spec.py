"""What an attempt is started with: words, directory and environment, as the contract says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.worker.run_specs import GPU, VARIABLES, a_start, raw_of, spec_of

from grassq.core.messages import Start
from grassq.core.options.warning import Warn
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.syntax.options import RESERVED
from grassq.run import rundir
from grassq.run.rundir import RunSpec, decode_word
from grassq.settings import Settings
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.run_spec import placeholders, run_spec


def test_a_job_is_told_who_it_is() -> None:
    env = spec_of(a_start(GPU)).env
    assert {name: value for name, value in env.items() if name.startswith(b"GRASS_")} == {
        b"GRASS_JOB_ID": b"12",
        b"GRASS_JOB_NAME": b"train",
        b"GRASS_QUEUE": b"exp",
        b"GRASS_ATTEMPT": b"3",
        b"GRASS_WORKER": b"w",
        b"GRASS_RUN_DIR": b"/home/jobs/12/3/files",
        b"GRASS_RESULT_FILE": b"/home/jobs/12/3/files/result.json",
        b"GRASS_CHECKPOINT_DIR": b"/home/jobs/12/checkpoint",
        b"GRASS_GPU": b"0,1",
    }


def test_our_own_names_are_not_inherited_except_home_and_broker() -> None:
    inherited = tuple(
        (b"GRASS_" + name, b"outer") for name in (b"HOME", b"BROKER", b"JOB_ID", b"GPU", b"CPU", b"STORE", b"RUN_DIR")
    )
    env = spec_of(a_start(None, inherited)).env
    outer = {name for name, value in env.items() if value == b"outer"}
    assert outer == {b"GRASS_HOME", b"GRASS_BROKER"}
    assert env[b"GRASS_JOB_ID"] == b"12" and b"GRASS_GPU" not in env


VISIBLE = b"CUDA_VISIBLE_DEVICES"


@pytest.mark.parametrize(
    ("allocation", "inherited", "own", "expected"),
    [
        (GPU, None, None, b"0,1"),
        (GPU, b"7", None, b"0,1"),
        (None, b"7", None, None),
        (None, None, None, None),
        (GPU, b"7", b"5", b"5"),
        (None, b"7", b"5", b"5"),
        (GPU, None, b"{gpu}", b"0,1"),
        ({"vram": {"1": 8000 * ONE}}, None, None, b"1"),
    ],
    ids=["set", "replaced", "removed", "absent", "own wins", "own without gpu", "own by placeholder", "vram alone"],
)
def test_visible_devices(
    allocation: Allocation | None, inherited: bytes | None, own: bytes | None, expected: bytes | None
) -> None:
    start = _visible(allocation, inherited, own)
    assert spec_of(start).env.get(VISIBLE) == expected


def _visible(allocation: Allocation | None, inherited: bytes | None, own: bytes | None) -> Start:
    start = a_start(allocation, () if inherited is None else ((VISIBLE, inherited),))
    return start if own is None else replace(start, spec=replace(start.spec, env=((VISIBLE, own),)))


def test_the_queue_may_set_visible_devices_too_and_the_job_wins_over_it() -> None:
    start = _visible(GPU, b"7", None)
    start = replace(start, placement=replace(start.placement, env=((VISIBLE, b"q"), (b"A", b"queue"))))
    assert spec_of(start).env[VISIBLE] == b"q"
    start = replace(start, spec=replace(start.spec, env=((VISIBLE, b"j"), (b"A", b"job"))))
    assert (spec_of(start).env[VISIBLE], spec_of(start).env[b"A"]) == (b"j", b"job")


def test_the_devices_of_a_slot_are_told_as_the_slot_lists_them_and_the_job_wins_over_it() -> None:
    start = a_start(GPU, ((VISIBLE, b"7"),), where={"slot": "1,0", "env": ((VISIBLE, b"q"),)})
    assert spec_of(start).env[VISIBLE] == b"1,0"
    assert spec_of(a_start(None, where={"slot": ""})).env[VISIBLE] == b""
    start = replace(start, spec=replace(start.spec, env=((VISIBLE, b"j"),)))
    assert spec_of(start).env[VISIBLE] == b"j"


def test_devices_are_counted_as_the_driver_counts_them() -> None:
    assert spec_of(a_start(GPU)).env[b"CUDA_DEVICE_ORDER"] == b"PCI_BUS_ID"
    assert b"CUDA_DEVICE_ORDER" not in spec_of(a_start()).env


def test_placeholders_are_ids_for_devices_and_amounts_for_pools() -> None:
    held = placeholders({"gpu": {"10": ONE, "2": ONE}, "cpu": 1_500_000, "licence": {"b": 1, "a": 1}})
    assert held == {b"gpu": b"2,10", b"cpu": b"1.5", b"licence": b"a,b"}
    assert placeholders({"gpu": {"0": ONE}, "vram": {"0": 8192 * ONE}}) == {b"gpu": b"0", b"vram": b"8192"}


def test_words_and_environment_are_filled_in_and_other_braces_left_alone() -> None:
    command = (
        b"echo",
        b"--gpu={gpu}",
        b"{{gpu}}",
        b"{cpu}",
        b"{job.id}/{job.attempt}/{job.name}",
        b"\xff{gpu}",
        b"${x}",
    )
    start = replace(a_start(GPU), spec=replace(a_start(GPU).spec, command=command, env=((b"OUT", b"run{job.id}"),)))
    spec = spec_of(start)
    assert spec.argv[1:] == [b"--gpu=0,1", b"{gpu}", b"{cpu}", b"12/3/train", b"\xff0,1", b"${x}"]
    assert spec.env[b"OUT"] == b"run12"


def test_the_queues_prefix_comes_first() -> None:
    spec = spec_of(a_start(where={"prefix": (b"nice", b"-n", b"{job.id}")}, command=(b"true", b"x")))
    assert spec.argv == [b"nice", b"-n", b"12", b"true", b"x"]


def test_a_shell_line_goes_to_the_shell_as_one_word() -> None:
    spec = spec_of(a_start(GPU, command=(b"echo {gpu} | cat",), shell=b"/bin/bash"))
    assert spec.argv == [b"/bin/bash", b"-c", b"echo 0,1 | cat"]


@pytest.mark.parametrize(
    ("own", "queue", "expected"),
    [(False, None, b"/job"), (False, b"/queue", b"/queue"), (True, b"/queue", b"/job"), (True, None, b"/job")],
    ids=["the submitter's", "the queue's", "the job's own wins", "the job's own"],
)
def test_which_directory_counts(own: bool, queue: bytes | None, expected: bytes) -> None:
    start = a_start(where={"cwd": queue})
    start = replace(start, spec=replace(start.spec, cwd=b"/job", own_cwd=own))
    assert spec_of(start).cwd == expected


def test_what_else_the_spec_says_is_handed_on() -> None:
    start = a_start(umask=0o077, split=True, grace_s=3.0, keep_children=True)
    launch = run_spec(
        start,
        "/p",
        "/c",
        store="store-1",
        boot="boot-1",
        with_daemon=True,
        default_env=DefaultEnvironment(),
        variables=VARIABLES,
    )
    raw = json.loads(launch.content)
    spec = RunSpec(raw)
    assert (spec.store, spec.job, spec.attempt, spec.boot) == ("store-1", 12, 3, "boot-1")
    assert (spec.umask, spec.split, spec.grace_s, spec.keep_children, spec.with_daemon) == (
        0o077,
        True,
        3.0,
        True,
        True,
    )
    assert decode_word(raw["cwd"]) == b"/"


def test_no_resource_may_have_the_name_of_a_setting() -> None:
    """Its GRASS_<NAME> would be read as that setting by a daemon the job starts."""
    assert set(Settings.__struct_fields__) <= RESERVED


def test_only_an_attempt_with_a_lease_is_marked_so() -> None:
    assert not spec_of(a_start()).lease
    assert spec_of(a_start(where={"lease_s": 300.0})).lease


def test_a_spec_of_an_older_release_with_the_order_in_it_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    rundir.prepare(path, json.dumps({**raw_of(a_start()), "order": "kwECAw=="}).encode())
    assert rundir.read_spec(path).job == a_start().job and "order" not in raw_of(a_start())


@pytest.mark.parametrize(
    ("queue", "own", "asked", "argv"),
    [
        (None, b"nice -n 10", {}, [b"nice", b"-n", b"10", b"true"]),
        (b"box 'a b'", b"nice", {}, [b"box", b"a b", b"nice", b"true"]),
        (b"box --gpus {gpu}", None, {}, [b"box", b"--gpus", b"0,1", b"true"]),
        (b"box", b"nice", {"shell": b"/bin/sh"}, [b"box", b"nice", b"/bin/sh", b"-c", b"true"]),
        (b"box", None, {"command": (b"--no-box", b"x")}, [b"box", b"./--no-box", b"x"]),
        (b"box", None, {"command": (b"A=b", b"x")}, [b"box", b"./A=b", b"x"]),
        (b"b\xf6x", None, {}, [b"b\xf6x", b"true"]),
    ],
    ids=["own", "queue first", "placeholder", "before the shell", "no option", "no variable", "any bytes"],
)
def test_a_wrapper_comes_before_the_command(
    queue: bytes | None, own: bytes | None, asked: dict[str, Any], argv: list[bytes]
) -> None:
    start = a_start(GPU, where={"wrap": queue}, wrap=own, **asked)
    assert spec_of(start).argv == argv


def test_a_wrapper_comes_before_the_command_of_the_queue_and_is_told_to_doctor() -> None:
    start = a_start(where={"wrap": b"box", "prefix": (b"python", b"x.py")}, wrap=b"nice -n 1", command=(b"--lr",))
    assert spec_of(start).argv == [b"box", b"nice", b"-n", b"1", b"python", b"x.py", b"--lr"]
    assert raw_of(start)["submitted"] == {"request": {}, "prefix": 2, "wrap": "nice -n 1", "wrapper": 4}


def test_a_job_is_told_its_project() -> None:
    inherited = ((b"GRASS_PROJECT", b"outer"),)
    assert spec_of(a_start(None, inherited, project="p1")).env[b"GRASS_PROJECT"] == b"p1"
    assert b"GRASS_PROJECT" not in spec_of(a_start(None, inherited)).env


def test_only_a_file_that_a_submission_makes_may_be_there_at_the_start() -> None:
    for output, made in ((b"/x/a.out", True), (b"/x/{job.id}.out", False), (b"/x/{job.name}", False), (None, False)):
        assert spec_of(a_start(output=output)).output_made == made


def test_the_limit_of_the_placement_counts_and_a_warning_only_beside_a_limit() -> None:
    start = a_start(GPU)
    spec = replace(start.spec, time_limit_s=7200.0, warn=Warn(60.0, "TERM"), idle_limit_s=90.0)
    start = replace(start, spec=spec)
    limits = ("time_limit_s", "warn_s", "warn_signal", "idle_limit_s")

    def limits_of(limit_s: float | None) -> list[float]:
        found = spec_of(replace(start, placement=replace(start.placement, time_limit_s=limit_s)))
        return [getattr(found, name) for name in limits]

    assert limits_of(3600.0) == [3600.0, 60.0, 15, 90.0]
    assert limits_of(30.0) == [30.0, 30.0, 15, 90.0], "at once, where the limit is shorter than the warning"
    assert limits_of(None) == [0.0, 0.0, 15, 90.0], "a broker of an earlier release gives none"
