"""A machine by a real sshd on loopback: logins that fail, each with words that say what to do."""

from __future__ import annotations

import re
import shlex
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from tests.e2e.world import eventually
from tests.machines.own_sshd import SSHD, OwnSshd, new_key, serving
from tests.machines.ssh_logins import Connect, direct, server, transport

from grassq.errors import BadInput
from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.ssh.target import SshTarget, parse_target
from grassq.machines.ssh.transport import SshTransport

__all__ = ["server", "transport"]

pytestmark = pytest.mark.skipif(SSHD is None, reason="openssh-server is not installed")

#: A deadline that a test waits for, and one that no test reaches.
SOON_S = 0.5
LONG_S = 60.0


def test_a_wrong_key_is_tried_once_and_needs_a_person(server: OwnSshd, transport: Connect, tmp_path: Path) -> None:
    wrong = new_key(tmp_path / "wrong")
    far = transport(server, direct(server, key=str(wrong)))
    with pytest.raises(LoginFailed, match=r"is refused: .*Permission denied \(publickey\)") as failed:
        far.connect()
    assert failed.value.needs_person
    assert shlex.join(["-i", str(wrong), "-p", str(server.port)]) in str(failed.value)
    assert (server.tries, server.logins) == (1, 0)


def test_a_key_that_others_can_read_is_named(server: OwnSshd, transport: Connect) -> None:
    server.key.chmod(0o644)
    with pytest.raises(LoginFailed, match=rf"The key {server.key} could not be used: bad permissions"):
        transport(server, direct(server)).connect()


def test_a_key_with_a_passphrase_asks_nobody(server: OwnSshd, transport: Connect) -> None:
    change = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(server.key)]
    subprocess.run(change, check=True, stdout=subprocess.DEVNULL)
    with pytest.raises(LoginFailed, match="a key in an agent") as failed:
        transport(server, direct(server)).connect()
    assert failed.value.needs_person


def test_an_agent_that_is_gone_is_named(server: OwnSshd, transport: Connect, tmp_path: Path) -> None:
    wrong = new_key(tmp_path / "wrong")
    with pytest.raises(
        LoginFailed, match=rf"the ssh agent at {tmp_path}/gone does not answer.*grass machine test"
    ) as failed:
        transport(server, direct(server, key=str(wrong)), agent=f"{tmp_path}/gone").connect()
    assert failed.value.needs_person


def test_a_key_file_that_is_not_there_is_named_and_nothing_is_tried(server: OwnSshd, transport: Connect) -> None:
    with pytest.raises(LoginFailed, match="/nowhere/id is not there") as failed:
        transport(server, direct(server, key="/nowhere/id")).connect()
    assert failed.value.needs_person
    assert server.tries == 0


def test_the_public_half_of_a_key_is_named_as_such(server: OwnSshd, transport: Connect) -> None:
    public = f"{server.key}.pub"
    assert Path(public).is_file()
    with pytest.raises(LoginFailed, match=r"public half of a key; name the file without \.pub") as failed:
        transport(server, direct(server, key=public)).connect()
    assert failed.value.needs_person


def test_a_changed_host_key_is_refused_with_its_file_its_line_and_the_way_out(
    server: OwnSshd, transport: Connect, tmp_path: Path
) -> None:
    server.trust(new_key(tmp_path / "other"))
    for accepting in (False, True):
        far = transport(server, new_key=accepting)
        with pytest.raises(LoginFailed, match=rf"has changed.* line 1 of {server.known_hosts}") as failed:
            far.connect()
        assert failed.value.needs_person and not failed.value.is_unknown_key
    assert server.logins == 0
    # The message names the command that removes the old key.
    command = re.search(r"run: (ssh-keygen .*?);", str(failed.value))
    assert command is not None
    subprocess.run(shlex.split(command[1]), check=True, capture_output=True)
    assert "127.0.0.1" not in server.known_hosts.read_text()


