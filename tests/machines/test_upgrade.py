"""`grass machine upgrade`: a machine over ssh becomes a worker that connects by itself, or stays as it was."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.world import Grass, eventually
from tests.machines.site import FIRST_UID, MachineSite, SshMachine

CONNECTED_S = 60.0
PORT = 7500
UPGRADE_S = 300.0


@pytest.fixture
def broker(tmp_path: Path, site: MachineSite) -> Iterator[Grass]:
    """A broker on the near host that listens for other machines."""
    cwd = tmp_path / "work"
    cwd.mkdir()
    world = Grass(tmp_path / "home", cwd, site.near.prefix)
    world.env["GRASS_SSH"] = str(site.ssh)
    world.start("daemon", "--bind", f"{site.near.address}:{PORT}", stderr=subprocess.DEVNULL)
    eventually(lambda: (world.home / "grass.sock").exists(), "the broker answers")
    yield world
    world.close()


def upgraded(grass: Grass, name: str = "alpha") -> Any:
    return grass("machine", "upgrade", name, timeout_s=UPGRADE_S)


def machines(grass: Grass) -> dict[str, str]:
    return {each["name"]: each["state"] for each in grass.json("machine", "list")["machines"]}


def add(grass: Grass, *words: str) -> None:
    grass.ok("machine", "add", "alpha", "--capacity", "{cpu: 2}", *words)
    eventually(lambda: machines(grass)["alpha"] == "connected", "alpha is connected", CONNECTED_S)


def give_wheels(machine: SshMachine, folder: Path) -> None:
    """Let pip on the machine find what Grass requires; skip the test where no package index answers."""
    wanted = [each for each in importlib.metadata.requires("grassq") or [] if "extra ==" not in each]
    wheels = folder / "wheels"
    argv = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--only-binary",
        ":all:",
        "--dest",
        str(wheels),
        *wanted,
    ]
    if subprocess.run(argv, capture_output=True, timeout=UPGRADE_S, check=False).returncode:
        pytest.skip("no package index answers")
    there = machine.home / "wheels"
    there.mkdir()
    for wheel in wheels.iterdir():
        (there / wheel.name).write_bytes(wheel.read_bytes())
    config = machine.home / ".config" / "pip" / "pip.conf"
    config.parent.mkdir(parents=True)
    config.write_text(f"[global]\nno-index = true\nfind-links = {machine.home_there}/wheels\n")
    for each in (there, *there.iterdir(), *config.parents[:2], config):
        os.chown(each, FIRST_UID, FIRST_UID)


@pytest.mark.timeout(2 * UPGRADE_S)
def test_a_machine_becomes_a_worker_of_its_own_with_the_same_name_and_labels(
    broker: Grass, site: MachineSite, tmp_path: Path
) -> None:
    alpha = site.machine("alpha", files={".bashrc": "echo noise\n"})
    give_wheels(alpha, tmp_path)
    add(broker, "--label", "there")
    done = upgraded(broker)
    assert done.code == 0, done
    assert done.out == "alpha is a worker that connects by itself now; Grass is in ~/.local/share/grassq there\n"
    assert machines(broker) == {}
    (worker,) = [each for each in broker.json("show")["workers"] if each["name"] == "alpha"]
    assert (worker["online"], worker["labels"]) == (True, ["there"])
    alpha.kill_sshd()
    job = broker.enqueue("--label", "there", "--cwd", "/", "hostname")
    assert broker.ended(job)[0]["state"] == "succeeded"
    assert broker.ok("log", str(job)) == "alpha\n"
    assert not list(alpha.home.glob(".grass*"))


def test_a_machine_with_an_older_python_stays_as_it_is(broker: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha", python=False)
    add(broker)
    before = sorted(each.name for each in alpha.home.iterdir())
    said = broker.refuses(5, "machine", "upgrade", "alpha")
    assert "a worker needs Python 3.11 or newer with venv; on alpha there is none; nothing was changed" in said
    assert sorted(each.name for each in alpha.home.iterdir()) == before
    assert machines(broker) == {"alpha": "connected"}
    assert [each["live"] for each in broker.json("token")["tokens"] if each["name"] == "alpha"] == [False]


def test_a_broker_that_is_out_of_reach_from_there_is_said(broker: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    add(broker)
    site.near.forbid_inbound()
    said = broker.refuses(5, "machine", "upgrade", "alpha")
    assert f"alpha cannot reach this broker at {site.near.address}:{PORT} (" in said and "nothing was changed" in said
    assert machines(broker) == {"alpha": "connected"}


def test_a_broker_on_its_own_socket_only_says_what_it_lacks(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    add(grass)
    assert "`grass daemon --bind 0.0.0.0` opens it" in grass.refuses(5, "machine", "upgrade", "alpha")
    assert "no machine 'beta'" in grass.refuses(3, "machine", "upgrade", "beta")


def test_an_installation_that_fails_leaves_nothing_there(broker: Grass, site: MachineSite) -> None:
    config = {".config/pip/pip.conf": "[global]\nno-index = true\n"}
    alpha = site.machine("alpha", files=config)
    add(broker)
    said = broker.refuses(5, "machine", "upgrade", "alpha")
    assert "Grass could not be installed on alpha: ERROR: No matching distribution found" in said
    assert not (alpha.home / ".local/share/grassq").exists()
    assert machines(broker) == {"alpha": "connected"}


def test_a_machine_with_running_jobs_is_not_upgraded(broker: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    add(broker)
    job = broker.enqueue("--worker", "alpha", "--", "sleep", "4321")
    broker.until(job, "running")
    assert "1 job runs on alpha; `grass drain alpha`" in broker.refuses(5, "machine", "upgrade", "alpha")
    broker.ok("kill", str(job))


@pytest.mark.timeout(2 * UPGRADE_S)
def test_a_worker_that_cannot_join_leaves_the_machine_over_ssh_as_it_was(
    broker: Grass, site: MachineSite, tmp_path: Path
) -> None:
    alpha = site.machine("alpha", files={".local/state": "a file where Grass needs a folder"})
    give_wheels(alpha, tmp_path)
    add(broker, "--label", "there", "--dir", "elsewhere")
    before = broker.json("machine", "list")["machines"][0]
    done = upgraded(broker)
    assert (done.code, done.out) == (5, "")
    assert done.err.startswith("grass: alpha could not become a worker (")
    assert done.err.endswith("); it is a machine over ssh as before\n")
    eventually(lambda: machines(broker) == {"alpha": "connected"}, "alpha is connected again", CONNECTED_S)
    assert broker.json("machine", "list")["machines"][0] == before
    assert not (alpha.home / ".local/share/grassq").exists()
    assert (alpha.home / "elsewhere").is_dir()
