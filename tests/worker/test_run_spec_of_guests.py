"""What an attempt of another user is started with: nothing of the sender, and little of the worker."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.worker.run_specs import a_start, raw_of, spec_of

from grassq.core.messages import Start
from grassq.core.model import Constraints, RemoteSubmitter
from grassq.run.rundir import RunSpec
from grassq.worker.default_env import DefaultEnvironment, of_this_process

VISIBLE = b"CUDA_VISIBLE_DEVICES"
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
