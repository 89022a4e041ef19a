"""Exchange a one-time code for a token: what `grass join` and `grass login` do."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING

from grassq import pins
from grassq.core.syntax.addresses import ADDRESSES_MAX, Address, parse_addresses
from grassq.core.syntax.join_codes import decode
from grassq.errors import Unreachable
from grassq.net import broker_file
from grassq.net.broker import Broker, Credential, wrong_broker
from grassq.net.broker_file import KnownBroker, KnownBrokers, Permission
from grassq.net.client import read_answer
from grassq.net.retry import exchange
from grassq.pins import Shown

if TYPE_CHECKING:
    from grassq.net.broker_file import Kind

SECRET_BYTES = 32
#: How many older tokens are named to a broker that may know them; the broker takes as many.
HELD_MAX = 16
#: Refusals that asking again does not change. After any other the code may have been taken, and its secret is good.
FINAL_STATUSES = (400, 404, 409)
#: What a broker may call a token, a scope, a name or its store.
_WORD = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


def redeem(
    home: str,
    text: str,
    kind: Kind,
    *,
    name: str,
    at: str | None = None,
    again: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Credential:
    """Exchange a code for a token and keep it. Repeating it with the same code, after a crash for example, is safe.

    At a broker that knows this machine already, a worker stays the worker it is, unless `again`, and a login replaces
    the older login. The broker may have a new key: it proves by the older tokens that it is the same.
    """
    code = decode(text)
    addresses = code.addresses if at is None else parse_addresses(at, "the broker")
    secret = _secret(home, f"{kind}:{code.id}")
    document: dict[str, object] = {"code": code.id, "secret": code.secret, "digest": _digest(secret).hex()}
    document |= {"kind": kind, "name": name}
    held = _held(home, with_worker=not (again and kind == "worker"))
    if held:
        proofs = {id_: pins.proof(digest, "client", code.id, code.fingerprint) for id_, digest in held.items()}
        document["holds"] = proofs
    reached: list[tuple[Address, Shown]] = []

    def token_for(address: Address, shown: Shown) -> None:
        if not shown.is_pinned_by(code.fingerprint):
            raise wrong_broker(address, code.fingerprint, shown, kind)
        reached.append((address, shown))

    broker = Broker(addresses, token_for, tell)
    response = exchange(broker, "POST", "/v1/redeem", json.dumps(document).encode("ascii"))
    if response.status in FINAL_STATUSES:
        with broker_file.changing(home) as known:
            known.pending.pop(f"{kind}:{code.id}", None)
    answer = read_answer(response)
    try:
        permission = Permission(f"{_word(answer['token'])}.{secret}", _word(answer["name"]), _word(answer["scope"]))
        store_id = _word(answer["store_id"])
        proofs = dict(answer.get("proofs") or {})
    except (KeyError, ValueError, TypeError):
        raise Unreachable(f"the answer of {broker} cannot be read; is it another version?") from None
    same = {
        id_
        for id_, digest in held.items()
        if proofs.get(id_) == pins.proof(digest, "broker", code.id, code.fingerprint)
    }
    with broker_file.changing(home) as known:
        address, shown = reached[-1]
        entry = _enter(known, same, shown, [address, *addresses, *code.addresses], store_id)
        if kind == "worker" and entry.worker is not None and _id(entry.worker) == _id(permission):
            permission = entry.worker  # the worker keeps its token
        setattr(entry, kind, permission)
        known.pending.pop(f"{kind}:{code.id}", None)
    return Credential(entry.addresses, entry, permission)


def _held(home: str, *, with_worker: bool) -> dict[str, bytes]:
    """Return the ids of this user's tokens, the newest HELD_MAX of them, with the digests that their brokers know."""
    found: dict[str, bytes] = {}
    for entry in broker_file.load(home).entries:
        for permission in (entry.login, entry.worker if with_worker else None):
            if permission is not None:
                found[_id(permission)] = _digest(permission.token.partition(".")[2])
    return dict(list(found.items())[-HELD_MAX:])


def _id(permission: Permission) -> str:
    return permission.token.partition(".")[0]


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("ascii")).digest()


def _word(value: object) -> str:
    # The values are kept in a file that must stay readable and sent in a header line, and one of them names a folder.
    if not isinstance(value, str) or _WORD.fullmatch(value) is None:
        raise ValueError("no word")
    return value


def _secret(home: str, code: str) -> str:
    # Written down before it is used: the broker takes a code once, but the same secret for it any number of times.
    with broker_file.changing(home) as known:
        return known.pending.setdefault(code, secrets.token_urlsafe(SECRET_BYTES))


def _enter(known: KnownBrokers, same: set[str], shown: Shown, addresses: list[Address], store_id: str) -> KnownBroker:
    """Return the broker's entry, at the address it was met at first, then at those it names and those it had.

    Entries of the tokens in `same` become one with it: the broker has proved that it is theirs.
    """
    entry = KnownBroker([], shown.key or shown.certificate, store_id)
    met, *named = addresses
    had: list[Address] = []
    for other in [*known.entries]:
        permissions = [each for each in (other.login, other.worker) if each is not None]
        if shown.is_pinned_by(other.fingerprint) or any(_id(each) in same for each in permissions):
            known.entries.remove(other)
            had += other.addresses
            entry.login, entry.worker = entry.login or other.login, entry.worker or other.worker
        elif met in other.addresses:
            # Another broker is there now. The old tokens stay with the old pin: a stranger with a code must not see
            # them.
            other.addresses.remove(met)
    free = [each for each in named if known.at(each) is None]
    entry.addresses = list(dict.fromkeys([met, *had, *free]))[:ADDRESSES_MAX]
    known.entries[:] = [*(each for each in known.entries if each.addresses), entry]
    return entry
