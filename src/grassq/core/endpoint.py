"""How to reach a broker: its addresses, its fingerprint, and a token."""

from __future__ import annotations

from msgspec import Struct

from grassq.core.syntax.addresses import Address


class Endpoint(Struct, frozen=True):
    """The addresses of one broker, its certificate's SHA-256 and a token."""

    addresses: tuple[Address, ...]
    fingerprint: bytes
    token: str

    @property
    def token_id(self) -> str:
        """The part of the token that is no secret."""
        return self.token.partition(".")[0]
