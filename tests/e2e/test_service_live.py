"""The service with real daemons: a stand-in for systemd starts the unit, jobs run on, the daemon keeps its options."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.cli.service.system_tools import SystemTools
from tests.e2e.world import Grass, eventually, is_alive

from grassq.net.http import answers


@pytest.fixture
def system(grass: Grass, tmp_path: Path) -> SystemTools:
    tools = SystemTools(tmp_path / "system")
    grass.env |= {**tools.env, "PATH": f"{tools.env['PATH'].partition(':')[0]}:{grass.env['PATH']}"}
    return tools


def started(grass: Grass, *words: str) -> None:
    """Start a daemon in the foreground, and wait until it answers."""
    grass.start("daemon", *words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    eventually(lambda: answers(str(grass.home)), "the daemon answers")


def daemon_pid(grass: Grass) -> int:
    return int(json.loads(grass("start", "--json").out)["pid"])


def test_the_service_takes_the_daemon_over_and_gives_it_back_while_a_job_runs(
    grass: Grass, system: SystemTools
) -> None:
    job = grass.until(grass.enqueue("sleep", "600"), "running")
    before = daemon_pid(grass)
    done = grass("install-service")
    assert done.code == 0, done.err
    assert daemon_pid(grass) == system.pid != before and not is_alive(before)
    assert grass.until(1, "running")["pid"] == job["pid"]
    assert "unchanged" in grass("install-service").out and daemon_pid(grass) == system.pid
    # Also after a restart by hand the unit runs the daemon.
    first = system.pid
    assert grass("restart").code == 0
    assert daemon_pid(grass) == system.pid != first
    assert grass("install-service", "--remove").code == 0
    assert not is_alive(system.pid) and daemon_pid(grass) != system.pid and not system.unit.exists()
    assert grass.until(1, "running")["pid"] == job["pid"] and is_alive(job["pid"])
    grass("kill", "--grace", "0", "1")


def test_the_daemon_of_the_service_has_the_options_of_the_one_before(grass: Grass, system: SystemTools) -> None:
    started(grass, "--label", "fast", "--name", "box")
    assert grass("install-service").code == 0
    [worker] = json.loads(grass("show", "--json").out)["workers"]
    assert (worker["name"], worker["labels"]) == ("box", ["fast"])
    assert daemon_pid(grass) == system.pid
    grass("install-service", "--remove")


def test_a_unit_that_finds_another_daemon_ends_well_so_that_systemd_does_not_repeat_it(grass: Grass) -> None:
    assert grass("start").code == 0
    done = grass("daemon", "--saved")
    assert done.code == 0 and "serves" in done.err and done.err.count("\n") == 1


def test_a_service_that_cannot_start_does_not_keep_the_daemon_from_starting(grass: Grass, system: SystemTools) -> None:
    assert grass("install-service").code == 0
    unit = system.unit.read_text()
    system.unit.write_text(unit.replace('ExecStart="', 'ExecStart="/gone'))
    done = grass("restart")
    assert done.code == 0 and "without its service" in done.err and done.err.count("\n") == 1, done
    assert daemon_pid(grass) != system.pid
    system.unit.write_text(unit)
    grass("install-service", "--remove")


def test_a_daemon_with_its_store_in_memory_is_not_replaced(grass: Grass, system: SystemTools) -> None:
    started(grass, "--store", "memory")
    done = grass("install-service")
    assert done.code == 5 and "in memory" in done.err and not system.unit.exists()


@pytest.mark.skipif(os.getuid() != 0, reason="mounts a folder over that of the crontabs")
def test_the_real_crontab_gets_one_line_and_loses_it_again(grass: Grass, system: SystemTools) -> None:
    if not Path("/usr/bin/crontab").exists():
        pytest.skip("crontab is not installed; tests/needs.sh installs it")
    system.without_systemd()
    script = """
    mount -t tmpfs tmpfs /var/spool/cron/crontabs || exit 77
    crontab() { /usr/bin/crontab "$@"; }
    echo '@daily true' | crontab - && grass install-service && grass install-service && crontab -l
    echo =====; grass install-service --remove; crontab -l; grass stop
    """
    (Path(grass.env["PATH"].partition(":")[0]) / "crontab").unlink()
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", script], env=grass.env, capture_output=True, text=True, timeout=60, check=False
    )
    if done.returncode == 77:
        pytest.skip("no mounts here")
    installed, _, removed = done.stdout.partition("=====\n")
    assert installed.count("@reboot") == 3 and "\n@daily true\n@reboot GRASS_HOME=" in installed, done
    assert "@daily true\n" in removed and "@reboot" not in removed
