"""A server of its own for each test of logins, and transports to it."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.machines.own_sshd import OwnSshd, serving

from grassq.machines.ssh.target import SshTarget
from grassq.machines.ssh.transport import SshTransport

Connect = Callable[..., SshTransport]


@pytest.fixture
def server() -> Iterator[OwnSshd]:
    # A short path, below which control sockets fit; the folders of tests are deep.
    with tempfile.TemporaryDirectory(prefix="grass-", dir="/tmp") as folder, serving(Path(folder)) as server:
        yield server


@pytest.fixture
def transport(tmp_path: Path) -> Iterator[Connect]:
    """Make transports to a server, which are closed at the end."""
    made: list[SshTransport] = []

    def make(server: OwnSshd, target: SshTarget | None = None, **options: object) -> SshTransport:
        words = {"program": server.program, **options}
        made.append(SshTransport(target or server.target, str(tmp_path / "control"), **words))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


def direct(server: OwnSshd, **changed: object) -> SshTarget:
    words = {"host": "127.0.0.1", "user": server.user, "port": server.port, "key": str(server.key), **changed}
    return SshTarget(**words)  # type: ignore[arg-type]
