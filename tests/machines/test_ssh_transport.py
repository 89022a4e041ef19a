"""A machine by a real sshd on loopback: logins that work, and sessions over one login."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from pathlib import Path

import pytest
from tests.e2e.world import eventually, free_port
from tests.machines.own_sshd import SSHD, OwnSshd, serving
from tests.machines.ssh_logins import Connect, direct, server, transport

from grassq.errors import Refused
from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.ssh.mux import TooManySessions
from grassq.machines.ssh.target import SshTarget, parse_target
from grassq.machines.ssh.transport import SESSIONS_MAX, SshTransport
from grassq.machines.transport import LinkLost, Stream

__all__ = ["server", "transport"]

pytestmark = pytest.mark.skipif(SSHD is None, reason="openssh-server is not installed")

#: A deadline that a test waits for, and one that no test reaches.
SOON_S = 0.5
LONG_S = 60.0


def answer(stream: Stream) -> bytes:
    """Return the output of a command, and close its stream."""
    found = b""
    while data := stream.read_some(1 << 20, LONG_S):
        found += data
    assert stream.finish(LONG_S) == 0
    stream.close()
    return found


# Logins.


def test_many_commands_run_over_one_login_with_streams_and_codes_of_their_own(
    server: OwnSshd, transport: Connect
) -> None:
    far = transport(server)
    far.connect()
    far.check()
    first, second = far.open("cat"), far.open("cat")
    data = os.urandom(1 << 20)
    first.write(b"first\n", LONG_S)
    second.write(b"second\n", LONG_S)
    assert second.read_line(100, LONG_S) == b"second"
    assert first.read_line(100, LONG_S) == b"first"
    writing = threading.Thread(target=first.write, args=(data, LONG_S))
    writing.start()
    assert first.read_exactly(len(data), LONG_S) == data
    writing.join()
    for stream in (first, second):
        assert stream.finish(LONG_S) == 0
        stream.close()
    failing = far.open("ls /nowhere/at-all")
    assert failing.finish(LONG_S) == 2
    assert "/nowhere/at-all" in failing.words
    failing.close()
    assert server.logins == server.tries == 1


def test_an_alias_of_the_users_configuration_is_honoured_with_its_user_port_and_key(
    server: OwnSshd, transport: Connect
) -> None:
    far = transport(server, parse_target("own"))
    far.connect()
    assert answer(far.open("id -un")) == f"{server.user}\n".encode()


def test_a_key_a_user_and_a_port_that_were_typed_win(server: OwnSshd, transport: Connect) -> None:
    far = transport(server, direct(server))
    far.connect()
    assert answer(far.open("echo in")) == b"in\n"


def test_an_agent_is_asked_for_the_key(server: OwnSshd, transport: Connect, tmp_path: Path) -> None:
    config = server.folder / "config"
    config.write_text(config.read_text().replace("IdentitiesOnly yes\n  IdentityAgent none\n", "IdentityFile none\n"))
    socket_path = server.folder / "agent"
    agent = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket_path)], stdout=subprocess.DEVNULL)
    try:
        eventually(socket_path.exists, "the agent listens")
        env = {**os.environ, "SSH_AUTH_SOCK": str(socket_path)}
        subprocess.run(["ssh-add", "-q", str(server.key)], env=env, check=True)
        without = transport(server, direct(server, key=None), agent="")
        with pytest.raises(LoginFailed):
            without.connect()
        far = transport(server, direct(server, key=None), agent=str(socket_path))
        far.connect()
        assert answer(far.open("echo in")) == b"in\n"
    finally:
        agent.kill()
        agent.wait()


def test_a_jump_host_of_the_users_configuration_is_honoured(
    server: OwnSshd, transport: Connect, tmp_path: Path
) -> None:
    config = server.folder / "config"
    behind = f"Host behind\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n"
    config.write_text(f"{behind}  IdentityFile {server.key}\n  ProxyJump own\n{config.read_text()}")
    far = transport(server, SshTarget("behind"))
    far.connect()
    assert answer(far.open("echo in")) == b"in\n"
    assert server.logins == 2


def test_forwardings_commands_and_masters_of_the_users_configuration_are_left_out(
    server: OwnSshd, transport: Connect, tmp_path: Path
) -> None:
    config = server.folder / "config"
    port = free_port()
    lines = (
        f"LocalForward {port} 127.0.0.1:1",
        "RemoteCommand touch /nowhere/at-all",
        "RequestTTY force",
        "ForwardAgent yes",
        "PermitLocalCommand yes",
        f"LocalCommand touch {tmp_path}/local",
        "ControlMaster auto",
        f"ControlPath {tmp_path}/theirs",
        "ControlPersist yes",
        "UpdateHostKeys yes",
    )
    config.write_text("".join(f"{line}\n" for line in lines) + config.read_text())
    far = transport(server)
    far.connect()
    assert answer(far.open("echo in")) == b"in\n"
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect(("127.0.0.1", port))
    far.close()
    assert not (tmp_path / "local").exists()
    assert not (tmp_path / "theirs").exists()


def test_a_banner_that_looks_like_words_of_ssh_does_not_matter(tmp_path: Path, transport: Connect) -> None:
    banner = tmp_path / "banner"
    banner.write_text("Permission denied (publickey).\nHost key verification failed.\n\x1b[2J" * 100)
    with serving(tmp_path, f"Banner {banner}") as server:
        far = transport(server)
        far.connect()
        assert answer(far.open("echo in")) == b"in\n"


def test_a_home_with_a_long_or_odd_path_works_and_nothing_is_left_beside_it(server: OwnSshd, tmp_path: Path) -> None:
    for name in ("x" * 120, "with blanks", "100%h", "${HOME}", "a'b"):
        far = SshTransport(server.target, str(tmp_path / name / "machines"), program=server.program)
        far.connect()
        assert answer(far.open("echo in")) == b"in\n"
        words = far.interactive()
        stand_in = Path(words[words.index("-S") + 1]).parents[1]
        assert stand_in.is_dir() and stand_in.stat().st_mode & 0o777 == 0o700
        far.close()
        assert not stand_in.exists()


def test_a_stand_in_for_a_long_path_that_others_can_write_to_is_refused(server: OwnSshd, tmp_path: Path) -> None:
    far = SshTransport(server.target, str(tmp_path / ("x" * 120)), program=server.program)
    far.connect()
    words = far.interactive()
    stand_in = Path(words[words.index("-S") + 1]).parents[1]
    far.close()
    stand_in.mkdir()
    stand_in.chmod(0o777)
    with pytest.raises(Refused, match=rf"{stand_in} is not a folder that only you can write to"):
        far.connect()
    assert list(stand_in.iterdir()) == []
    stand_in.rmdir()
    stand_in.symlink_to(tmp_path)
    with pytest.raises(Refused):
        far.connect()
    stand_in.unlink()


# Sessions.


def test_a_server_that_gives_no_further_session_says_so_and_no_login_is_made(
    tmp_path: Path, transport: Connect
) -> None:
    with serving(tmp_path, "MaxSessions 2") as server:
        far = transport(server)
        far.connect()
        first, second = far.open("cat"), far.open("cat")
        for _ in range(3):
            with pytest.raises(TooManySessions, match="no further session"):
                far.open("cat")
        far.check()
        second.close()
        eventually(lambda: "Close session" in server.log, "the session has ended")
        third = far.open("cat")
        third.write(b"there\n", LONG_S)
        assert third.read_line(100, LONG_S) == b"there"
        first.close()
        third.close()
        assert server.logins == server.tries == 1


def test_our_own_bound_of_sessions_holds_before_the_servers(server: OwnSshd, transport: Connect) -> None:
    far = transport(server)
    far.connect()
    streams = [far.open("cat") for _ in range(SESSIONS_MAX)]
    with pytest.raises(TooManySessions, match=f"{SESSIONS_MAX} sessions"):
        far.open("cat")
    streams.pop().close()
    streams.append(far.open("cat"))
    for stream in streams:
        stream.close()


def test_a_closed_stream_ends_the_session_of_a_command_that_reads_its_input(
    server: OwnSshd, transport: Connect
) -> None:
    far = transport(server)
    far.connect()
    stream = far.open("cat")
    stream.close()
    eventually(lambda: "Close session" in server.log, "the session has ended")


@pytest.mark.parametrize("flood", ["yes", "sh -c yes"])
def test_a_flood_from_the_far_side_is_read_no_faster_than_asked(
    server: OwnSshd, transport: Connect, flood: str
) -> None:
    far = transport(server)
    far.connect()
    stream = far.open(flood)
    assert stream.read_line(100, LONG_S) == b"y"
    with pytest.raises(LinkLost):
        stream.finish(SOON_S)
    stream.close()
    assert answer(far.open("echo in")) == b"in\n"


def test_a_flood_of_stderr_is_bounded_and_its_control_characters_are_not_shown(
    server: OwnSshd, transport: Connect
) -> None:
    far = transport(server)
    far.connect()
    stream = far.open("sh -s")
    stream.write(b"printf '\\033[2J'; yes flood | head -c 5000000 >&2; echo done; printf '\\033[2J' >&2\n", LONG_S)
    assert stream.read_line(100, LONG_S).endswith(b"done")
    assert stream.finish(LONG_S) == 0
    assert stream.words.isprintable() and len(stream.words) < 3000
    stream.close()


def test_the_command_of_a_person_uses_the_login_that_is_there(server: OwnSshd, transport: Connect) -> None:
    far = transport(server)
    assert far.interactive() == [server.program, "-t", "--", "own"]
    far.connect()
    words = far.interactive("echo", "in")
    found = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert found.stdout == b"in\n"
    assert server.logins == 1


def test_a_command_that_a_login_shell_could_read_in_another_way_is_not_sent(
    server: OwnSshd, transport: Connect
) -> None:
    far = transport(server)
    far.connect()
    with pytest.raises(ValueError, match="other characters"):
        far.open("echo $HOME")
