"""Computers with a real sshd, each with a network, processes, users, files and a boot of its own; root makes them.

A machine is a set of namespaces. It sees the programs of this computer, less those it was made without, and nothing of
this computer's homes and temporary files. Nothing is written to /etc: its users are in a passwd file of its own.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import psutil
from tests.e2e.world import eventually
from tests.hosts.net import Host, Net, run, sweep

#: What makes the tests of this folder run; tests/needs.sh installs it.
PROGRAMS = ("ip", "nft", "sshd", "unshare", "nsenter", "busybox", "fish", "tcsh", "rsync", "setsid")
SHELLS = {
    "bash": "/bin/bash",
    "dash": "/bin/dash",
    "sh": "/bin/sh",
    "fish": "/usr/bin/fish",
    "tcsh": "/bin/tcsh",
    # With the `busybox` shell every program that BusyBox has is BusyBox's, as on Alpine.
    "busybox": "/bin/ash",
    "rbash": "/bin/rbash",
    "nologin": "/usr/sbin/nologin",
}
#: Where a login finds programs, and so where they are hidden.
PATHS = ("/usr/local/bin", "/usr/bin", "/bin")
FIRST_UID = 23001
USER = "ann"
#: Output of a noisy .bashrc, without a newline.
NOISE = 100_000
NOISY_BASHRC = f"head -c {NOISE} /dev/zero | tr '\\0' x; sleep 0.3\n"
_BOOT = Path(__file__).with_name("boot.py")


def missing() -> str | None:
    """Say what a site lacks on this computer, or None."""
    lacking = [name for name in PROGRAMS if not shutil.which(name)]
    if os.geteuid() != 0 or lacking:
        return f"machines with an sshd need root and {', '.join(lacking) or 'nothing else'}"
    return None


class Process(NamedTuple):
    """A process of a machine, with its number on this computer."""

    pid: int
    argv: tuple[str, ...]


class SshMachine:
    """One computer with an sshd. Paths are those of this computer unless a name ends in `_there`."""

    def __init__(
        self,
        host: Host,
        folder: Path,
        key: Path,
        *,
        shell: str = "bash",
        python: bool = True,
        without: Iterable[str] = (),
        others: Iterable[str] = (),
        max_sessions: int | None = None,
        sshd: Mapping[str, str] | None = None,
        home_bytes: int | None = None,
        files: Mapping[str, str] | None = None,
    ) -> None:
        self.name = host.name
        self.user, self.address, self.port = USER, host.address, 22
        self.target = f"{self.user}@{self.address}"
        self.key = key
        self.home_there = f"/home/{USER}"
        self._host = host
        self._folder = folder
        self._shell = SHELLS[shell]
        self._busybox = shell == "busybox"
        self._hidden = {*without, *(() if python else ("python*", "pypy*", "perl*", "pydoc*"))}
        self._users = (USER, *others)
        self._home_bytes = home_bytes
        self._site = folder / "site"
        self._disk = folder / "home"
        self._boots = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._site.mkdir(parents=True)
        for number, user in enumerate(self._users):
            home = self._disk / user
            home.mkdir(parents=True)
            for name, text in (files or {}).items() if user == USER else ():
                (home / name).parent.mkdir(parents=True, exist_ok=True)
                (home / name).write_text(text)
            for each in (home, *home.rglob("*")):
                os.chown(each, FIRST_UID + number, FIRST_UID + number)
            home.chmod(0o700)
        self._write_users()
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self._site / "host_key"))
        (self._site / "authorized_keys").write_text(key.with_suffix(".pub").read_text())
        options = {"MaxSessions": str(max_sessions)} if max_sessions is not None else {}
        self.configure({**options, **(sshd or {})})
        self.boot()

    # What is on the disk.

    def _write_users(self) -> None:
        passwd, shadow, group = (Path("/etc", name).read_text() for name in ("passwd", "shadow", "group"))
        for number, user in enumerate(self._users):
            uid = FIRST_UID + number
            passwd += f"{user}:x:{uid}:{uid}::/home/{user}:{self._shell if user == USER else '/bin/sh'}\n"
            shadow += f"{user}:*:19000:0:99999:7:::\n"
            group += f"{user}:x:{uid}:\n"
        for name, text in (("passwd", passwd), ("shadow", shadow), ("group", group)):
            (self._site / name).write_text(text)

    def configure(self, options: Mapping[str, str]) -> None:
        """Write sshd's options; they hold from the next start of sshd on."""
        lines = {
            "Port": str(self.port),
            "HostKey": "/run/site/host_key",
            "AuthorizedKeysFile": "/run/site/authorized_keys",
            "PidFile": "/run/site/sshd.pid",
            "UsePAM": "no",
            "PasswordAuthentication": "no",
            "LogLevel": "VERBOSE",
            "MaxStartups": "100",
            **options,
        }
        (self._site / "sshd_config").write_text("".join(f"{name} {value}\n" for name, value in lines.items()))

    def _mounts(self) -> str:
        """Return the script that makes this machine's view of the files."""
        lines = [f"hostname {self.name}", "mount -t tmpfs site /mnt", "mkdir /mnt/site /mnt/home"]
        lines += [f"mount --bind '{self._site}' /mnt/site", f"mount --bind '{self._disk}' /mnt/home"]
        for number, path in enumerate(dict.fromkeys(str(Path(each).resolve()) for each in PATHS)):
            lines += self._programs(path, f"/mnt/programs{number}")
        lines += [f"mount --bind /mnt/site/{name} /etc/{name}" for name in ("passwd", "shadow", "group")]
        lines += ["mount --bind /mnt/site/boot_id /proc/sys/kernel/random/boot_id"]
        lines += ["for each in /run /home /tmp /var/tmp /dev/shm /root; do mount -t tmpfs -o mode=755 site $each; done"]
        lines += ["chmod 1777 /tmp /var/tmp /dev/shm; chmod 700 /root; mkdir -p /run/sshd /run/site"]
        lines += ["mount --bind /mnt/site /run/site"]
        for number, user in enumerate(self._users):
            lines += [f"mkdir /home/{user}; mount --bind /mnt/home/{user} /home/{user}"]
            if user == USER and self._home_bytes is not None:
                owner = f"uid={FIRST_UID + number},gid={FIRST_UID + number}"
                lines += [f"mount -t tmpfs -o mode=700,{owner},size={self._home_bytes} home /home/{user}"]
                lines += [f"cp -a /mnt/home/{user}/. /home/{user}"]
        return "\n".join([*lines, ""])

    def _programs(self, path: str, aside: str) -> list[str]:
        """Return the lines that hide programs of a folder, and put BusyBox in the place of others."""
        hidden = sorted({each.name for pattern in self._hidden for each in Path(path).glob(pattern)})
        applets: list[str] = []
        if self._busybox and path == "/usr/bin":
            names = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True).stdout.split()
            applets = [name for name in names if name not in {*hidden, "busybox", "python"}]
        if not hidden and not applets:
            return []
        return [
            f"mkdir {aside} {aside}/upper {aside}/work",
            *(f"mknod '{aside}/upper/{name}' c 0 0" for name in hidden),
            *([f"for each in {' '.join(applets)}; do ln -s busybox {aside}/upper/$each; done"] if applets else []),
            f"mount -t overlay -o lowerdir={path},upperdir={aside}/upper,workdir={aside}/work programs {path}",
        ]

    # Its life.

    def boot(self) -> None:
        """Start the machine with a boot id and an uptime of its own, and its sshd."""
        assert self._process is None
        self._boots += 1
        (self._site / "boot_id").write_text(f"{uuid.uuid4()}\n")
        script = self._folder / "mounts.sh"
        script.write_text(self._mounts())
        passed = 100 * self._boots - int(time.clock_gettime(time.CLOCK_BOOTTIME))
        namespaces = ("--mount", "--uts", "--ipc", "--pid", "--time", "--boottime", str(passed))
        argv = ["unshare", *namespaces, "--fork", "--kill-child", "--mount-proc", sys.executable, "-I", "-S"]
        argv += [str(_BOOT), str(script), shutil.which("sshd") or "sshd", "-D", "-f", "/run/site/sshd_config"]
        self._process = subprocess.Popen([*self._host.prefix, *argv, "-E", "/run/site/log"], stdin=subprocess.PIPE)
        self.restart_sshd()

    def restart_sshd(self) -> None:
        """Start sshd, after `kill_sshd`."""
        assert self._process is not None and self._process.stdin is not None
        pid_file = self._site / "sshd.pid"
        pid_file.unlink(missing_ok=True)
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        eventually(lambda: pid_file.exists() or self._process is None or self._process.poll() is not None, "sshd runs")
        assert self._process.poll() is None, f"the machine {self.name} did not start"

    def kill_sshd(self) -> None:
        """Kill sshd and all of its sessions; other processes go on."""
        self._signal(self._sshd(), signal.SIGKILL)
        eventually(lambda: not self._sshd(), "sshd has ended")

    def kill_sessions(self) -> None:
        """Kill the sessions of sshd: connections end at once, and sshd takes new ones."""
        self._signal(self.sessions(), signal.SIGKILL)

    def freeze(self, *, everything: bool = False) -> None:
        """Stop the sessions of sshd, or all but the first process: connections stay, and nobody answers."""
        self._signal(self._all() if everything else self.sessions(), signal.SIGSTOP)

    def thaw(self) -> None:
        """Let go on what `freeze` stopped."""
        self._signal(self._all(), signal.SIGCONT)

    def halt(self) -> None:
        """Cut the power: every process is gone, the disk stays."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None

    def reboot(self) -> None:
        """Cut the power and start again: no process is left, and the boot id is another."""
        self.halt()
        self.boot()

    def new_host_key(self) -> None:
        """Make another host key; sshd shows it from its next start on."""
        for name in ("host_key", "host_key.pub"):
            (self._site / name).unlink()
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self._site / "host_key"))

    def become_twin_of(self, other: SshMachine) -> None:
        """Start again with the home and the host key of another machine, as the login nodes of a cluster have them."""
        self.halt()
        self._disk = other._disk
        for name in ("host_key", "host_key.pub"):
            shutil.copy(other._site / name, self._site / name)
        self.boot()

    # What can be seen of it.

    @property
    def boot_id(self) -> str:
        """The boot id that the machine says."""
        return (self._site / "boot_id").read_text().strip()

    @property
    def host_key(self) -> str:
        """The public half of the host key."""
        return (self._site / "host_key.pub").read_text().strip()

    @property
    def home(self) -> Path:
        """The home of the machine's user."""
        if self._home_bytes is None:
            return self._disk / USER
        return Path(f"/proc/{self._first()}/root{self.home_there}")

    def processes(self) -> list[Process]:
        """Return the processes of the machine's users, without those of sshd."""
        sshd = {each.pid for each in self._sshd()}
        return [each for each in self._all() if each.pid not in sshd]

    def sessions(self) -> list[Process]:
        """Return the processes of sshd that serve connections."""
        listener = self._listener()
        return [each for each in self._sshd() if each.pid != listener]

    def logins(self) -> int:
        """Return how many logins sshd has accepted."""
        return self.log().count("Accepted publickey")

    def log(self) -> str:
        """Return what sshd has logged."""
        with contextlib.suppress(FileNotFoundError):
            return (self._site / "log").read_text()
        return ""

    def run(self, script: str, *, user: str = USER) -> subprocess.CompletedProcess[str]:
        """Run a script as one of its users, without ssh: what somebody else does on that machine."""
        uid = str(FIRST_UID + self._users.index(user))
        argv = ["nsenter", "-t", str(self._first()), "--all", "--setuid", uid, "--setgid", uid]
        argv += ["env", "-i", f"HOME=/home/{user}", f"USER={user}", f"PATH={':'.join(PATHS)}"]
        argv += ["sh", "-c", f"cd; {script}"]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)

    def _first(self) -> int:
        """Return the number of the machine's first process, on this computer."""
        assert self._process is not None, f"the machine {self.name} is off"
        children = psutil.Process(self._process.pid).children()
        return int(children[0].pid)

    def _all(self) -> list[Process]:
        """Return every process of the machine but the first."""
        if self._process is None:
            return []
        found = []
        first = self._first()
        space = (Path("/proc") / str(first) / "ns/pid").readlink()
        for each in Path("/proc").iterdir():
            # One that ends meanwhile is none.
            with contextlib.suppress(OSError, ValueError):
                if each.name.isdigit() and int(each.name) != first and (each / "ns/pid").readlink() == space:
                    argv = (each / "cmdline").read_bytes().rstrip(b"\0").decode(errors="replace").split("\0")
                    if argv != [""]:
                        found.append(Process(int(each.name), tuple(argv)))
        return found

    def _sshd(self) -> list[Process]:
        return [each for each in self._all() if each.argv[0].startswith("sshd: ") or each.argv[0].endswith("/sshd")]

    def _listener(self) -> int | None:
        """Return the number of the sshd that listens: the child of the first process."""
        first = self._first()
        for each in self._sshd():
            with contextlib.suppress(psutil.NoSuchProcess):
                if psutil.Process(each.pid).ppid() == first:
                    return each.pid
        return None

    @staticmethod
    def _signal(processes: Iterable[Process], number: int) -> None:
        for each in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each.pid, number)


