"""The machines that other tests of this folder rely on are what they say."""

from __future__ import annotations

import subprocess

import psutil
import pytest
from tests.e2e.world import eventually
from tests.machines.site import NOISE, NOISY_BASHRC, MachineSite


def said(site: MachineSite, name: str, command: str) -> str:
    """Return what a command on a machine prints."""
    done = site.login(site.machines[name], command)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


def test_a_machine_is_a_computer_with_a_user_a_home_and_a_name_of_its_own(site: MachineSite) -> None:
    alpha = site.machine("alpha")
    assert said(site, "alpha", "id -un; pwd; hostname; ls -A").split() == ["ann", "/home/ann", "alpha"]
    assert said(site, "alpha", "ls -A /tmp; touch here; python3 -c 1") == ""
    assert (alpha.home / "here").exists()
    assert alpha.logins() == 2


@pytest.mark.parametrize("shell", ["fish", "tcsh", "busybox", "dash"])
def test_a_machine_without_python_has_none_under_any_name(shared_site: MachineSite, shell: str) -> None:
    shared_site.machine(shell, shell=shell, python=False)
    done = shared_site.login(shared_site.machines[shell], "ls -A /usr/bin /usr/local/bin")
    names = done.stdout.decode().split()
    assert len(names) > 100 and not [name for name in names if name.startswith(("python", "perl"))]
    for command in ("env python3 -c 1", "env /usr/bin/python3 -c 1"):
        assert shared_site.login(shared_site.machines[shell], command).returncode == 127


def test_a_machine_of_busybox_has_the_programs_of_busybox(site: MachineSite) -> None:
    site.machine("alpine", shell="busybox")
    assert said(site, "alpine", "readlink /bin/sh; readlink /bin/tail").split() == ["busybox"] * 2


def test_shells_that_talk_or_refuse(shared_site: MachineSite) -> None:
    noisy = shared_site.machine("noisy", files={".bashrc": NOISY_BASHRC})
    assert shared_site.login(noisy, "echo end").stdout == b"x" * NOISE + b"end\n"
    rbash = shared_site.machine("rbash", shell="rbash")
    assert b"restricted" in shared_site.login(rbash, "/bin/true").stderr
    nologin = shared_site.machine("nologin", shell="nologin")
    assert b"not available" in shared_site.login(nologin, "true").stdout


def test_a_reboot_ends_every_process_keeps_the_disk_and_changes_the_boot_id(site: MachineSite) -> None:
    alpha = site.machine("alpha", others=("eve",))
    site.login(alpha, "touch kept; setsid -f sleep 1000 >/dev/null 2>&1")
    assert [each.argv for each in alpha.processes()] == [("sleep", "1000")]
    before = said(site, "alpha", "cat /proc/sys/kernel/random/boot_id").strip()
    assert before == alpha.boot_id
    assert alpha.run("id -un; kill -9 -1; cat /home/ann/kept", user="eve").stdout == "eve\n"
    assert alpha.processes()
    alpha.reboot()
    assert not alpha.processes()
    assert said(site, "alpha", "cat kept /proc/sys/kernel/random/boot_id").strip() == alpha.boot_id != before
    assert 200 <= float(said(site, "alpha", "cat /proc/uptime").split()[0]) < 300


def test_sessions_can_be_killed_and_frozen(site: MachineSite) -> None:
    alpha = site.machine("alpha", max_sessions=2, home_bytes=1 << 20)
    assert site.login(alpha, "head -c 2000000 /dev/zero > big").returncode != 0
    assert (alpha.home / "big").stat().st_size <= 1 << 20
    alpha.kill_sshd()
    assert site.login(alpha, "true").returncode == 255
    alpha.restart_sshd()
    assert site.login(alpha, "true").returncode == 0
    eventually(lambda: not alpha.sessions(), "no session is left")
    argv = [str(site.ssh), alpha.name, "echo ready; cat"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as ssh:
        assert ssh.stdin is not None and ssh.stdout is not None
        assert ssh.stdout.readline() == b"ready\n"
        alpha.freeze()
        ssh.stdin.write(b"more\n")
        ssh.stdin.close()
        assert all(psutil.Process(each.pid).status() == psutil.STATUS_STOPPED for each in alpha.sessions())
        alpha.thaw()
        assert ssh.stdout.read() == b"more\n"
