"""The kernel tells whose process is at the other end of a connection on loopback, in both ways of asking."""

from __future__ import annotations

import os
import socket

import pytest

from grassq import peer_uid


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("way", ["question", "table"])
def test_the_user_of_the_other_end(host: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "table":
        monkeypatch.setattr(peer_uid, "NETLINK_SOCK_DIAG", 31)  # no such interface
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine has no {host}")
    with server, socket.create_connection(server.getsockname()[:2]) as client:
        accepted, _ = server.accept()
        with accepted:
            ends = accepted.getsockname(), accepted.getpeername()
            assert peer_uid.uid_of_peer(*ends) == os.geteuid() and peer_uid.is_own(*ends)
            client.shutdown(socket.SHUT_WR)  # it can still read an answer
            assert peer_uid.uid_of_peer(*ends) == os.geteuid() and peer_uid.is_own(*ends)
            client.close()
            assert peer_uid.uid_of_peer(*ends) is None and not peer_uid.is_own(*ends)
    gone = (host, 1), (host, 2)
    assert peer_uid.uid_of_peer(*gone) is None and peer_uid.is_own(*gone)
