"""The routes about notices: for the owner on this machine, because notices run commands and hold secrets."""

from __future__ import annotations

from aiohttp import web

from grassq.errors import Refused
from grassq.notify.notifier import Notifier
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.description import Description
from grassq.web.answers.daemon import NoticesDocument, NoticeTestDocument
from grassq.web.responses import document


class NoticeTestBody(requests.Body, kw_only=True):
    """Where to send a test notice; null for the targets of all rules."""

    to: str | None = None


class Notices:
    """The handlers."""

    def __init__(self, notifier: Notifier | None) -> None:
        """Ask `notifier`; with None, this daemon sends no notices."""
        self._notifier = notifier

    def routes(self) -> list[Route]:
        """Return the routes."""
        show = Description("daemon", "The rules of notices, what waits and what was sent last", NoticesDocument)
        test = Description("daemon", "Send a test notice", NoticeTestDocument, body=NoticeTestBody)
        return [
            Route("GET", "/v1/notify", self.show, "local", about=show),
            Route("POST", "/v1/notify/test", self.test, "local", waits=True, about=test),
        ]

    async def show(self, request: web.Request) -> web.Response:
        """Answer with the rules, what waits and what was sent last."""
        return document(self._known().describe())

    async def test(self, request: web.Request) -> web.Response:
        """Send a test notice, and answer how each try went."""
        body = requests.decode(request[BODY], NoticeTestBody)
        request[ENTRY].about = "a test notice"
        return document({"results": await self._known().test(body.to)})

    def _known(self) -> Notifier:
        if self._notifier is None:
            raise Refused("this daemon sends no notices")
        return self._notifier
