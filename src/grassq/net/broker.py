"""A broker on another machine: its addresses, its certificate, and the token for it."""

from __future__ import annotations

from grassq.core.syntax.addresses import Address, parse_addresses
from grassq.errors import Refused
from grassq.net import broker_file
from grassq.net.retry import AWAY_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grassq.net.broker_file import Kind, KnownBroker, KnownBrokers, Permission
    from grassq.net.tls import TlsConnection
    from grassq.pins import Shown


class WrongBroker(Refused):
    """A machine shows another certificate than the one known for its address."""


class Broker:
    """Where requests go: addresses that are tried in turn, and the check of the certificate at each one."""

    def __init__(
        self,
        addresses: Sequence[Address],
        token_for: Callable[[Address, Shown], str | None],
        tell: Callable[[str], None] | None = None,
        away_s: float = AWAY_S,
    ) -> None:
        self.addresses = list(dict.fromkeys(addresses))
        #: Returns the token for a broker that shows this key at this address (None: no token), or raises GrassError.
        self.token_for = token_for
        #: Called once, with a sentence, when the broker does not answer and is asked again.
        self.tell = tell
        #: For how many seconds a request is repeated while the broker is away.
        self.away_s = away_s

    def __str__(self) -> str:
        return str(self.addresses[0])

    def open(self) -> tuple[TlsConnection, tuple[str, ...]]:
        """Return a connection to the right broker, and the header lines that begin each request."""
        from grassq.net import tls

        connection, token = tls.dial(self.addresses, self.token_for)
        return connection, () if token is None else (f"Authorization: Bearer {token}",)


class Credential:
    """What is needed to reach a broker: its addresses, its fingerprint, and the token."""

    def __init__(self, addresses: list[Address], entry: KnownBroker, permission: Permission) -> None:
        self.addresses = addresses
        #: The pin of its public key, or of its certificate if an earlier release wrote it.
        self.fingerprint = entry.fingerprint
        self.store_id = entry.store_id
        self.token = permission.token
        self.name = permission.name
        self.scope = permission.scope


def open_broker(home: str, text: str, tell: Callable[[str], None] | None = None, away_s: float = AWAY_S) -> Broker:
    """Return the broker that `--broker`, GRASS_BROKER or `grass use` names, with this user's login."""
    addresses = parse_addresses(text, "the broker")
    known = broker_file.load(home)
    listed = _listed(known, addresses)
    is_new = any(known.at(address) is None for address in addresses)
    if not any(entry.login for entry in (known.entries if is_new else listed)):
        raise _no_token(addresses[0], "login")
    # Also at its other known addresses: a standby broker may have taken over there.
    everywhere = [*addresses, *(address for entry in listed for address in entry.addresses)]

    def token_for(address: Address, shown: Shown) -> str:
        return _recognise(home, known, address, shown, "login")[1].token

    return Broker(everywhere, token_for, tell, away_s)


def joined(home: str) -> list[Credential]:
    """Return every broker this machine has joined as a worker."""
    entries = broker_file.load(home).entries
    return [Credential(entry.addresses, entry, entry.worker) for entry in entries if entry.worker is not None]


def forget_login(home: str, address: Address) -> list[Address]:
    """Forget the login at the broker with this address; return the addresses the broker was known by."""
    with broker_file.changing(home) as known:
        entry = known.at(address)
        if entry is None:
            return []
        entry.login = None
        if entry.worker is None:
            known.entries.remove(entry)
        return entry.addresses


def no_permission(address: Address, kind: Kind) -> Refused:
    """Return an error that says how to get access."""
    if kind == "login":
        return Refused(
            f"no access to {address}, because there is no token for it here: ask its owner for a code"
            " (`grass token create` there), then `grass login`"
        )
    return Refused(
        f"this machine has not joined {address}: ask its owner for a code (`grass token create --scope worker` there),"
        " then `grass join`"
    )


def _no_token(address: Address, kind: Kind) -> Refused:
    """Return the error about a missing token; raise Unreachable if a user typed a name that cannot be looked up."""
    if kind == "login":
        from grassq.net import tls

        tls.check_host(address)
    return no_permission(address, kind)


def credential(home: str, addresses: list[Address], kind: Kind) -> Credential:
    """Return this user's login at a broker, or what this machine joined it with; dial only unknown addresses."""
    known = broker_file.load(home)
    for entry in _listed(known, addresses):
        permission = getattr(entry, kind)
        if permission is not None:
            return Credential(list(dict.fromkeys([*addresses, *entry.addresses])), entry, permission)
    strange = [address for address in addresses if known.at(address) is None]
    if not strange or not any(getattr(entry, kind) for entry in known.entries):
        raise _no_token(addresses[0], kind)
    from grassq.net import tls
    from grassq.net.http import NoDaemon

    try:
        connection, (entry, permission) = tls.dial(strange, lambda at, shown: _recognise(home, known, at, shown, kind))
        connection.close()
    except NoDaemon:
        # No broker can be recognised there now. If this machine has joined only one, take it: the pin is checked later.
        only = [each for each in known.entries if each.worker is not None]
        if kind != "worker" or len(only) != 1 or only[0].worker is None:
            raise
        entry, permission = only[0], only[0].worker
    return Credential(list(dict.fromkeys([*addresses, *entry.addresses])), entry, permission)


def _listed(known: KnownBrokers, addresses: list[Address]) -> list[KnownBroker]:
    found = [known.at(address) for address in addresses]
    return list(dict.fromkeys(entry for entry in found if entry is not None))


def _recognise(
    home: str, known: KnownBrokers, address: Address, shown: Shown, kind: Kind
) -> tuple[KnownBroker, Permission]:
    """Return the broker listed with this address, or at a new address the one whose key is known."""
    listed = known.at(address)
    if listed is not None and not shown.is_pinned_by(listed.fingerprint):
        raise wrong_broker(address, listed.fingerprint, shown, kind)
    entry = listed or known.showing(shown)
    permission: Permission | None = None if entry is None else getattr(entry, kind)
    if entry is None or permission is None:
        raise no_permission(address, kind)
    if listed is None or entry.fingerprint != shown.key:
        broker_file.remember(home, shown, address)
        entry.fingerprint = shown.key or entry.fingerprint
    if listed is None:
        entry.addresses = [*entry.addresses, address]
    return entry, permission


def wrong_broker(address: Address, expected: bytes, got: Shown, kind: Kind) -> WrongBroker:
    """Return the error about a key that is not the known one."""
    verb = "grass join" if kind == "worker" else "grass login"
    return WrongBroker(
        f"{address} shows another key than the broker's, so nothing was sent: expected {expected.hex()},"
        f" got {got.key.hex()}; if its owner says that it has a new one, `{verb}` with a new code from there"
    )
