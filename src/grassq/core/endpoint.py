"""The way to a broker: where it may be, how it is known, and with which right to come."""

from __future__ import annotations

from msgspec import Struct

from grassq.core.syntax.addresses import Address


class Endpoint(Struct, frozen=True):
    """Several addresses of one broker, its certificate's SHA-256 and a token."""

    addresses: tuple[Address, ...]
    fingerprint: bytes
    token: str

    @property
    def token_id(self) -> str:
        """The part of the token that is no secret."""
        return self.token.partition(".")[0]