class MachineSite:
    """A network with one near host, where ssh starts, and machines."""

    def __init__(self, folder: Path) -> None:
        sweep()
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.net = Net()
        self.near = self.net.host("near")
        self.machines: dict[str, SshMachine] = {}
        self._elsewhere: dict[str, tuple[str, int]] = {}
        self.key = folder / "key"
        self.config = folder / "ssh_config"
        self.known_hosts = folder / "known_hosts"
        #: The program to use in the place of `ssh`: it starts on the near host and reads this site's configuration.
        self.ssh = folder / "ssh"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(self.key))
        ssh = f"exec nsenter --net=/run/netns/{self.near.space} ssh -F '{self.config}' \"$@\""
        self.ssh.write_text(f"#!/bin/sh\n{ssh}\n")
        self.ssh.chmod(0o755)
        self.write_config()

    def machine(
        self,
        name: str,
        *,
        shell: str = "bash",
        python: bool = True,
        without: Iterable[str] = (),
        others: Iterable[str] = (),
        max_sessions: int | None = None,
        sshd: Mapping[str, str] | None = None,
        home_bytes: int | None = None,
        files: Mapping[str, str] | None = None,
    ) -> SshMachine:
        """Start a machine whose user is ann.

        `without` hides programs by patterns of their names. `others` are more users, who may not log in. `home_bytes`
        makes the home a small file system of its own, which a reboot empties. `files` are texts in the home.
        """
        machine = SshMachine(
            self.net.host(name),
            self.folder / name,
            self.key,
            shell=shell,
            python=python,
            without=without,
            others=others,
            max_sessions=max_sessions,
            sshd=sshd,
            home_bytes=home_bytes,
            files=files,
        )
        self.machines[name] = machine
        self.trust()
        self.write_config()
        return machine

    def trust(self) -> None:
        """Write the host keys that the machines have now to known_hosts."""
        lines = []
        for name, machine in self.machines.items():
            lines.append(f"{name},{machine.address} {machine.host_key}\n")
        self.known_hosts.write_text("".join(lines))

    def route(self, machine: SshMachine, address: str, port: int) -> None:
        """Make ssh to the machine's name connect to another address: that of a proxy on the near host."""
        self._elsewhere[machine.name] = (address, port)
        self.write_config()

    def write_config(self, more: str = "") -> None:
        """Write the client's configuration: each machine by its name, and lines for all of them."""
        parts = []
        for name, machine in self.machines.items():
            address, port = self._elsewhere.get(name, (machine.address, machine.port))
            parts.append(f"Host {name}\n  HostName {address}\n  Port {port}\n  HostKeyAlias {name}\n  User {USER}\n")
        everywhere = (
            f"Host *\n  IdentityFile {self.key}\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n"
        )
        self.config.write_text("".join([*parts, everywhere, "  GlobalKnownHostsFile none\n", more]))

    def login(self, machine: SshMachine, command: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command over a connection of its own."""
        argv = [str(self.ssh), "-o", "BatchMode=yes", machine.name, command]
        return subprocess.run(argv, input=stdin, capture_output=True, timeout=60, check=False)

    def close(self) -> None:
        """Take everything down."""
        for machine in self.machines.values():
            machine.halt()
        self.net.close()
