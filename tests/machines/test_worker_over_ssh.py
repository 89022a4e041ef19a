"""A machine over ssh as a worker: real daemon, real ssh, real sshd, and lines that end at bad moments."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from tests.e2e.world import FINAL, Grass, end, eventually
from tests.machines.site import MachineSite, SshMachine

#: How long a silent machine may stay unnoticed, and then be connected again.
NOTICED_S = 60.0


@pytest.fixture(params=["python", "sh"])
def alpha(request: pytest.FixtureRequest, site: MachineSite, grass: Grass) -> SshMachine:
    """A machine with Python or without, which the next daemon connects."""
    machine = site.machine("alpha", python=request.param == "python")
    know(grass, "alpha")
    return machine


def know(grass: Grass, *names: str, **more: Any) -> None:
    """Write the book of a home, as `grass machine add` does."""
    grass.home.mkdir(mode=0o700, exist_ok=True)
    entries = [{"name": name, "target": {"host": name}, "capacity": "{cpu: 4}", **more} for name in names]
    (grass.home / "machines.json").write_text(json.dumps(entries))


def worker(grass: Grass, name: str = "alpha") -> dict[str, Any]:
    workers: dict[str, dict[str, Any]] = {each["name"]: each for each in grass.json("show")["workers"]}
    return workers.get(name, {"online": False})


def connected(grass: Grass, name: str = "alpha") -> None:
    eventually(lambda: worker(grass, name)["online"], f"{name} is connected", NOTICED_S)


def state(grass: Grass, job: int) -> str:
    return str(grass.jobs(str(job))[0]["state"])


def ended(grass: Grass, job: int) -> dict[str, Any]:
    eventually(lambda: state(grass, job) in FINAL, f"job {job} ends", NOTICED_S)
    return grass.jobs(str(job))[0]


def gated(grass: Grass, machine: SshMachine, gate: str = "gate") -> tuple[int, Callable[[], None]]:
    """Submit a job on the machine that counts its starts and waits for a gate there."""
    script = f"echo started >>starts; echo begun; until [ -e {gate} ]; do sleep 0.05; done; echo done; exit 7"
    job = grass.enqueue("--worker", machine.name, "--", "sh", "-c", script)
    return job, lambda: (machine.home / gate).touch()


def starts(machine: SshMachine) -> int:
    file = machine.home / "starts"
    return file.read_text().count("started") if file.exists() else 0


def test_a_job_runs_there_and_its_code_and_log_come_back(grass: Grass, alpha: SshMachine) -> None:
    connected(grass)
    job = grass.enqueue("--worker", "alpha", "--cpu=2", "--", "sh", "-c", "hostname; pwd; echo $GRASS_JOB_ID; exit 3")
    one = ended(grass, job)
    assert (one["state"], one["exit_code"], one["worker"]) == ("failed", 3, "alpha")
    assert grass.ok("log", str(job)).splitlines() == ["alpha", alpha.home_there, str(job)]
    # Devices there are added and drained like those of any worker, and a wrapper comes before the command.
    grass.ok("device", "add", "7", "8", "--worker", "alpha")
    grass.ok("device", "drain", "7", "--worker", "alpha")
    script = "echo $CARD $CUDA_VISIBLE_DEVICES $GRASS_PROJECT"
    words = ("--gpu=1", "--wrap", "env CARD={gpu}", "--project", "p", "--", "sh", "-c", script)
    wrapped = grass.enqueue("--worker", "alpha", *words)
    ended(grass, wrapped)
    assert grass.ok("log", str(wrapped)) == "8 8 p\n"
    assert worker(grass)["drained_devices"] == {"gpu": ["7"]}
    kept = grass("clean", "--keep-logs", str(wrapped))
    assert f"job {wrapped} stays: worker alpha cannot keep the logs" in kept.err and grass.jobs(str(wrapped))


def test_a_job_that_is_killed_leaves_no_process_there(grass: Grass, alpha: SshMachine) -> None:
    connected(grass)
    script = "setsid sh -c 'sleep 4321' & sleep 4322 & sleep 4323"
    job = grass.enqueue("--worker", "alpha", "--grace", "1s", "--", "sh", "-c", script)

    def sleepers() -> int:
        return sum(each.argv[1:] in (("4321",), ("4322",), ("4323",)) for each in alpha.processes())

    eventually(lambda: sleepers() == 3, "the job runs")
    grass.ok("kill", str(job))
    assert ended(grass, job)["state"] == "cancelled"
    assert sleepers() == 0


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_a_signal_is_not_taken_for_an_exit_code(grass: Grass, alpha: SshMachine, sig: int) -> None:
    connected(grass)
    killed = grass.enqueue("--worker", "alpha", "--", "sh", "-c", f"kill -{int(sig)} $$")
    exited = grass.enqueue("--worker", "alpha", "--", "sh", "-c", f"exit {128 + sig}")
    one, other = ended(grass, killed), ended(grass, exited)
    assert (one["signal"], one["exit_code"]) == (sig, None)
    assert (other["signal"], other["exit_code"]) == (None, 128 + sig)


def kill_sessions(machine: SshMachine) -> None:
    machine.kill_sessions()


def restart_sshd(machine: SshMachine) -> None:
    machine.kill_sshd()
    machine.restart_sshd()


def kill_programs(machine: SshMachine) -> None:
    """Kill what serves the connection there."""
    for each in machine.processes():
        if "serve" in each.argv or "events" in each.argv:
            end(each.pid)


@pytest.mark.parametrize("fault", [kill_sessions, restart_sshd, kill_programs])
def test_a_job_runs_on_when_the_connection_dies(
    grass: Grass, alpha: SshMachine, fault: Callable[[SshMachine], None]
) -> None:
    connected(grass)
    job, open_gate = gated(grass, alpha)
    eventually(lambda: state(grass, job) == "running", "it runs")
    fault(alpha)
    open_gate()
    assert ended(grass, job)["exit_code"] == 7
    assert grass.ok("log", str(job)) == "begun\ndone\n"
    assert starts(alpha) == 1


def test_a_late_word_of_an_old_connection_keeps_no_job_from_starting(
    grass: Grass, site: MachineSite, alpha: SshMachine
) -> None:
    connected(grass)
    # An old connection wanted to take over, and its bytes come only now.
    said = site.login(alpha, "sh .grass-ssh/*/bin/far-*.sh serve old", b"token lead\n").stdout
    assert said.endswith(b"token end\n") and b"failed" not in said
    job, open_gate = gated(grass, alpha)
    eventually(lambda: state(grass, job) == "running", "it runs", NOTICED_S)
    open_gate()
    assert ended(grass, job)["exit_code"] == 7
    assert starts(alpha) == 1
    assert "cannot be made" not in grass.ok("why", str(job))


def test_a_job_that_ends_while_the_daemon_is_dead_is_known_afterwards(grass: Grass, alpha: SshMachine) -> None:
    connected(grass)
    job, open_gate = gated(grass, alpha)
    eventually(lambda: state(grass, job) == "running", "it runs")
    end(grass.daemon_pid())
    open_gate()
    eventually(lambda: not any("gate" in " ".join(each.argv) for each in alpha.processes()), "the job ends")
    grass.ok("start")
    assert ended(grass, job)["exit_code"] == 7
    assert starts(alpha) == 1
    assert grass.ok("log", str(job)) == "begun\ndone\n"


def test_a_reboot_there_is_noticed(grass: Grass, alpha: SshMachine) -> None:
    connected(grass)
    job, _ = gated(grass, alpha)
    eventually(lambda: state(grass, job) == "running", "it runs")
    alpha.reboot()
    one = ended(grass, job)
    assert (one["state"], one["outcome"]) == ("failed", "lost")
    again = grass.enqueue("--worker", "alpha", "--", "true")
    assert ended(grass, again)["state"] == "succeeded"


def at_twin(grass: Grass, site: MachineSite, alpha: SshMachine) -> str:
    """Let the name `alpha` lead to another computer with the same home; return what is said about the machine then."""
    twin = site.machine("beta")
    twin.become_twin_of(alpha)
    site.route(alpha, twin.address, twin.port)
    alpha.kill_sessions()
    eventually(lambda: listed(grass)["state"] == "needs you", "a person is asked", NOTICED_S)
    return str(listed(grass)["why"])


def listed(grass: Grass) -> dict[str, Any]:
    (machine,) = grass.json("machine", "list")["machines"]
    return dict(machine)


def test_a_name_of_several_computers_loses_no_job(grass: Grass, site: MachineSite, alpha: SshMachine) -> None:
    connected(grass)
    job, open_gate = gated(grass, alpha)
    eventually(lambda: state(grass, job) == "running", "it runs")
    why = at_twin(grass, site, alpha)
    assert "this name leads to several computers" in why and "alpha and beta" in why and "~/.ssh/config" in why
    assert "1 unfinished job" in grass.refuses(5, "machine", "remove", "alpha")
    assert state(grass, job) == "running"
    site.route(alpha, alpha.address, alpha.port)
    grass.ok("machine", "retry", "alpha")
    open_gate()
    assert ended(grass, job)["exit_code"] == 7
    assert starts(alpha) == 1


def test_a_machine_that_became_another_is_removed_by_force_and_added_again(
    grass: Grass, site: MachineSite, alpha: SshMachine
) -> None:
    connected(grass)
    assert "grass machine remove --force" in at_twin(grass, site, alpha)
    done = grass("machine", "remove", "alpha", "--force")
    assert (done.code, done.out) == (0, "removed machine alpha\n") and "may still run on alpha" in done.err
    grass.ok("machine", "add", "alpha", "--capacity", "{cpu: 4}")
    job = grass.enqueue("--worker", "alpha", "--", "hostname")
    assert ended(grass, job)["state"] == "succeeded"
    assert grass.ok("log", str(job)) == "beta\n"


def test_a_frozen_machine_is_shown_as_unreachable_and_goes_on(grass: Grass, alpha: SshMachine) -> None:
    connected(grass)
    job, open_gate = gated(grass, alpha)
    eventually(lambda: state(grass, job) == "running", "it runs")
    alpha.freeze()
    eventually(lambda: not worker(grass)["online"], "its silence is noticed", NOTICED_S)
    assert state(grass, job) == "running"
    alpha.thaw()
    open_gate()
    assert ended(grass, job)["exit_code"] == 7
    assert starts(alpha) == 1


def test_a_stopped_daemon_leaves_no_ssh_behind(grass: Grass, alpha: SshMachine) -> None:
    connected(grass)
    grass.ok("stop")
    eventually(lambda: not alpha.sessions(), "no session is left")
