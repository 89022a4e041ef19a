"""Where others are: the address of a broker, as HOST, HOST:PORT or [IPV6]:PORT, and hosts and users for ssh."""

from __future__ import annotations

from grassq.core.printable import printable
from grassq.core.syntax.numbers import is_number
from grassq.errors import BadInput

PORT = 7500
PORT_MAX = 65_535
ADDRESSES_MAX = 16
#: The longest name DNS can hold.
HOST_MAX = 253
#: The longest user name that ssh is given.
USER_MAX = 255
_HEX = frozenset("0123456789abcdefABCDEF")
#: Characters that would change the meaning of a URL.
_NOT_IN_NAMES = frozenset(' /@,[]#?%\\<>^`{|}"')
#: Characters that mean something to a shell, to ssh's own patterns, or to a URL.
_NOT_IN_HOSTS = frozenset("'`\"$\\;&<>|(){},*?![]^#/=@ ")
_NOT_IN_USERS = frozenset("'`\"$\\;&<>|(){},*?![]^#/=%: ")


class Address:
    """A host by name or number, and a port. A plain class, because the command line imports it."""

    __slots__ = ("host", "port")

    def __init__(self, host: str, port: int = PORT) -> None:
        self.host = host
        self.port = port

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and (self.host, self.port) == (other.host, other.port)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __hash__(self) -> int:
        return hash((self.host, self.port))


def parse_address(text: str, what: str = "the address") -> Address:
    """Read one address; the port may be left out."""
    host, port = _split(text.strip())
    if not host or len(host) > HOST_MAX or not host.isprintable() or not _is_host(host):
        raise BadInput(f"{what} '{text}' is not HOST:PORT; an IPv6 address is written [::1]:{PORT}")
    if not is_number(port, 5) or not 1 <= int(port) <= PORT_MAX:
        raise BadInput(f"{what} '{text}' has no port from 1 to {PORT_MAX}")
    return Address(host.lower(), int(port))


def parse_addresses(text: str, what: str = "the address") -> list[Address]:
    """Read one address or several, separated by commas."""
    found = [parse_address(part, what) for part in text.split(",")]
    if len(found) > ADDRESSES_MAX:
        raise BadInput(f"{what} names more than {ADDRESSES_MAX} places")
    return found


def wrong_ssh_host(what: str, host: str) -> str:
    """Return in words why ssh is not given a host, "" if it is; `what` names the host."""
    wrong = _wrong_word(what, host, HOST_MAX, _NOT_IN_HOSTS)
    if not wrong and ":" in host and not _is_ipv6(host.partition("%")[0]):
        return f"{what} '{host}' has a colon and is not an IPv6 address"
    return wrong


def wrong_ssh_user(what: str, user: str) -> str:
    """Return in words why ssh is not given a user, "" if it is; `what` names the user."""
    return _wrong_word(what, user, USER_MAX, _NOT_IN_USERS)


def _wrong_word(what: str, name: str, most: int, refused: frozenset[str]) -> str:
    if not name:
        return f"{what} is missing"
    if name.startswith("-"):
        return f"{what} '{printable(name, 80)}' begins with '-': ssh would read it as an option"
    if len(name) > most:
        return f"{what} is longer than {most} characters"
    wrong = sorted({char for char in name if char in refused or not char.isprintable()})
    if not wrong:
        return ""
    some = printable(" ".join(map(repr, wrong)), 60)
    return f"{what} '{printable(name, 80)}' has characters that ssh refuses, or that mean more than themselves: {some}"


def _is_host(host: str) -> bool:
    number, _, zone = host.partition("%") if ":" in host else ("", "", host)
    return not any(c in _NOT_IN_NAMES for c in zone) and (not number or _is_ipv6(number))


def _is_ipv6(text: str) -> bool:
    before, gap, after = text.partition("::")
    groups = [group for part in (before, after) if part for group in part.split(":")]
    if groups and "." in groups[-1]:
        # The last two parts may be written like an IPv4 address.
        parts = groups.pop().split(".")
        if len(parts) != 4 or not all(part.isdecimal() and len(part) <= 3 and int(part) <= 255 for part in parts):
            return False
        groups += ["0", "0"]
    if not all(0 < len(group) <= 4 and set(group) <= _HEX for group in groups):
        return False
    return len(groups) < 8 if gap else len(groups) == 8


def _split(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return "", ""
        return host, rest[1:] if rest else str(PORT)
    if text.count(":") > 1:
        # A bare IPv6 address: without brackets a port cannot be told from its last part.
        return text, str(PORT)
    host, colon, port = text.partition(":")
    return host, port if colon else str(PORT)
