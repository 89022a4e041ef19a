"""What an attempt is started with: words, directory and environment, as the contract says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import a_placement, a_spec

from grassq.core.job_options import Pairs
from grassq.core.messages import Start
from grassq.core.model import Constraints, RemoteSubmitter
from grassq.core.options.warning import Warn
from grassq.core.resources.amounts import ONE, Allocation
from grassq.core.syntax.file_words import SentTree
from grassq.core.syntax.options import RESERVED
from grassq.run import rundir
from grassq.run.rundir import RunSpec, decode_word
from grassq.settings import Settings
from grassq.worker.default_env import DefaultEnvironment, of_this_process
from grassq.worker.devices.detectors import DETECTORS, variables_of
from grassq.worker.run_spec import Launch, placeholders, run_spec

PATH = (b"PATH", b"/usr/bin:/bin")
GPU: Allocation = {"gpu": {"1": ONE, "0": ONE // 2}}
VARIABLES = variables_of(DETECTORS)


def a_start(
    allocation: Allocation | None = None, env: Pairs = (), *, where: dict[str, Any] | None = None, **spec: Any
) -> Start:
    placement = replace(a_placement("w", allocation or {}), **(where or {}))
    asked = replace(a_spec("exp"), cwd=b"/", **spec)
    return Start(12, 3, asked, placement, (PATH, *env), name="train")


def spec_of(start: Start, default_env: DefaultEnvironment | None = None) -> RunSpec:
    """What the shim would read; what it is told is the same."""
    launch = launch_of(start, default_env)
    read, told = RunSpec(json.loads(launch.content)), RunSpec.unpacked(launch.spec)
    assert {name: getattr(told, name) for name in RunSpec.FIELDS} == {
        name: getattr(read, name) for name in RunSpec.FIELDS
    }
    return read


def launch_of(start: Start, default_env: DefaultEnvironment | None = None) -> Launch:
    path, checkpoint = "/home/jobs/12/3", "/home/jobs/12/checkpoint"
    default_env = default_env or DefaultEnvironment()
    return run_spec(
        start, path, checkpoint, store="s", boot="b", with_daemon=False, default_env=default_env, variables=VARIABLES
    )


def raw_of(start: Start, default_env: DefaultEnvironment | None = None) -> dict[str, Any]:
    raw: dict[str, Any] = json.loads(launch_of(start, default_env).content)
    return raw


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


# Jobs sent from another machine.

REMOTE = Constraints(remote=RemoteSubmitter())
DEFAULT_ENV = DefaultEnvironment(((b"PATH", b"/worker/bin"), (b"LANG", b"C")), b"/worker", 0o027)


def a_remote_submitter(**changes: Any) -> Start:
    where = {"cwd": changes.pop("queue_cwd", None)}
    start = a_start(None, ((b"SENDERS", b"own"),), where=where)
    return replace(start, spec=replace(start.spec, **{"constraints": REMOTE, "cwd": b"", "umask": 0o777, **changes}))


def test_a_guest_gets_the_workers_environment_directory_and_umask_and_nothing_of_its_senders() -> None:
    spec = spec_of(a_remote_submitter(env=((b"SEED", b"7"),)), DEFAULT_ENV)
    assert {name: value for name, value in spec.env.items() if not name.startswith(b"GRASS_")} == {
        b"PATH": b"/worker/bin",
        b"LANG": b"C",
        b"SEED": b"7",
    }
    assert (spec.cwd, spec.umask) == (b"/worker", 0o027)
    assert spec.env[b"GRASS_JOB_ID"] == b"12"


@pytest.mark.parametrize(
    ("own", "queue", "expected"),
    [(False, None, b"/worker"), (False, b"/queue", b"/queue"), (True, b"/queue", b"/job"), (True, None, b"/job")],
    ids=["the worker's", "the queue's", "its own wins", "its own"],
)
def test_which_directory_counts_for_a_guest(own: bool, queue: bytes | None, expected: bytes) -> None:
    start = a_remote_submitter(queue_cwd=queue, own_cwd=own, cwd=b"/job" if own else b"")
    assert spec_of(start, DEFAULT_ENV).cwd == expected


def test_a_job_of_this_machines_user_has_nothing_of_the_daemons() -> None:
    spec = spec_of(a_start(), DEFAULT_ENV)
    assert b"LANG" not in spec.env and (spec.cwd, spec.umask) == (b"/", 0o022)


CANARY = b"canary-5eed"


@pytest.mark.parametrize(
    "name",
    [
        "GRASS_CERT_PASS",
        "GRASS_STORE",
        "GRASS_TOKEN",
        "PGPASSWORD",
        "PGPASSFILE",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "GITHUB_TOKEN",
        "HF_TOKEN",
        "WANDB_API_KEY",
        "OPENAI_API_KEY",
        "MYSQL_PWD",
        "DB_PASSWORD",
        "SMTP_PASS",
        "my_password",
        "SSH_AUTH_SOCK",
        "XAUTHORITY",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "DBUS_SESSION_BUS_ADDRESS",
        "KRB5CCNAME",
        "NOTIFY_SOCKET",
        "DB_DSN",
        "SECRETKEY",
        "MYPASS",
        "PGPASS",
        "TOKEN1",
        "CI_JOB_JWT",
        "SLACK_WEBHOOK_URL",
        "NVIDIA_API_KEY",
        "ANYTHING_ELSE",
        "path",
    ],
)
def test_a_secret_of_the_daemon_is_not_in_a_guests_job(name: str) -> None:
    default_env = replace(DEFAULT_ENV, env=(*DEFAULT_ENV.env, (name.encode(), CANARY)))
    raw = raw_of(a_remote_submitter(), default_env)
    assert CANARY not in b"".join(RunSpec(raw).env.values()) and CANARY.decode() not in str(raw)


@pytest.mark.parametrize(
    "name", [b"PATH", b"HOME", b"LC_ALL", b"LD_LIBRARY_PATH", b"CUDA_HOME", b"ROCM_PATH", b"CONDA_PREFIX"]
)
def test_what_programs_need_of_a_workers_environment_stays(name: bytes) -> None:
    assert spec_of(a_remote_submitter(), replace(DEFAULT_ENV, env=((name, b"/x"),))).env[name] == b"/x"


def test_a_queue_may_give_its_jobs_a_secret_on_purpose() -> None:
    start = a_remote_submitter()
    start = replace(start, placement=replace(start.placement, env=((b"HF_TOKEN", b"for all"),)))
    assert spec_of(start, DEFAULT_ENV).env[b"HF_TOKEN"] == b"for all"


def test_visible_devices_of_the_daemon_are_not_a_guests() -> None:
    assert VISIBLE not in spec_of(a_remote_submitter(), replace(DEFAULT_ENV, env=((VISIBLE, b"7"),))).env


def test_a_daemon_in_the_background_is_at_home_and_one_in_front_where_it_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o013)
    try:
        env = {b"HOME": b"/home/me", b"A": b"1"}
        front = of_this_process(env, background=False)
        assert (front.cwd, front.umask, dict(front.env)) == (os.fsencode(tmp_path), 0o013, env)
        assert of_this_process(env, background=True).cwd == b"/home/me"
        assert of_this_process({}, background=True).cwd.startswith(b"/")
        assert os.umask(0o013) == 0o013
    finally:
        os.umask(before)


# Leases.


def test_only_an_attempt_with_a_lease_is_marked_so() -> None:
    assert not spec_of(a_start()).lease
    assert spec_of(a_start(where={"lease_s": 300.0})).lease


def test_a_spec_of_an_older_release_with_the_order_in_it_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    rundir.prepare(path, json.dumps({**raw_of(a_start()), "order": "kwECAw=="}).encode())
    assert rundir.read_spec(path).job == a_start().job and "order" not in raw_of(a_start())


# Files and environments.

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
