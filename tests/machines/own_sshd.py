"""A real sshd on loopback with keys of its own, and an ssh that reads a configuration of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
from tests.e2e.world import eventually, free_port

from grassq.machines.ssh.target import SshTarget
from grassq.machines.ssh.transport import SshTransport
from grassq.machines.transport import LinkLost

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


class OwnSshd:
    """An sshd, its host key, the key that it lets in, and the client's side: `ssh`, `known_hosts` and a `config`."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self.folder = folder
        self.settings = settings
        self.user = getpass.getuser()
        self.key = new_key(folder / "id")
        self.host_key = new_key(folder / "host")
        self.known_hosts = folder / "known_hosts"
        self.log_file = folder / "sshd.log"
        (folder / "authorized_keys").write_text(self.key.with_suffix(".pub").read_text())
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self.program = self._client()
        self.trust(self.host_key)
        self.target = SshTarget("own")

    def trust(self, key: Path) -> None:
        """Let the client know this host key."""
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {key.with_suffix('.pub').read_text()}")

    def start(self) -> None:
        """Start the server, and return when it listens."""
        if os.getuid() == 0:
            Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
        lines = [
            "ListenAddress 127.0.0.1",
            f"Port {self.port}",
            f"HostKey {self.host_key}",
            f"AuthorizedKeysFile {self.folder}/authorized_keys",
            f"PidFile {self.folder}/sshd.pid",
            *("UsePAM no", "StrictModes no", "PasswordAuthentication no", "KbdInteractiveAuthentication no"),
            *("PermitRootLogin yes", "LogLevel VERBOSE", *self.settings),
        ]
        config = self.folder / "sshd_config"
        config.write_text("".join(f"{line}\n" for line in lines))
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(
                [str(SSHD), "-D", "-e", "-f", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        eventually(lambda: "Server listening on" in self.log, "sshd listens")

    def stop(self) -> None:
        """End the server and its sessions."""
        if self.process is not None:
            for pid in self.sessions():
                os.kill(pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
            self.process = None

    def sessions(self) -> list[int]:
        """Return the processes of the server below the one that listens, deepest last."""
        return [] if self.process is None else below(self.process.pid)

    @property
    def log(self) -> str:
        """What the server has said."""
        return self.log_file.read_text(errors="replace")

    @property
    def logins(self) -> int:
        """How many connections were let in."""
        return self.log.count("Accepted publickey")

    @property
    def tries(self) -> int:
        """How many connections were made."""
        return self.log.count("Connection from 127.0.0.1")

    def _client(self) -> str:
        """Write an ssh that reads our configuration: ssh finds the user's own by the passwd file, not by HOME."""
        config = self.folder / "config"
        config.write_text(
            f"Host own\n  HostName 127.0.0.1\n  Port {self.port}\n  User {self.user}\n  IdentityFile {self.key}\n"
            f"Host *\n  UserKnownHostsFile {self.known_hosts}\n  IdentitiesOnly yes\n  IdentityAgent none\n"
        )
        script = self.folder / "ssh"
        script.write_text(f'#!/bin/sh\nexec ssh -F "{config}" "$@"\n')
        script.chmod(0o755)
        return str(script)


@contextmanager
def serving(folder: Path, *settings: str) -> Iterator[OwnSshd]:
    """Run a server with further lines of sshd_config."""
    server = OwnSshd(folder, *settings)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def new_key(path: Path) -> Path:
    """Make a key pair without a passphrase."""
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def below(pid: int) -> list[int]:
    """Return the descendants of a process."""
    return [each.pid for each in psutil.Process(pid).children(recursive=True)]


def has_ended(far: SshTransport) -> bool:
    """Tell whether a connection is known to have ended."""
    try:
        far.check()
    except LinkLost:
        return True
    return False
