"""execute_batch with bad input, and with machines that cannot be used."""

from __future__ import annotations

import pytest
from tests.compat.batches import LITTLE, Desk, gated, open_gates, starts
from tests.e2e.world import eventually
from tests.machines.site import MachineSite, SshMachine


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nothing.sh", "--machines", "m"], "nothing.sh cannot be read: No such file"),
        (["batch.sh", "--machines", "nowhere"], "there is no machine file nowhere"),
        (["batch.sh", "--machines", "bad"], "bad.yaml line 2 is not YAML"),
        (["batch.sh", "--machines", "short"], "port is missing"),
        (["batch.sh", "--machines", "keyless"], "ssh_key_path"),
        (["batch.sh", "--machines", "option"], "ip '-oProxyCommand=x' begins with '-'"),
        (["batch.sh", "--machines", "m", "n"], "m and n are the same machine"),
        (["batch.sh", "--machines", "m", "--memory-required=lots"], "'lots' is not a whole number of megabytes"),
        (["batch.sh", "--machines", "m", "--copy-forward", "nothing"], "there is no file or folder nothing"),
        (["batch.sh", "--machines", "m", "--copy-backwards", "../x"], "--copy-backwards"),
        (["--machines", "m", "batch.sh"], "--machines has taken batch.sh as a machine"),
        (["empty.sh", "--machines", "m"], "empty.sh has no command in it"),
        ([".", "--machines", "m"], "cannot be read: Is a directory"),
    ],
)
def test_mistakes_are_one_line_and_exit_2_and_nothing_is_started(
    desk: Desk, two: SshMachine, words: list[str], said: str
) -> None:
    desk.batch("true")
    desk.batch(name="empty.sh")
    desk.yaml("m.yaml", two)
    desk.yaml("n.yaml", two)
    desk.yaml("option.yaml", two, ip="-oProxyCommand=x")
    desk.yaml("keyless.yaml", two, ssh_key_path="/nowhere/key")
    (desk.cwd / "bad.yaml").write_text("username: [\n")
    (desk.cwd / "short.yaml").write_text(f"username: ann\nip: h\nssh_key_path: {desk.site.key}\n")
    assert said in desk.refused(2, *words)
    assert not desk.results.exists()
    assert not (desk.home / "daemon.lock").exists(), "not even a daemon was needed"


def test_results_that_cannot_be_a_folder_are_a_mistake(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("true")
    desk.results.write_text("mine")
    assert "job_results is not a folder; results are put there, so move it away" in desk.refused(
        2, "batch.sh", "--machines", "m"
    )
    assert desk.results.read_text() == "mine"


def test_t46_a_machine_that_does_not_answer_ends_the_call_unless_it_is_skipped(
    desk: Desk, two: SshMachine, shared_site: MachineSite
) -> None:
    desk.yaml("m.yaml", two)
    desk.yaml("off.yaml", two, port=2299)
    desk.batch("true")
    refused = desk.execute("batch.sh", "--machines", "m", "off", LITTLE)
    assert (refused.code, refused.out) == (1, ""), refused
    assert refused.err.startswith("execute_batch: off cannot be used: ") and refused.err.count("\n") == 1
    assert "--skip-unreachable goes on without it" in refused.err
    done = desk.execute("batch.sh", "--machines", "m", "off", LITTLE, "--skip-unreachable")
    assert done.code == 0, done
    assert "machine limits:  {'m': 2}" in done.out
    alone = desk.execute("batch.sh", "--machines", "off", LITTLE, "--skip-unreachable", "--rerun-failed")
    assert alone.code == 0, "everything is done, so no machine is asked"


def test_a_host_key_that_is_not_known_is_accepted_only_when_asked(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("true")
    known = desk.site.known_hosts.read_text()
    try:
        desk.site.known_hosts.write_text("")
        refused = desk.execute("batch.sh", "--machines", "m", LITTLE)
        assert refused.code == 1
        assert "its host key is not known; log in once with ssh" in refused.err
        assert desk.execute("batch.sh", "--machines", "m", LITTLE, "--accept-key").code == 0
    finally:
        desk.site.known_hosts.write_text(known)


def test_a_machine_that_is_put_right_is_used_by_the_next_call(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("true", name="a.sh")
    desk.batch("true", name="b.sh")
    assert desk.execute("a.sh", "--machines", "m", LITTLE).code == 0
    keys = desk.site.known_hosts
    kept = keys.read_text()
    try:
        keys.write_text("")
        two.kill_sessions()
        eventually(lambda: desk.json("machine", "list")["machines"][0]["state"] == "needs you", "it waits", 60.0)
        refused = desk.execute("b.sh", "--machines", "m", LITTLE)
        assert refused.code == 1 and "m cannot be used: " in refused.err
    finally:
        keys.write_text(kept)
    assert desk.execute("b.sh", "--machines", "m", LITTLE).code == 0


def test_a_machine_that_the_user_has_added_is_used_under_its_name(desk: Desk, two: SshMachine) -> None:
    desk.yaml("m.yaml", two)
    desk.batch("true")
    desk.ok("machine", "add", "mine", "m.yaml")
    done = desk.execute("batch.sh", "--machines", "m", LITTLE, "--verbose")
    assert done.code == 0, done
    assert "batch.sh.1 is job 1 on mine" in done.err
    assert [machine["name"] for machine in desk.json("machine", "list")["machines"]] == ["mine"]


@pytest.mark.parametrize(
    ("typed", "ip"), [("ann@{address}", "{address}"), ("two", "{address}"), ("two", "two"), ("ann@two", "{address}")]
)
def test_a_machine_that_the_user_has_added_is_known_by_where_ssh_finds_it(
    desk: Desk, two: SshMachine, typed: str, ip: str
) -> None:
    desk.yaml("m.yaml", two, ip=ip.format(address=two.address))
    desk.batch("true")
    desk.ok("machine", "add", "mine", typed.format(address=two.address))
    desk.crash()  # the next daemon has not connected the machine when the batch asks
    done = desk.execute("batch.sh", "--machines", "m", LITTLE, "--verbose")
    assert "batch.sh.1 is job 1 on mine" in done.err, done
    assert [machine["name"] for machine in desk.json("machine", "list")["machines"]] == ["mine"]


def test_two_names_of_one_machine_are_found_out(desk: Desk, two: SshMachine) -> None:
    desk.ok("machine", "add", "mine", "two")
    desk.yaml("m.yaml", two)
    desk.yaml("n.yaml", two, ip="two")
    desk.batch("true")
    assert "m and n are the same machine, mine" in desk.refused(2, "batch.sh", "--machines", "m", "n", LITTLE)


def test_a_machine_that_the_user_adds_later_wins_and_slots_of_the_earlier_one_count(
    desk: Desk, two: SshMachine
) -> None:
    call = gated(desk, two, "a", "b")
    eventually(lambda: starts(two, "a") and starts(two, "b"), "two jobs run")
    desk.ok("machine", "add", "mine", two.target)
    desk.batch("true", name="other.sh")
    refused = desk.execute("other.sh", "--machines", "m", LITTLE)
    assert refused.code == 1 and "GPUs: each of them has a job" in refused.err, refused
    open_gates(two, "a", "b")
    assert call.end().code == 0
    done = desk.execute("other.sh", "--machines", "m", LITTLE, "--verbose")
    assert "other.sh.1 is job 3 on mine" in done.err, done
