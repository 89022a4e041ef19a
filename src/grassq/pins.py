"""Pins: how a broker is recognised, by the SHA-256 of its public key.

A certificate that is renewed with the same key passes. Files and codes of earlier releases hold the SHA-256 of the
whole certificate; such a pin is good as long as the broker shows this certificate.
"""

from __future__ import annotations

import hashlib
import hmac

PIN_SIZE = 32
#: Where the public key is among the fields of a certificate, counted from the serial number.
_KEY_FIELD = 5
_VERSION, _LONG, _LENGTH_BYTES_MAX = 0xA0, 0x80, 4


class Shown:
    """What a broker showed in a handshake. A plain class, because the command line imports it."""

    __slots__ = ("certificate", "key")

    def __init__(self, certificate: bytes) -> None:
        """Take a certificate as DER."""
        self.certificate = hashlib.sha256(certificate).digest()
        self.key = key_pin(certificate)

    def is_pinned_by(self, pin: bytes) -> bool:
        """Tell whether a pin means this broker."""
        return len(pin) == PIN_SIZE and pin in (self.key, self.certificate)


def key_pin(certificate: bytes) -> bytes:
    """Return the SHA-256 of the public key in a certificate (DER); b"" if there is none that can be read."""
    try:
        fields, _ = _content(certificate, 0)
        fields, _ = _content(fields, 0)
        at = _end(fields, 0) if fields[0] == _VERSION else 0
        for _ in range(_KEY_FIELD):
            at = _end(fields, at)
        return hashlib.sha256(fields[at : _end(fields, at)]).digest()
    except (IndexError, ValueError):
        return b""


def proof(digest: bytes, side: str, code: str, pin: bytes) -> str:
    """Return the proof that a side knows a token, by the digest of its secret; good for one code and one broker only.

    The proof shows neither the secret nor the digest. `side` is client or broker.
    """
    return hmac.digest(digest, f"{side} {code} {pin.hex()}".encode("ascii"), "sha256").hex()


def _content(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the content of the DER value that begins here, and where it ends."""
    length, begin = data[at + 1], at + 2
    if length & _LONG:
        count = length & ~_LONG
        if not 1 <= count <= _LENGTH_BYTES_MAX:
            raise ValueError("not DER")
        length, begin = int.from_bytes(data[begin : begin + count]), begin + count
    if begin + length > len(data):
        raise ValueError("cut off")
    return data[begin : begin + length], begin + length


def _end(data: bytes, at: int) -> int:
    return _content(data, at)[1]
