"""What `import grassq` gives: the list of public names, and little else."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

import grassq
import grassq.sdk

PUBLIC = [
    "ALL_COMPLETED",
    "BadInput",
    "CannotStartWarning",
    "Client",
    "FIRST_COMPLETED",
    "FIRST_EXCEPTION",
    "GrassError",
    "Job",
    "JobCancelled",
    "JobFailed",
    "JobFuture",
    "JobList",
    "NotFound",
    "Refused",
    "SweepFileResult",
    "Unreachable",
    "__version__",
    "as_completed",
    "wait",
]
CLIENT = [
    "broker",
    "change_devices",
    "clean",
    "close",
    "create_queue",
    "delete_queue",
    "devices",
    "edit",
    "hold",
    "home",
    "job",
    "jobs",
    "kill",
    "limit",
    "limits",
    "log",
    "move",
    "pause",
    "priority",
    "queues",
    "release",
    "rerun",
    "resume",
    "submit",
    "submit_array",
    "submit_many",
    "suspend",
    "sweep",
    "sweep_file",
    "wait",
    "why",
]
JOB = [
    "add_done_callback",
    "cancel",
    "cancelled",
    "done",
    "edit",
    "exception",
    "existing",
    "exit_code",
    "follow",
    "future",
    "hold",
    "id",
    "info",
    "kill",
    "log",
    "log_bytes",
    "move",
    "name",
    "outcome",
    "queue",
    "refresh",
    "release",
    "rerun",
    "result",
    "resume",
    "running",
    "set_priority",
    "state",
    "suspend",
    "suspended",
    "wait",
    "why",
]


def test_a_tab_shows_the_public_names_and_nothing_else() -> None:
    assert dir(grassq) == PUBLIC
    assert sorted(grassq.__all__) == PUBLIC


@pytest.mark.parametrize("module", [grassq, grassq.sdk])
def test_every_public_name_is_there(module: ModuleType) -> None:
    for name in dir(module):
        assert getattr(module, name) is not None
    with pytest.raises(AttributeError):
        _ = module.nosuch


@pytest.mark.parametrize(("kind", "names"), [(grassq.Client, CLIENT), (grassq.Job, JOB)])
def test_the_methods_are_these_and_each_is_explained(kind: type, names: list[str]) -> None:
    public = [name for name in dir(kind) if not name.startswith("_")]
    assert public == names
    assert [name for name in public if not getattr(kind, name).__doc__] == []


@pytest.mark.parametrize("code", ["import grassq", "import grassq; grassq.Client, grassq.wait"])
def test_the_import_is_light(code: str) -> None:
    program = f"import sys; {code}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"aiohttp", "asyncio", "msgspec", "rich", "psutil", "cryptography"} & set(done.stdout.split())
    if "Client" not in code:
        assert not {"grassq.sdk", "grassq.net"} & set(done.stdout.split())
