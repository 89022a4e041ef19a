"""Where a machine is: a host or an alias of ~/.ssh/config, a user, a port, a key file."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from grassq.core.printable import printable
from grassq.core.syntax.addresses import PORT_MAX, wrong_ssh_host, wrong_ssh_user
from grassq.core.syntax.numbers import is_number
from grassq.errors import BadInput

_HOW = "write user@host, user@host:port or [IPv6]:port; everything else belongs into ~/.ssh/config"


class SshTarget(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How ssh is told where to log in, as typed; what is left out, ssh finds in its own configuration."""

    host: str
    user: str | None = None
    port: int | None = None
    key: str | None = None

    def __post_init__(self) -> None:
        wrong = wrong_ssh_host("the host", self.host)
        if not wrong and self.user is not None:
            wrong = wrong_ssh_user("the user", self.user)
        if wrong:
            raise BadInput(f"{wrong}; {_HOW}")
        if self.port is not None and not 1 <= self.port <= PORT_MAX:
            raise BadInput(f"the port {self.port} is not from 1 to {PORT_MAX}")

    @property
    def shown(self) -> str:
        """The target as a person types it."""
        user = f"{self.user}@" if self.user else ""
        if self.port is None:
            return user + self.host
        return f"{user}[{self.host}]:{self.port}" if ":" in self.host else f"{user}{self.host}:{self.port}"


def parse_target(text: str) -> SshTarget:
    """Read user@host, user@host:port or ssh://user@host:port; an IPv6 address with a port is in brackets."""
    rest = text.strip()
    if rest.startswith("ssh://"):
        rest = rest.removeprefix("ssh://").removesuffix("/")
    user, at, host = rest.rpartition("@")
    number = None
    if host.startswith("["):
        host, bracket, after = host[1:].partition("]")
        if not bracket or ":" not in host or (after and not after.startswith(":")):
            raise BadInput(f"'{printable(text, 80)}' has brackets without an IPv6 address; {_HOW}")
        number = after[1:] if after else None
    elif host.count(":") == 1:
        host, _, number = host.partition(":")
    if number is not None and not is_number(number, 5):
        raise BadInput(f"'{printable(text, 80)}' has no port from 1 to {PORT_MAX}; {_HOW}")
    return SshTarget(host, user if at else None, None if number is None else int(number))


def addresses(target: SshTarget, settings: Mapping[str, str]) -> tuple[str, ...]:
    """Return where ssh finds a machine by the user's settings for it, as user@host:port; none without settings.

    The host is the typed one, and the one it stands for. Behind a jump host it is only the typed one: the address may
    be that of another machine in another network.
    """
    user, port, host = (settings.get(name) for name in ("user", "port", "hostname"))
    if user is None or port is None or host is None:
        return ()
    is_direct = all(settings.get(name, "none") == "none" for name in ("proxyjump", "proxycommand"))
    hosts = dict.fromkeys([target.host.lower(), *([host.lower()] if is_direct else [])])
    return tuple(f"{user}@[{each}]:{port}" if ":" in each else f"{user}@{each}:{port}" for each in hosts)
