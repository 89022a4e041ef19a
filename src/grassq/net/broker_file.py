"""brokers.json: the brokers this user may use, how to recognise each, and the tokens. Only its owner may read it.

Every command that goes to a broker loads it, so it does without `typing`, and without `json` to read.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import contextmanager, suppress
from time import monotonic, sleep

from grassq import atomic_files
from grassq import home as homes
from grassq.core.syntax.addresses import ADDRESSES_MAX, Address, parse_address
from grassq.errors import BadInput, Refused
from grassq.net.encoding import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal, TypeAlias

    from grassq.pins import Shown

    #: The two uses of a token: by a user of the queue, or by a machine that runs jobs.
    Kind: TypeAlias = Literal["login", "worker"]

FILE_NAME = "brokers.json"
LOCK_NAME = "brokers.lock"
VERSION = 1
FILE_MAX = 1 << 20
BROKERS_MAX = 256
#: Codes being redeemed; the oldest are dropped.
PENDING_MAX = 16
LOCK_TIMEOUT_S = 10.0


class Permission:
    """A token, the name it was issued for, and what it allows."""

    def __init__(self, token: str, name: str, scope: str) -> None:
        self.token = token
        self.name = name
        self.scope = scope


class KnownBroker:
    """One broker: recognised by its pin (see `pins`), found at its addresses."""

    def __init__(self, addresses: list[Address], fingerprint: bytes, store_id: str) -> None:
        self.addresses = addresses
        self.fingerprint = fingerprint
        self.store_id = store_id
        self.login: Permission | None = None
        self.worker: Permission | None = None


class KnownBrokers:
    """What the file holds."""

    def __init__(self) -> None:
        self.entries: list[KnownBroker] = []
        #: By code: the secret made for it, kept until the broker has confirmed it.
        self.pending: dict[str, str] = {}

    def at(self, address: Address) -> KnownBroker | None:
        """Return the broker listed with this address."""
        return next((entry for entry in self.entries if address in entry.addresses), None)

    def showing(self, shown: Shown) -> KnownBroker | None:
        """Return the broker with this key or certificate."""
        return next((entry for entry in self.entries if shown.is_pinned_by(entry.fingerprint)), None)


def load(home: str) -> KnownBrokers:
    """Read the file; a file that others can read or write is refused, as ssh does."""
    path = f"{home}/{FILE_NAME}"
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return KnownBrokers()
    except OSError as error:
        raise Refused(f"cannot read {path}: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Refused(f"{path} is not a file; move it away")
        if status.st_uid != os.geteuid():
            raise Refused(
                f"{path} belongs to uid {status.st_uid}, not to you; set GRASS_HOME to a directory of your own"
            )
        if status.st_mode & 0o077:
            raise Refused(
                f"{path} holds tokens and other users may open it (mode {stat.S_IMODE(status.st_mode):04o});"
                f" `chmod 600 {path}`, and get new codes if another user has opened it"
            )
        content = file.read(FILE_MAX + 1)
    try:
        if len(content) > FILE_MAX:
            raise ValueError(f"longer than {FILE_MAX} bytes")
        return _decode(parse(content))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BadInput):
        raise Refused(f"{path} is damaged; move it away and `grass login` again with a new code") from None


@contextmanager
def changing(home: str) -> Iterator[KnownBrokers]:
    """Yield the file's content to be changed, then write it back whole; one writer at a time."""
    homes.prepare(home)
    try:
        lock = os.open(f"{home}/{LOCK_NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Refused(f"cannot write in {home}: {error.strerror}") from error
    try:
        _take(lock, home)
        known = load(home)
        yield known
        import json

        _write(home, FILE_NAME, json.dumps(_document(known), indent=1).encode("ascii") + b"\n")
    finally:
        os.close(lock)


def remember(home: str, shown: Shown, address: Address) -> None:
    """Note key and address of a broker that was recognised; if they cannot be written, the next command does it."""
    with suppress(Refused), changing(home) as known:
        entry = known.showing(shown)
        if entry is not None:
            entry.fingerprint = shown.key or entry.fingerprint
            if known.at(address) is None:
                entry.addresses = [*entry.addresses, address][-ADDRESSES_MAX:]


def choose(home: str, text: str | None) -> None:
    """Save the choice of `grass use`; None for the local daemon."""
    homes.prepare(home)
    if text is not None:
        return _write(home, homes.BROKER_NAME, f"{text}\n".encode())
    try:
        os.unlink(f"{home}/{homes.BROKER_NAME}")
    except FileNotFoundError:
        return
    except OSError as error:
        raise Refused(f"cannot remove {home}/{homes.BROKER_NAME}: {error.strerror}") from error


def _take(lock: int, home: str) -> None:
    deadline = monotonic() + LOCK_TIMEOUT_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline:
                raise Refused(f"another command has been writing {home}/{FILE_NAME} for long; try again") from None
            sleep(0.02)


def _write(home: str, name: str, content: bytes) -> None:
    try:
        atomic_files.write_aside(home, name, content, sync=True)
    except OSError as error:
        raise Refused(f"cannot write {home}/{name}: {error.strerror}") from error


def _decode(document: Any) -> KnownBrokers:
    if document["v"] != VERSION:
        raise ValueError("another version")
    known = KnownBrokers()
    for each in document["brokers"]:
        addresses = [parse_address(text) for text in each["addresses"]]
        entry = KnownBroker(addresses, bytes.fromhex(each["fingerprint"]), _text(each["store_id"]))
        entry.login, entry.worker = _permission(each.get("login")), _permission(each.get("worker"))
        known.entries.append(entry)
    known.pending = {_text(code): _text(secret) for code, secret in document.get("pending", {}).items()}
    return known


def _permission(document: Any) -> Permission | None:
    if document is None:
        return None
    return Permission(_text(document["token"]), _text(document["name"]), _text(document.get("scope", "worker")))


def _text(value: Any) -> str:
    # A token goes into a header line: plain characters only.
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise ValueError("not plain text")
    return value


def _document(known: KnownBrokers) -> dict[str, object]:
    if len(known.entries) > BROKERS_MAX:
        raise Refused(f"{FILE_NAME} holds {BROKERS_MAX} brokers; remove some that are no longer needed")
    brokers = [
        {
            "addresses": [str(address) for address in entry.addresses],
            "fingerprint": entry.fingerprint.hex(),
            "store_id": entry.store_id,
            "login": entry.login and vars(entry.login),
            "worker": entry.worker and vars(entry.worker),
        }
        for entry in known.entries
    ]
    pending = dict(list(known.pending.items())[-PENDING_MAX:])
    return {"v": VERSION, "brokers": brokers, **({"pending": pending} if pending else {})}
