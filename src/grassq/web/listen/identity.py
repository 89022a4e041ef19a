"""Who a broker is over TLS. Apart from `tls`, which takes long to load and is needed only where others come in."""

from __future__ import annotations

import datetime
import ssl

from msgspec import Struct

WARN_DAYS = 30


class Identity(Struct, frozen=True):
    """A certificate in use: how we show it, and how others know it again."""

    context: ssl.SSLContext
    #: SHA-256 of the certificate (DER): what clients pin.
    fingerprint: bytes
    #: The names it was made for.
    names: tuple[str, ...]
    since: float
    until: float
    notes: list[str]

    def expiry(self, now: float) -> str | None:
        """What to say of its dates; pinned clients go on whatever they are, and no job ends by them."""
        day = datetime.datetime.fromtimestamp(self.until, datetime.UTC).date()
        if now >= self.until:
            return f"the certificate expired on {day}; clients that know it still connect, but replace it with --cert"
        if now < self.since:
            return "the certificate is not valid yet by this machine's clock; check the clock"
        if self.until - now <= WARN_DAYS * 86400:
            return f"the certificate expires on {day}; replace it with --cert (every client then joins or logs in anew)"
        return None
