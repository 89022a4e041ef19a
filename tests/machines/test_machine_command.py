"""`grass machine` from start to end: a real daemon, the user's ssh, and machines with a real sshd."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.world import BIN, Grass, eventually
from tests.machines.site import MachineSite, SshMachine

#: How long a machine may take until it is connected.
CONNECTED_S = 60.0
CPU = ("--capacity", "{cpu: 2}")


def row(grass: Grass, name: str = "alpha") -> dict[str, Any]:
    """A machine as `list --json` has it."""
    rows = {each["name"]: each for each in grass.json("machine", "list")["machines"]}
    return dict(rows.get(name, {"state": "absent"}))


def connected(grass: Grass, name: str = "alpha") -> None:
    eventually(lambda: row(grass, name)["state"] == "connected", f"{name} is connected", CONNECTED_S)


def book(grass: Grass) -> list[str]:
    """The machines that the home knows."""
    path = grass.home / "machines.json"
    return [each["name"] for each in json.loads(path.read_text())] if path.exists() else []


def answered(grass: Grass, question: bytes, answer: bytes, *words: str) -> tuple[int, str]:
    """Type `grass WORDS` on a terminal, and answer a question there; its exit code and what the terminal showed."""
    ours, theirs = pty.openpty()
    argv = [str(BIN / "grass"), *words]
    process = subprocess.Popen(
        argv, stdin=theirs, stdout=theirs, stderr=theirs, cwd=grass.cwd, env=grass.env, start_new_session=True,
        preexec_fn=lambda: os.close(os.open(os.ttyname(0), os.O_RDWR)),
    )  # fmt: skip
    os.close(theirs)
    shown, is_answered = b"", False
    try:
        while select.select([ours], [], [], CONNECTED_S)[0] and (part := os.read(ours, 1 << 16)):
            shown += part
            if question in shown and not is_answered:
                is_answered = True
                os.write(ours, answer)
    except OSError:
        pass  # the error of Linux when no process has the other end
    finally:
        os.close(ours)
    return process.wait(CONNECTED_S), shown.decode()


@pytest.mark.parametrize("python", [True, False])
def test_a_machine_is_added_used_and_removed_without_a_trace(grass: Grass, site: MachineSite, python: bool) -> None:
    alpha = site.machine("alpha", python=python)
    assert grass.ok("machine", "add", "alpha", "--label", "there", *CPU).startswith("added machine alpha\n  ")
    connected(grass)
    found = row(grass)
    assert (found["boot"], found["labels"]) == (alpha.boot_id, ["there"])
    assert ("python" in found["runs"]) is python
    job = grass.enqueue("--label", "there", "hostname")
    assert grass.ended(job)[0]["state"] == "succeeded"
    assert grass.ok("log", str(job)) == "alpha\n"
    assert grass.ok("machine", "remove", "alpha") == "removed machine alpha; nothing is left there\n"
    assert [each.name for each in alpha.home.iterdir() if each.name.startswith(".grass")] == []
    assert grass.ok("machine") == "no machines; `grass machine add NAME user@host` adds one\n"
    assert "alpha" not in {each["name"] for each in grass.json("show")["workers"]}


def test_the_same_definition_changes_nothing_and_another_one_replaces_it(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    assert grass.ok("machine", "add", "alpha").startswith("machine alpha is unchanged\n")
    assert grass.ok("machine", "add", "alpha", "--label", "new").startswith("machine alpha is changed\n")
    eventually(
        lambda: any("new" in each["labels"] for each in grass.json("show")["workers"]), "the worker has the label"
    )


@pytest.mark.parametrize("elsewhere", [("beta",), ("alpha", "--dir", "elsewhere"), ("ann@alpha",)])
def test_a_machine_with_unfinished_jobs_is_not_moved(
    grass: Grass, site: MachineSite, elsewhere: tuple[str, ...]
) -> None:
    alpha = site.machine("alpha")
    site.machine("beta")
    grass.ok("machine", "add", "alpha", *CPU)
    job = grass.enqueue("--worker", "alpha", "--", "sh", "-c", "until [ -e gate ]; do sleep 0.05; done; exit 7")
    grass.until(job, "running")
    said = grass.refuses(5, "machine", "add", "alpha", *elsewhere, *CPU)
    assert f"alpha has 1 unfinished job ({job})" in said and "`grass drain alpha`" in said
    assert grass.ok("machine", "add", "alpha", "--label", "new", *CPU).startswith("machine alpha is changed\n")
    (alpha.home / "gate").touch()
    assert grass.ended(job)[0]["exit_code"] == 7
    assert grass.ok("machine", "add", "alpha", *elsewhere, *CPU).startswith("machine alpha is changed\n")


def test_a_machine_file_of_ml_scheduler_is_a_machine(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    text = f"username: {alpha.user}\nip: {alpha.address}\nport: {alpha.port}\nssh_key_path: {alpha.key}\n"
    (grass.cwd / "machine.yaml").write_text(text)
    grass.ok("machine", "add", "alpha", "machine.yaml")
    connected(grass)


def test_the_name_of_a_worker_is_not_given_again(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    (own,) = [each["name"] for each in grass.json("show")["workers"]]
    assert "a worker is named" in grass.refuses(5, "machine", "add", own, "alpha")
    assert book(grass) == []


def test_an_unknown_host_key_is_refused_unless_a_person_accepts_it(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    site.known_hosts.write_text("")
    assert "--accept-key; nothing was added" in grass.refuses(5, "machine", "add", "alpha")
    assert (book(grass), site.known_hosts.read_text()) == ([], "")
    grass.ok("machine", "add", "alpha", "--accept-key")
    assert book(grass) == ["alpha"]
    assert site.known_hosts.read_text().startswith("alpha ")


@pytest.mark.parametrize(("answer", "is_added"), [("yes", True), ("no", False)])
def test_on_a_terminal_ssh_shows_the_fingerprint_and_asks(
    grass: Grass, site: MachineSite, answer: str, is_added: bool
) -> None:
    site.machine("alpha")
    site.known_hosts.write_text("")
    code, shown = answered(grass, b"(yes/no/[fingerprint])?", answer.encode() + b"\n", "machine", "add", "alpha")
    assert "SHA256:" in shown
    assert (code == 0, book(grass) == ["alpha"]) == (is_added, is_added), shown


def test_a_changed_host_key_is_refused_and_named(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    alpha.new_host_key()
    alpha.kill_sshd()
    alpha.restart_sshd()
    eventually(lambda: row(grass)["state"] == "needs you", "the machine waits for a person", CONNECTED_S)
    assert "host key" in row(grass)["why"] and "changed" in row(grass)["why"]
    assert "has changed" in grass.refuses(4, "machine", "add", "alpha", "--accept-key")
    site.trust()
    grass.ok("machine", "retry", "alpha")
    connected(grass)


def test_a_wrong_key_is_tried_once_and_said(grass: Grass, site: MachineSite, tmp_path: Path) -> None:
    alpha = site.machine("alpha")
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    site.config.write_text(site.config.read_text().replace(str(site.key), "none"))
    said = grass.refuses(4, "machine", "add", "alpha", "--key", str(other))
    assert "the login to alpha is refused" in said and "Permission denied" in said
    assert (book(grass), alpha.logins()) == ([], 0)


def test_a_machine_with_running_jobs_is_removed_only_by_force(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    grass.ok("machine", "add", "alpha", *CPU)
    connected(grass)
    job = grass.enqueue("--worker", "alpha", "--", "sleep", "4321")
    grass.until(job, "running")
    assert "--force" in grass.refuses(5, "machine", "remove", "alpha")
    assert book(grass) == ["alpha"]
    connected(grass)
    grass.ok("machine", "remove", "alpha", "--force")
    assert not [each for each in alpha.processes() if each.argv[0] == "sleep"]
    assert not list(alpha.home.glob(".grass*"))
    assert grass.ended(job)[0]["state"] in ("failed", "cancelled")


def test_a_machine_that_is_gone_is_removed_by_force_and_what_is_left_is_said(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    connected(grass)
    alpha.kill_sshd()
    assert grass("machine", "remove", "alpha").code != 0
    done = grass("machine", "remove", "alpha", "--force")
    assert (done.code, done.out) == (0, "removed machine alpha\n")
    assert "left there: .grass-ssh on " in done.err
    assert book(grass) == []


def without_its_worker(grass: Grass, site: MachineSite, alpha: SshMachine) -> None:
    """Make the worker of a machine wait for a person, while others may log in there."""
    alpha.new_host_key()
    alpha.kill_sshd()
    alpha.restart_sshd()
    eventually(lambda: row(grass)["state"] == "needs you", "the machine waits for a person", CONNECTED_S)
    site.trust()


def test_a_job_that_has_ended_there_is_not_erased_before_its_end_is_known_here(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    grass.ok("machine", "add", "alpha", *CPU)
    job = grass.enqueue("--worker", "alpha", "--", "sh", "-c", "until [ -e gate ]; do sleep 0.05; done; exit 7")
    grass.until(job, "running")
    without_its_worker(grass, site, alpha)
    (alpha.home / "gate").touch()
    (end,) = eventually(lambda: list(alpha.home.glob(".grass-ssh/*/jobs/*/*/exit")), "the job has ended there")
    said = grass.refuses(5, "machine", "remove", "alpha")
    assert end.exists()
    assert f"alpha has 1 unfinished job ({job})" in said and "`grass machine remove --force alpha`" in said
    grass.ok("machine", "retry", "alpha")
    assert grass.ended(job)[0]["exit_code"] == 7
    assert grass.ok("machine", "remove", "alpha") == "removed machine alpha; nothing is left there\n"


def test_a_machine_whose_folder_cannot_be_deleted_is_kept_and_the_reason_said(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    (far_home,) = alpha.home.glob(".grass-ssh/*")
    (far_home / "roots").mkdir()
    (far_home / "roots/file").touch()  # of root, so ann cannot delete it
    said = grass.refuses(5, "machine", "remove", "alpha")
    assert "alpha" in said and "roots" in said and "`grass machine remove --force alpha`" in said
    connected(grass)
    done = grass("machine", "remove", "alpha", "--force")
    assert (done.code, done.out) == (0, "removed machine alpha\n")
    assert "left there: .grass-ssh on " in done.err and "roots" in done.err
    assert book(grass) == []


def test_open_files_on_nfs_do_not_keep_a_machine_from_being_removed(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    (far_home,) = alpha.home.glob(".grass-ssh/*")
    (far_home / "roots").mkdir()
    (far_home / "roots/.nfs0000000000a1").touch()  # as NFS keeps a deleted file that is open
    done = grass("machine", "remove", "alpha")
    assert (done.code, done.out) == (0, "removed machine alpha\n")
    assert "left there: .grass-ssh on alpha: " in done.err
    assert book(grass) == []


def test_a_test_says_what_works(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    assert grass.ok("machine", "test", "alpha").startswith("ok   login: ")
    alpha.kill_sshd()
    done = grass("machine", "test", "alpha")
    assert done.code != 0 and "cannot be reached" in done.out + done.err
    assert "no machine 'beta'" in grass.refuses(3, "machine", "test", "beta")


def test_a_shell_there_has_the_users_words_and_the_exit_code(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    done = grass("machine", "shell", "alpha", "hostname; exit 7")
    assert (done.code, done.out) == (7, "alpha\n")


def test_a_machine_is_still_there_after_a_restart_of_the_daemon(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    grass.ok("restart")
    connected(grass)


def test_a_daemon_without_a_worker_of_its_own_uses_its_machines(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    grass.ok("machine", "add", "alpha", *CPU)
    grass.ok("stop")
    grass.start("daemon", "--no-worker")
    eventually(lambda: (grass.home / "grass.sock").exists(), "the daemon answers")
    connected(grass)
    assert [each["name"] for each in grass.json("show")["workers"] if each["online"]] == ["alpha"]
    job = grass.enqueue("--worker", "alpha", "hostname")
    assert grass.ended(job)[0]["state"] == "succeeded"
    grass.ok("stop")
    assert "alpha" in grass.ok("machine", "list")


def test_a_damaged_book_keeps_the_daemon_from_starting_in_one_line(grass: Grass) -> None:
    grass.home.mkdir(mode=0o700)
    (grass.home / "machines.json").write_text("{")
    done = grass("show")
    assert done.code != 0 and "machines.json cannot be read" in done.err


def test_a_job_may_name_a_machine_as_soon_as_it_is_added(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    grass.ok("machine", "add", "alpha", "--label", "there")
    jobs = [grass.enqueue("--worker", "alpha", "hostname"), grass.enqueue("--label", "there", "hostname")]
    assert {job["state"] for job in grass.ended(*jobs)} == {"succeeded"}


def test_machines_that_share_a_home_do_not_touch_each_others_jobs(grass: Grass, site: MachineSite) -> None:
    alpha = site.machine("alpha")
    grass.ok("machine", "add", "alpha", *CPU)
    script = "until [ -e gate ]; do sleep 0.05; done; echo done"
    job = grass.enqueue("--worker", "alpha", "--", "sh", "-c", script)
    grass.until(job, "running")
    said = grass.ok("machine", "add", "again", "alpha", *CPU)
    assert "alpha has the same boot id; if it is the same machine, its resources count twice" in said
    assert "leftovers: none" in grass.ok("machine", "test", "again")
    grass.ok("machine", "remove", "again")
    (alpha.home / "gate").touch()
    assert grass.ended(job)[0]["state"] == "succeeded"
    assert grass.ok("log", str(job)) == "done\n"


def test_the_worker_of_a_machine_is_removed_with_the_machine_only(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha")
    grass.ok("machine", "add", "alpha")
    assert "`grass machine remove alpha`" in grass.refuses(5, "remove", "alpha")
    assert "`grass machine remove alpha`" in grass.refuses(5, "remove", "alpha", "--lost")
    connected(grass)


def test_a_login_that_runs_nothing_is_refused(grass: Grass, site: MachineSite) -> None:
    site.machine("alpha", shell="nologin")
    assert "does not run `sh`" in grass.refuses(5, "machine", "add", "alpha")
    assert book(grass) == []
