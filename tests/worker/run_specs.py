"""Orders to start an attempt, and what a worker makes of them."""

from __future__ import annotations

import json
from typing import Any

from msgspec.structs import replace
from tests.builders import a_placement, a_spec

from grassq.core.job_options import Pairs
from grassq.core.messages import Start
from grassq.core.resources.amounts import ONE, Allocation
from grassq.run.rundir import RunSpec
from grassq.worker.default_env import DefaultEnvironment
from grassq.worker.devices.detectors import DETECTORS, variables_of
from grassq.worker.run_spec import Launch, run_spec

PATH = (b"PATH", b"/usr/bin:/bin")
GPU: Allocation = {"gpu": {"1": ONE, "0": ONE // 2}}
VARIABLES = variables_of(DETECTORS)


def a_start(
    allocation: Allocation | None = None, env: Pairs = (), *, where: dict[str, Any] | None = None, **spec: Any
) -> Start:
    """An order to start a job on these devices."""
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
    """What a worker starts the attempt with."""
    path, checkpoint = "/home/jobs/12/3", "/home/jobs/12/checkpoint"
    default_env = default_env or DefaultEnvironment()
    return run_spec(
        start, path, checkpoint, store="s", boot="b", with_daemon=False, default_env=default_env, variables=VARIABLES
    )


def raw_of(start: Start, default_env: DefaultEnvironment | None = None) -> dict[str, Any]:
    """The spec as it is written into the run dir."""
    raw: dict[str, Any] = json.loads(launch_of(start, default_env).content)
    return raw
