"""The routes of a broker that stands by: it says so, and can be stopped."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from grassq import __version__
from grassq.errors import Refused
from grassq.web.access.auth import Route, owner_app
from grassq.web.responses import document


class StandbyRoutes:
    """The handlers."""

    def __init__(self, describe: Callable[[], dict[str, object]], stop: Callable[[], None]) -> None:
        """`describe` returns what `doctor` shows."""
        self._describe = describe
        self._stop = stop

    def app(self) -> web.Application:
        """Return the application, for the owner of the socket only."""
        return owner_app(
            [
                Route("GET", "/v1/info", self.info, "local"),
                Route("POST", "/v1/stop", self.stop, "local"),
                Route("*", "/{path:.*}", self.refuse, "local"),
            ]
        )

    async def info(self, request: web.Request) -> web.Response:
        """Answer with what `doctor` shows of the daemon."""
        return document({"version": __version__, **self._describe(), "jobs": {}, "strays": [], "read_only": None})

    async def stop(self, request: web.Request) -> web.Response:
        """Stop standing by."""
        self._stop()
        return document({"running": 0})

    async def refuse(self, request: web.Request) -> web.Response:
        """Refuse a request that only the leading broker can answer."""
        standing = self._describe()["stands_by"]
        assert isinstance(standing, dict)
        raise Refused(
            f"this broker stands by: the broker on {standing['leader'] or 'another machine'} leads {standing['store']};"
            " ask the leading broker (--broker HOST)"
        )
