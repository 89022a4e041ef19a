"""Several hosts on one machine: network namespaces on a bridge, with firewalls, names, and links that can be cut."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

#: The first host of a network is 1.2.3.4.
FIRST = 4
_numbers = itertools.count(1)
# Where `ip` and `nft` are, also for those whose PATH does not say so.
os.environ["PATH"] += ":/usr/sbin:/sbin"
#: `ip netns exec` shows a file from here instead of the one in /etc.
ETC = Path("/etc/netns")


def run(*argv: str, stdin: str | None = None) -> None:
    """Run a command that must succeed."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, f"{argv}: {done.stderr}"


def sweep() -> None:
    """Delete the networks of test runs that have been killed; their processes have ended with them."""
    for space in Path("/run/netns").glob("grass*x*"):
        if (owner := re.match(r"grass(\d+)x", space.name)) and not Path("/proc", owner[1]).exists():
            subprocess.run(["ip", "netns", "del", space.name], check=False, capture_output=True)
            shutil.rmtree(ETC / space.name, ignore_errors=True)


class Host:
    """One machine of the network."""

    def __init__(self, net: Net, name: str, number: int) -> None:
        self.name = name
        self.space = f"{net.space}-{name}"
        # The addresses of the page Grass began with; nothing of this network is ever seen outside.
        self.address = f"1.2.3.{number}"
        self.address6 = f"fd12:3::{number}"
        self._port = f"p{number}"
        run("ip", "netns", "add", self.space)
        run("ip", "-n", net.space, "link", "add", self._port, "type", "veth", "peer", "eth0", "netns", self.space)
        run("ip", "-n", net.space, "link", "set", self._port, "master", "switch", "up")
        for words in (("addr", "add", f"{self.address}/24", "dev", "eth0"),
                      ("addr", "add", f"{self.address6}/64", "dev", "eth0", "nodad"),
                      ("link", "set", "eth0", "up"), ("link", "set", "lo", "up")):  # fmt: skip
            run("ip", "-n", self.space, *words)
        self._rules("add table inet grass")
        self._rules("add chain inet grass in { type filter hook input priority 0; policy accept; }")
        self._rules("add chain inet grass out { type filter hook output priority 0; policy accept; }")

    @property
    def prefix(self) -> tuple[str, ...]:
        """What makes a command run on this host."""
        return ("ip", "netns", "exec", self.space)

    def _rules(self, text: str) -> None:
        run(*self.prefix, "nft", "-f", "-", stdin=text + "\n")

    def knows(self, names: Mapping[str, str]) -> None:
        """Give this host names for addresses."""
        folder = ETC / self.space
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
        (folder / "hosts").write_text("\n".join(lines) + "\n")

    def forbid_inbound(self) -> None:
        """A firewall that lets nobody in who was not called first."""
        self._rules("add rule inet grass in iif lo accept; add rule inet grass in ct state established,related accept")
        self._rules("add rule inet grass in ct state new counter drop")

    def cut(self, *, inward: bool = True, outward: bool = True) -> None:
        """Lose everything that comes, that goes, or both; nobody is told."""
        if inward:
            self._rules("insert rule inet grass in iif eth0 drop")
        if outward:
            self._rules("insert rule inet grass out oif eth0 drop")

    def heal(self) -> None:
        """Let everything through again."""
        self._rules("flush chain inet grass in; flush chain inet grass out")

    def close(self) -> None:
        """Take the host down; its processes must have ended."""
        subprocess.run(["ip", "netns", "del", self.space], check=False, capture_output=True)
        shutil.rmtree(ETC / self.space, ignore_errors=True)


class Net:
    """One network; what happens in it stays in it."""

    def __init__(self) -> None:
        self.space = f"grass{os.getpid()}x{next(_numbers)}"
        self.hosts: list[Host] = []
        run("ip", "netns", "add", self.space)
        run("ip", "-n", self.space, "link", "add", "switch", "type", "bridge")
        run("ip", "-n", self.space, "link", "set", "switch", "up")

    def host(self, name: str) -> Host:
        """Add a machine."""
        host = Host(self, name, FIRST + len(self.hosts))
        self.hosts.append(host)
        return host

    def close(self) -> None:
        """Take everything down."""
        for host in self.hosts:
            host.close()
        subprocess.run(["ip", "netns", "del", self.space], check=False, capture_output=True)
