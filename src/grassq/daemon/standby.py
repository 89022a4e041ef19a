"""Standing by: a broker that waits until no other broker leads its store.

It listens on nothing but the socket of its home, where it says that it stands by. It compares its key with the
leader's: after a takeover with another key no worker and no user would know it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from grassq.core.syntax.store_urls import shown_url
from grassq.daemon.context import DaemonContext, serve_user
from grassq.errors import Refused, StoreUnavailable, UnknownSchema
from grassq.store.high_water import HighWater
from grassq.store.open import open_postgres
from grassq.web.listen.tcp import Identity
from grassq.web.routes.standby import StandbyRoutes

if TYPE_CHECKING:
    from grassq.store.postgres import PostgresStore
    from grassq.store.relational import Store

log = logging.getLogger(__name__)

#: How often a standby broker asks whether it may lead.
LEAD_TRY_S = 1.0
#: After this time the leader surely lives: a broker that starts after a crash of its own leads before.
LIVES_S = 6.0
#: The word in a store that holds the pin of the broker that leads it.
KEY_WORD = "broker_key"


async def lead(setup: DaemonContext, url: str, identity: Identity | None, mark: HighWater) -> PostgresStore | None:
    """Return the store once no other broker leads it; None if this broker was told to stop before."""
    store = open_postgres(url)
    try:
        async with AsyncExitStack() as stack:
            stack.callback(mark.close)
            standby: _Standby | None = None
            while not await _try_lead(store, stands_by=standby is not None):
                if standby is None:
                    standby = _Standby(setup, store, shown_url(url), identity)
                await standby.look(stack)
                await asyncio.to_thread(_follow, store, mark)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(LEAD_TRY_S):
                        await setup.stopping.wait()
                if setup.stopping.is_set():
                    store.close()
                    return None
    except BaseException:
        store.close()
        raise
    return store


async def _try_lead(store: PostgresStore, *, stands_by: bool) -> bool:
    try:
        return await asyncio.to_thread(store.try_lead)
    except UnknownSchema:
        raise
    except StoreUnavailable as error:
        if not stands_by:
            raise
        # The leader has the same trouble, so this broker stands by and tries again.
        log.warning("standing_by_without_store error=%s", error)
        return False


def _follow(store: PostgresStore, mark: HighWater) -> None:
    """Keep this broker's mark up to date: when it leads, it notices a restore of the store by its mark."""
    try:
        if (progress := store.progress()) is not None:
            mark.follow(progress)
    except StoreUnavailable as error:
        log.warning("mark_not_kept error=%s", error)


class _Standby:
    """A broker while it stands by."""

    def __init__(self, setup: DaemonContext, store: PostgresStore, where: str, identity: Identity | None) -> None:
        self._setup = setup
        self._store = store
        self._where = where
        self._pin = None if identity is None else identity.fingerprint.hex()
        self._trouble: str | None = None
        self._since = time.monotonic()
        self._answers = False
        log.info("standing_by store=%s", where)
        setup.say(f"another broker leads {where}; standing by to take over")

    async def look(self, stack: AsyncExitStack) -> None:
        """Compare keys once the leader surely lives, and answer the user from then on."""
        if time.monotonic() - self._since < LIVES_S:
            return
        if not self._answers:
            await self._begin(stack)
        before, self._trouble = self._trouble, await self._difference()
        if self._trouble is not None and before is None:
            log.error("another_key %s", self._trouble)
            self._setup.say(self._trouble)

    async def _begin(self, stack: AsyncExitStack) -> None:
        """Refuse to stand by with another key than the leader's, unless told to; else answer the user."""
        if (trouble := await self._difference()) is not None and not self._setup.mode.own_key:
            raise Refused(f"{trouble} (--own-key stands by nevertheless)")
        routes = StandbyRoutes(self._describe, self._setup.stopping.set)
        await serve_user(stack, self._setup.home, routes.app())
        self._answers = True
        self._setup.ready()

    async def _difference(self) -> str | None:
        """Return what is wrong with this broker's key; None if it is the leader's, or the leader's is not known."""
        try:
            leads_with = await asyncio.to_thread(self._store.word, KEY_WORD)
        except StoreUnavailable:
            return self._trouble
        if None in (leads_with, self._pin) or leads_with == self._pin:
            return None
        return (
            f"this broker has another key than the broker on {self._store.leader or 'the other machine'}, which leads"
            f" {self._where}: after a takeover no worker and no user would know this broker. Give both the same"
            " certificate: --cert FILE"
        )

    def _describe(self) -> dict[str, object]:
        about = self._setup.describe(self._where, "")
        standing = {"leader": self._store.leader, "store": self._where, "trouble": self._trouble}
        return {**about, "stands_by": standing}


def note_key(setup: DaemonContext, store: Store, identity: Identity | None) -> None:
    """Store the key of the broker that leads; say it when the store had another before."""
    if identity is None:
        return
    pin = identity.fingerprint.hex()
    before = store.put_word(KEY_WORD, pin)
    if before not in (None, pin):
        words = "this broker has a new key: workers and users get in with new codes (`grass join`, `grass login`)"
        log.warning("new_key %s", words)
        setup.say(words)
