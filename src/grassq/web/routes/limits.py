"""The routes about limits of groups: what the jobs of a project or with a tag may hold at once."""

from __future__ import annotations

from functools import partial
from typing import TypedDict

import msgspec
from aiohttp import web

from grassq.broker import service
from grassq.broker.actions.limits import check_group, limit_documents, read_limit, set_limit
from grassq.broker.documents.limits import LimitDocument
from grassq.broker.engine import Engine
from grassq.errors import BadInput
from grassq.web import requests
from grassq.web.access.auth import BODY, ENTRY, Route
from grassq.web.access.description import Description
from grassq.web.responses import digest, document


class LimitBody(requests.Body, kw_only=True):
    """A group and its whole limit; with `remove`, a group that has none any more."""

    #: `project:NAME` or `tag:KEY=VALUE`.
    group: str
    #: By resource: the most that the jobs of the group hold at once, such as 4, 0.5 or "64G".
    amounts: dict[str, float | int | str] = msgspec.field(default_factory=dict)
    #: How many of its jobs may run at once.
    jobs: int | None = None
    remove: bool = False


class LimitsDocument(TypedDict):
    """Every limit of a group."""

    limits: list[LimitDocument]


class LimitSetDocument(TypedDict):
    """A limit that was set or removed."""

    group: str
    #: `set` or `removed`.
    status: str
    notes: list[str]


class LimitRoutes:
    """The handlers."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def routes(self) -> list[Route]:
        """Return the routes."""
        every = Description("queues and workers", "The limits of groups, and what the groups hold", LimitsDocument)
        one = Description(
            "queues and workers", "Set or remove the limit of a group of jobs", LimitSetDocument, body=LimitBody
        )
        return [
            Route("GET", "/v1/limits", self.limits, "read", about=every),
            Route("POST", "/v1/limit", self.limit, "admin", about=one),
        ]

    async def limits(self, request: web.Request) -> web.Response:
        """Answer with every limit, and with what its group holds."""
        return document(LimitsDocument(limits=await self._engine.read(limit_documents)))

    async def limit(self, request: web.Request) -> web.Response:
        """Set or remove the limit of a group."""
        body = requests.decode(request[BODY], LimitBody)
        group = check_group(body.group)
        if body.remove and (body.amounts or body.jobs is not None):
            raise BadInput("a limit is removed as a whole: name no amounts with --remove")
        limit = None if body.remove else read_limit(body.amounts, body.jobs)
        request[ENTRY].about = f"{group} removed" if limit is None else group
        asked = digest(request[BODY])
        done = await self._engine.change(
            lambda batch: service.once(batch, body.key, asked, partial(set_limit, batch, group, limit))
        )
        return document(LimitSetDocument(group=group, status="removed" if limit is None else "set", notes=done.notes))
