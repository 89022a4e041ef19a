"""Join codes: one word that holds a broker's address, its fingerprint and a secret."""

from __future__ import annotations

import binascii
import json

from grassq.core.syntax.addresses import ADDRESSES_MAX, Address, parse_address
from grassq.errors import BadInput

PREFIX = "grass1."
TEXT_MAX = 4096
FINGERPRINT_SIZE = 32
DAMAGED = "the join code is damaged; copy it whole, it is one word"


class Code:
    """What a join code holds. A plain class, because the command line imports it."""

    __slots__ = ("addresses", "fingerprint", "id", "secret")

    def __init__(self, addresses: list[Address], fingerprint: bytes, id: str, secret: str) -> None:
        self.addresses = addresses
        #: The pin of the broker (see `pins`), so that the first contact is pinned too.
        self.fingerprint = fingerprint
        self.id = id
        self.secret = secret


def encode(code: Code) -> str:
    """Return a code as the word people copy."""
    parts = [[str(address) for address in code.addresses], code.fingerprint.hex(), code.id, code.secret]
    body = binascii.b2a_base64(json.dumps(parts, separators=(",", ":")).encode("ascii"), newline=False)
    return PREFIX + body.decode("ascii").translate({43: 45, 47: 95}).rstrip("=")


def decode(text: str) -> Code:
    """Return the code in a word, or raise a sentence about what is wrong with it."""
    text = text.strip()
    if not text.startswith(PREFIX) or len(text) > TEXT_MAX:
        raise BadInput(f"this is not a join code; a code begins with {PREFIX} and is printed by the broker")
    body = text.removeprefix(PREFIX).translate({45: 43, 95: 47})
    try:
        parts = json.loads(binascii.a2b_base64(body + "=" * (-len(body) % 4), strict_mode=True))
        addresses, fingerprint, id_, secret = parts
        code = Code([parse_address(each) for each in addresses], bytes.fromhex(fingerprint), id_, secret)
    except (ValueError, TypeError, AttributeError, RecursionError, BadInput):
        raise BadInput(DAMAGED) from None
    is_whole = isinstance(addresses, list) and 1 <= len(addresses) <= ADDRESSES_MAX
    if not is_whole or len(code.fingerprint) != FINGERPRINT_SIZE or not _are_words(id_, secret):
        raise BadInput(DAMAGED)
    return code


def _are_words(*parts: object) -> bool:
    return all(isinstance(part, str) and part.isascii() and part.isprintable() and part for part in parts)
