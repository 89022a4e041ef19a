"""A line to sshd that is cut or stalls: every login and session ends in time, and is tried again without a person."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.world import eventually
from tests.machines.own_sshd import SSHD, OwnSshd, has_ended, serving
from tests.machines.proxy import Mode, Proxies, Proxy

from grassq.machines.ssh.failures import LoginFailed
from grassq.machines.ssh.target import SshTarget
from grassq.machines.ssh.transport import SshTransport
from grassq.machines.transport import LinkLost

pytestmark = pytest.mark.skipif(SSHD is None, reason="openssh-server is not installed")

#: A deadline that a test waits for, and one that no test reaches.
SOON_S = 1.0
LONG_S = 60.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[OwnSshd]:
    with serving(tmp_path, "MaxStartups 1000") as server:
        yield server


@pytest.fixture
def line(server: OwnSshd) -> Iterator[Proxy]:
    """The one way to the server."""
    proxies = Proxies(None)
    line = proxies.proxy("127.0.0.1", server.port)
    server.known_hosts.write_text(server.known_hosts.read_text().replace(f":{server.port}", f":{line.port}"))
    yield line
    proxies.close()


def over(line: Proxy, server: OwnSshd, *, login_s: float = LONG_S, open_s: float = LONG_S) -> SshTransport:
    target = SshTarget("127.0.0.1", server.user, line.port, str(server.key))
    folder = str(server.folder / "control")
    return SshTransport(target, folder, program=server.program, login_s=login_s, open_s=open_s)


@pytest.mark.parametrize("there", [True, False], ids=["there", "back"])
def test_a_login_that_is_cut_at_any_byte_is_tried_again_without_a_person(
    server: OwnSshd, line: Proxy, there: bool
) -> None:
    far = over(line, server)
    far.connect()
    whole = line.passed[0 if there else 1]
    far.close()
    for at in (1, 30, 60, whole // 4, whole // 2, whole - 600, whole - 300, whole - 40):
        line.fault("cut", there=there, back=not there, at=at)
        try:
            far.connect()
            far.open("echo in").close()
        except LoginFailed as failed:
            assert not failed.needs_person, f"at byte {at}: {failed}"
        except LinkLost:
            pass
        far.close()
    line.heal()
    far.connect()
    far.close()


@pytest.mark.parametrize("mode", ["stall", "swallow"])
def test_a_login_that_stalls_ends_at_our_own_deadline(server: OwnSshd, line: Proxy, mode: Mode) -> None:
    for at in (1, 1000):
        line.fault(mode, at=at)
        far = over(line, server, login_s=SOON_S)
        with pytest.raises(LoginFailed, match="did not log in") as failed:
            far.connect()
        assert not failed.value.needs_person
        line.heal()


def test_a_line_that_stalls_under_a_session_ends_each_call_at_its_deadline(server: OwnSshd, line: Proxy) -> None:
    far = over(line, server, open_s=SOON_S)
    far.connect()
    stream = far.open("cat")
    line.fault("stall")
    with pytest.raises(LinkLost, match="does not answer"):
        far.open("cat")
    with pytest.raises(LinkLost, match="does not answer"):
        stream.read_line(100, SOON_S)
    # What fits into the pipes is taken, and no more.
    with pytest.raises(LinkLost, match="does not answer"):
        stream.write(bytes(64 << 20), SOON_S)
    stream.close()
    far.close()
    line.heal()


def test_a_line_that_is_cut_under_a_session_ends_it_at_once_with_a_reason(server: OwnSshd, line: Proxy) -> None:
    far = over(line, server)
    far.connect()
    stream = far.open("cat")
    line.fault("cut")
    assert stream.read_some(100, LONG_S) == b""
    stream.close()
    eventually(lambda: has_ended(far), "the cut is noticed")
    with pytest.raises(LinkLost, match=r"has ended: \S"):
        far.open("cat")
    far.close()
    assert server.logins == 1


def test_a_session_that_is_cut_in_the_middle_of_its_bytes_gives_none_that_were_not_sent(
    server: OwnSshd, line: Proxy
) -> None:
    far = over(line, server)
    far.connect()
    stream = far.open("seq 1000000")
    line.fault("cut", there=False, at=200_000)
    found = b""
    while data := stream.read_some(1 << 20, LONG_S):
        found += data
    expected = b"".join(b"%d\n" % number for number in range(1, 100_001))
    assert 0 < len(found) < len(expected) and expected.startswith(found)
    assert stream.finish(LONG_S) == 255
    stream.close()
    far.close()
