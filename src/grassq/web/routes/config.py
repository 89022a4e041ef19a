"""The route that tells the owner which settings this daemon was started with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

from aiohttp import web

from grassq.web.access.auth import Route
from grassq.web.access.description import Description
from grassq.web.responses import document

#: By setting: its value, and where it comes from.
Config = Mapping[str, object]


class ConfigDocument(TypedDict):
    """The settings of a daemon."""

    #: By name: the value, and where it comes from.
    settings: Config


def config_route(config: Config) -> Route:
    """Return the route: for the owner on this machine only, because the address of a store may hold a password."""

    async def show(request: web.Request) -> web.Response:
        return document({"settings": config})

    about = Description("daemon", "The settings that this daemon was started with", ConfigDocument)
    return Route("GET", "/v1/config", show, "local", about=about)
