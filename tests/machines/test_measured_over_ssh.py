"""Machines over ssh that are measured: real daemon, ssh and sshd; the cards are those of a stand-in for nvidia-smi."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.world import FINAL, Grass, eventually
from tests.machines.fake_tools import A100
from tests.machines.site import MachineSite, SshMachine

from grassq.net.client import ApiClient

IDLE = f"{A100}\n1, GPU-bbb, NVIDIA A100, 40960, 3, 0, Disabled, Default\n"
BUSY = IDLE.replace("A100, 40960, 3, 0", "A100, 40960, 30000, 97")
#: The cards are the lines of a file; the processes are those of another.
NVIDIA_SMI = """#!/bin/sh
echo >>~/asked
case $1 in
--query-gpu=*) cat ~/cards ;;
--query-compute-apps=*) cat ~/apps 2>/dev/null ;;
esac
exit 0
"""
FILES = {".bashrc": "PATH=$HOME/tools:$PATH\n", "tools/nvidia-smi": NVIDIA_SMI, "cards": IDLE}


@pytest.fixture
def grass(tmp_path: Path, site: MachineSite) -> Iterator[Grass]:
    cwd = tmp_path / "work"
    cwd.mkdir()
    world = Grass(tmp_path / "home", cwd)
    world.env |= {"GRASS_SSH": str(site.ssh), "GRASS_PROBE_S": "0.2"}
    yield world
    world.close()


def known(grass: Grass, machine: SshMachine, **more: Any) -> None:
    """Write the book of a home, as `grass machine add` does, and make the tools there executable."""
    machine.run("chmod +x tools/*")
    grass.home.mkdir(mode=0o700, exist_ok=True)
    (grass.home / "machines.json").write_text(json.dumps([{"name": "alpha", "target": {"host": "alpha"}, **more}]))


def worker(grass: Grass) -> dict[str, Any]:
    workers: dict[str, dict[str, Any]] = {each["name"]: each for each in grass.json("show")["workers"]}
    return workers.get("alpha", {"capacity": {}, "free": {}, "used_by_others": {}})


def cards(machine: SshMachine, text: str) -> None:
    aside = machine.home / "cards.new"
    aside.write_text(text)
    aside.chmod(0o644)
    aside.replace(machine.home / "cards")


def looked_again(machine: SshMachine) -> None:
    """Wait until the machine has been asked twice from now on, by two questions each."""
    asked = machine.home / "asked"
    before = asked.stat().st_size
    eventually(lambda: asked.stat().st_size > before + 4, "the machine is measured again", 60)


def free_gpus(grass: Grass) -> list[str]:
    return [id_ for id_, free in worker(grass)["free"].get("gpu", {}).items() if free]


@pytest.mark.parametrize("max_sessions", [10, 2])
def test_cards_that_others_use_get_no_job_until_others_have_left_them(
    site: MachineSite, grass: Grass, max_sessions: int
) -> None:
    machine = site.machine("alpha", files=FILES, max_sessions=max_sessions)
    known(grass, machine)
    eventually(lambda: free_gpus(grass) == ["0", "1"], "both cards are known", 60)
    found = worker(grass)
    assert found["capacity"]["gpu"] == {"0": 1.0, "1": 1.0}
    assert found["capacity"]["cpu"] >= 1 and found["used_by_others"]["mem"] > 0

    assert grass.json("machine", "list")["machines"][0]["offers"].endswith("gpu 2")

    cards(machine, BUSY)
    eventually(lambda: free_gpus(grass) == [], "both cards are in use", 60)
    job = grass.enqueue("--worker", "alpha", "--gpu=1", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    why = grass.ok("why", str(job))
    assert "programs outside of Grass use device 0, 1" in why
    with ApiClient(str(grass.home)) as client:
        free = client.get("machines/alpha/free")
    assert [(gpu["mem_free_mib"], gpu["utilisation"]) for gpu in free["gpus"]] == [(10960, 97)] * 2
    assert 0 <= free["free_cores"] <= free["cpus"] and 0 < free["mem_free_mib"] < free["mem_total_mib"]
    assert "gpu:0,1" in grass.ok("show").partition("USED BY OTHERS")[2]

    cards(machine, "\n".join([IDLE.splitlines()[0], BUSY.splitlines()[1], ""]))
    eventually(lambda: grass.jobs(str(job))[0]["state"] in FINAL, "the job ends", 60)
    assert grass.ok("log", str(job)) == "0\n"


def test_the_use_of_our_own_job_is_not_that_of_others(site: MachineSite, grass: Grass) -> None:
    machine = site.machine("alpha", files=FILES)
    known(grass, machine)
    eventually(lambda: free_gpus(grass) == ["0", "1"], "both cards are known", 60)
    # The job is the process that the driver lists, and works on its card.
    script = 'echo "GPU-aaa, $$, 29000" >apps; until [ -e gate ]; do sleep 0.05; done'
    first = grass.enqueue("--worker", "alpha", "--gpu=0.5", "--", "sh", "-c", script)
    eventually(lambda: (machine.home / "apps").exists(), "the first job runs", 60)
    cards(machine, IDLE.replace("40960, 3, 0", "40960, 29100, 97", 1))
    looked_again(machine)
    second = grass.enqueue("--worker", "alpha", "--gpu=0.5", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    eventually(lambda: grass.jobs(str(second))[0]["state"] in FINAL, "the second job ends", 60)
    assert grass.ok("log", str(second)) == "0\n", "beside the first, as the fullest card that has room"
    assert "gpu" not in (worker(grass)["used_by_others"] or {})
    (machine.home / "gate").touch()
    eventually(lambda: grass.jobs(str(first))[0]["state"] in FINAL, "the first job ends", 60)


def test_a_machine_with_a_capacity_of_its_own_is_not_measured(site: MachineSite, grass: Grass) -> None:
    machine = site.machine("alpha", files={**FILES, "cards": BUSY})
    known(grass, machine, capacity="{gpu: 2, cpu: 4}")
    eventually(lambda: free_gpus(grass) == ["0", "1"], "it is connected", 60)
    job = grass.enqueue("--worker", "alpha", "--gpu=2", "--", "true")
    eventually(lambda: grass.jobs(str(job))[0]["state"] in FINAL, "the job ends", 60)
    assert not worker(grass)["used_by_others"]
