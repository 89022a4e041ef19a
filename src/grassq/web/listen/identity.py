"""The certificate in use. Not in `certificate.py`, which is slow to load and needed only with --bind."""

from __future__ import annotations

import datetime
import ssl

from msgspec import Struct

WARN_DAYS = 30


class Identity(Struct, frozen=True):
    """A certificate with its TLS context, its fingerprint and its dates."""

    context: ssl.SSLContext
    #: SHA-256 of the certificate (DER): what clients pin.
    fingerprint: bytes
    #: The names the certificate was made for.
    names: tuple[str, ...]
    since: float
    until: float
    notes: list[str]

    def expiry(self, now: float) -> str | None:
        """Return a warning about the dates, or None. Clients that have pinned the certificate ignore its dates."""
        day = datetime.datetime.fromtimestamp(self.until, datetime.UTC).date()
        if now >= self.until:
            return f"the certificate expired on {day}; clients that know it still connect, but replace it with --cert"
        if now < self.since:
            return "the certificate is not valid yet by this machine's clock; check the clock"
        if self.until - now <= WARN_DAYS * 86400:
            return (
                f"the certificate expires on {day}; replace it with --cert (every client then joins or logs in again)"
            )
        return None