def test_an_unknown_host_key_is_accepted_only_where_a_person_asked_for_it(server: OwnSshd, transport: Connect) -> None:
    server.known_hosts.write_text("")
    with pytest.raises(
        LoginFailed, match=r"not in your known_hosts yet.*ssh own, or grass machine add --accept-key"
    ) as failed:
        transport(server).connect()
    assert failed.value.needs_person and failed.value.is_unknown_key
    assert (server.logins, server.known_hosts.read_text()) == (0, "")
    transport(server, new_key=True).connect()
    assert server.known_hosts.read_text().startswith(f"[127.0.0.1]:{server.port} ssh-ed25519 ")
    transport(server).connect()
    assert server.logins == 2


def test_a_configuration_that_keeps_no_host_keys_is_named_since_no_key_can_be_accepted(
    server: OwnSshd, transport: Connect
) -> None:
    config = server.folder / "config"
    lines = "UserKnownHostsFile /dev/null\nStrictHostKeyChecking no\n"
    config.write_text(lines + config.read_text())
    with pytest.raises(LoginFailed, match=r"UserKnownHostsFile /dev/null.*names a file") as failed:
        transport(server).connect()
    assert failed.value.needs_person and not failed.value.is_unknown_key
    assert server.logins == 0


def test_a_name_that_is_an_option_is_refused_before_any_process(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        SshTransport(parse_target(f"-oProxyCommand=touch {tmp_path}/pwned"), str(tmp_path))
    with pytest.raises(BadInput):
        SshTransport(SshTarget("gpu1", user=f"-oProxyCommand=touch${{IFS}}{tmp_path}/pwned"), str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_gone_is_tried_again(server: OwnSshd, transport: Connect) -> None:
    server.stop()
    with pytest.raises(LoginFailed, match=r"cannot be reached.*Connection refused") as failed:
        transport(server).connect()
    assert not failed.value.needs_person and not failed.value.is_turned_away


def test_a_name_that_nobody_knows_is_said(server: OwnSshd, transport: Connect) -> None:
    with pytest.raises(LoginFailed, match=r"no machine is found by the name of gpu1\.invalid"):
        transport(server, SshTarget("gpu1.invalid")).connect()


def test_a_mistake_in_the_users_configuration_is_shown_with_its_line(server: OwnSshd, transport: Connect) -> None:
    (server.folder / "config").write_text("Host own\n  HostNme 127.0.0.1\n")
    with pytest.raises(LoginFailed, match="config: line 2: Bad configuration option: hostnme") as failed:
        transport(server).connect()
    assert failed.value.needs_person


def test_a_server_with_too_many_logins_is_left_alone_for_a_while(tmp_path: Path, transport: Connect) -> None:
    with serving(tmp_path, "MaxStartups 1:100:1") as server, socket.socket() as other:
        other.connect(("127.0.0.1", server.port))
        eventually(lambda: server.tries == 1, "the server serves the other connection")
        with pytest.raises(LoginFailed, match="too many log in") as failed:
            transport(server).connect()
        assert failed.value.is_turned_away and not failed.value.needs_person


def test_a_program_that_is_not_there_is_said(server: OwnSshd, transport: Connect) -> None:
    with pytest.raises(LoginFailed, match="install openssh-client") as failed:
        transport(server, program="/nowhere/ssh").connect()
    assert failed.value.needs_person


def test_a_port_that_accepts_and_says_nothing_is_given_up_at_our_own_deadline(server: OwnSshd, tmp_path: Path) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        target = direct(server, port=mute.getsockname()[1])
        far = SshTransport(target, str(server.folder / "control"), program=server.program, login_s=SOON_S)
        with pytest.raises(LoginFailed, match=r"did not log in to .* within 0.5 s"):
            far.connect()
    assert list((server.folder / "control").iterdir()) == []


def test_a_login_that_is_under_way_ends_when_another_thread_closes(server: OwnSshd, transport: Connect) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        far = transport(server, direct(server, port=mute.getsockname()[1]))
        failures: list[LoginFailed] = []

        def connect() -> None:
            try:
                far.connect()
            except LoginFailed as error:
                failures.append(error)

        thread = threading.Thread(target=connect)
        thread.start()
        with mute.accept()[0]:
            far.close()
            thread.join(LONG_S)
        assert [str(failure).endswith("was given up") for failure in failures] == [True]
