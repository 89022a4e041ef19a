"""One-time codes for links to the page: in memory only, for a minute, each for one use."""

from __future__ import annotations

import hmac
import secrets
from collections import Counter
from collections.abc import Callable

from msgspec import Struct

from grassq.broker.tokens import digest_of
from grassq.store.base import Scope
from grassq.web.access.rate_limit import RateLimit
from grassq.web.listen.door import Door
from grassq.web.responses import Denied

#: How long a code can be used, in seconds.
CODE_S = 60.0
#: Codes that wait to be used. When there are more, the oldest of the token that has most of them is void: no token can
#: make the codes of others void.
CODES_MAX = 32
#: Wrong codes that are answered in a minute. A right code is not counted, so a flood of wrong ones keeps no user out.
WRONG_PER_MINUTE = 60
TEXT_MAX = 200
SECRET_BYTES = 32


class PageCode(Struct, frozen=True, kw_only=True):
    """What a code stands for."""

    scope: Scope
    #: The session that the code is exchanged for acts for this token, or is the owner's: see `Token.page_of`.
    page_of: str
    #: The name of the session.
    name: str
    #: The code is for processes of the owner on loopback only.
    is_own: bool
    #: The directory in which the link was asked for; only known on this machine.
    cwd: str | None = None
    digest: bytes = b""
    made: float = 0.0

    def is_good(self, now: float) -> bool:
        """Tell whether the code is not too old; a clock that is set back makes it void."""
        return self.made <= now < self.made + CODE_S

    def needs_owner(self, door: Door) -> bool:
        """Tell whether only a process of the owner may use the code at a door."""
        return self.is_own or (door.is_loopback and self.scope == "admin")


class PageCodes:
    """The codes that wait to be used."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        #: Oldest first.
        self._codes: dict[str, PageCode] = {}
        self._wrong = RateLimit(WRONG_PER_MINUTE, now)

    def make(self, *, scope: Scope, page_of: str, name: str, is_own: bool, cwd: str | None = None) -> str:
        """Return a new code, as it is in a link: an id, which is no secret, and a secret."""
        now = self._now()
        self._codes = {id_: code for id_, code in self._codes.items() if code.is_good(now)}
        while len(self._codes) >= CODES_MAX:
            [(busiest, _)] = Counter(code.page_of for code in self._codes.values()).most_common(1)
            del self._codes[next(id_ for id_, code in self._codes.items() if code.page_of == busiest)]
        id_, secret = secrets.token_hex(4), secrets.token_urlsafe(SECRET_BYTES)
        self._codes[id_] = PageCode(
            scope=scope, page_of=page_of, name=name, is_own=is_own, cwd=cwd, digest=digest_of(secret), made=now
        )
        return f"{id_}.{secret}"

    def take(self, text: str, door: Door, *, is_own: bool) -> PageCode:
        """Return a code and forget it; raise Denied for a wrong one. The time does not tell which part was wrong.

        `is_own` tells whether a process of the owner shows the code.
        """
        id_, _, secret = text[:TEXT_MAX].partition(".")
        code = self._codes.get(id_)
        same = hmac.compare_digest(digest_of(secret), b"\0" * 32 if code is None else code.digest)
        if code is not None and same and code.needs_owner(door) and not is_own:
            # The code stays good: another user that has seen it cannot spoil it.
            raise Denied(403, "this link is for another user of this machine; `grass web` makes one of your own")
        if code is not None and same:
            del self._codes[id_]
            if code.is_good(self._now()):
                return code
        raise self._refusal()

    def forget(self, page_of: str | None) -> None:
        """Make the codes void that act for one token, or all."""
        kept = {} if page_of is None else self._codes
        self._codes = {id_: code for id_, code in kept.items() if code.page_of != page_of}

    def _refusal(self) -> Denied:
        if self._wrong.take() is None:
            return Denied(429, "too many wrong codes; wait a minute, then `grass web` makes a new link")
        return Denied(
            403, f"this link is used, older than {CODE_S:g} seconds, or not whole; `grass web` makes a new one"
        )
