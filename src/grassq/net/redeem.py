"""Exchange a one-time code for a token: what `grass join` and `grass login` do."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from typing import TYPE_CHECKING

from grassq.core.syntax.addresses import ADDRESSES_MAX, Address, parse_addresses
from grassq.core.syntax.join_codes import Code, decode
from grassq.errors import Refused, Unreachable
from grassq.net import broker_file
from grassq.net.broker import Broker, Credential, wrong_broker
from grassq.net.broker_file import KnownBroker, KnownBrokers, Permission
from grassq.net.client import read_answer
from grassq.net.retry import exchange

if TYPE_CHECKING:
    from grassq.net.broker_file import Kind

SECRET_BYTES = 32
#: Refusals that asking again does not change. After any other the code may have been taken, and its secret is good.
FINAL_STATUSES = (400, 404, 409)
#: What a broker may call a token, a scope, a name or its store.
_WORD = re.compile(r"[A-Za-z0-9][\w.-]{0,63}", re.ASCII)


def redeem(home: str, text: str, kind: Kind, *, name: str, at: str | None = None) -> Credential:
    """Exchange a code for a token and keep it. Repeating it with the same code, after a crash for example, is safe."""
    code = decode(text)
    addresses = code.addresses if at is None else parse_addresses(at, "the broker")
    secret = _secret(home, f"{kind}:{code.id}")
    digest = hashlib.sha256(secret.encode("ascii")).hexdigest()
    document = {"code": code.id, "secret": code.secret, "digest": digest, "kind": kind, "name": name}
    reached: list[Address] = []

    def token_for(address: Address, shown: bytes) -> None:
        if shown != code.fingerprint:
            raise wrong_broker(address, code.fingerprint, shown)
        reached.append(address)

    broker = Broker(addresses, token_for)
    response = exchange(broker, "POST", "/v1/redeem", json.dumps(document).encode("ascii"))
    if response.status in FINAL_STATUSES:
        with broker_file.changing(home) as known:
            known.pending.pop(f"{kind}:{code.id}", None)
    answer = read_answer(response)
    try:
        permission = Permission(f"{_word(answer['token'])}.{secret}", _word(answer["name"]), _word(answer["scope"]))
        store_id = _word(answer["store_id"])
    except (KeyError, ValueError):
        raise Unreachable(f"the answer of {broker} cannot be read; is it another version?") from None
    with broker_file.changing(home) as known:
        entry = _enter(known, code, reached[-1], addresses, store_id)
        setattr(entry, kind, permission)
        known.pending.pop(f"{kind}:{code.id}", None)
    return Credential(entry.addresses, entry, permission)


def refuse_second_join(home: str, text: str) -> None:
    """Refuse a second worker of one broker on this machine: its devices would be given out twice."""
    entry = broker_file.load(home).showing(decode(text).fingerprint)
    if entry is not None and entry.worker is not None:
        raise Refused(
            f"this machine is worker {entry.worker.name} of {entry.addresses[0]} already; `grass start` works for it."
            " If the broker has removed it, or refuses it as a copy, `grass join --again` with a new code"
        )


def _word(value: object) -> str:
    # The values are kept in a file that must stay readable and sent in a header line, and one of them names a folder.
    if not isinstance(value, str) or _WORD.fullmatch(value) is None:
        raise ValueError("no word")
    return value


def _secret(home: str, code: str) -> str:
    # Written down before it is used: the broker takes a code once, but the same secret for it any number of times.
    with broker_file.changing(home) as known:
        return known.pending.setdefault(code, secrets.token_urlsafe(SECRET_BYTES))


def _enter(known: KnownBrokers, code: Code, reached: Address, addresses: list[Address], store_id: str) -> KnownBroker:
    """Return the broker's entry: the address it was met at, then those it names, unless another broker has them."""
    for other in known.entries:
        if other.fingerprint != code.fingerprint and reached in other.addresses:
            # It has a new certificate, or another broker is there now. The old tokens stay with the old fingerprint:
            # a stranger with a code must not see them.
            other.addresses.remove(reached)
    entry = known.showing(code.fingerprint)
    if entry is None:
        entry = KnownBroker([], code.fingerprint, store_id)
        known.entries.append(entry)
    entry.store_id = store_id
    free = [each for each in [*addresses, *code.addresses] if known.at(each) is None]
    entry.addresses = list(dict.fromkeys([reached, *entry.addresses, *free]))[:ADDRESSES_MAX]
    known.entries[:] = [each for each in known.entries if each.addresses]
    return entry
