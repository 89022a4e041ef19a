"""Who may come in: on the unix socket, its owner and root."""

from __future__ import annotations

import os
import socket
import struct

from aiohttp import web

from grassq.web.answers import Handler

_CREDENTIALS = struct.Struct("3i")


@web.middleware
async def same_user(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse every other user, whatever the file modes say."""
    peer = None if request.transport is None else request.transport.get_extra_info("socket")
    if peer is None or peer.family != socket.AF_UNIX:
        raise web.HTTPForbidden(reason="only the user's own socket is served")
    _, uid, _ = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    if uid not in (0, os.geteuid()):
        raise web.HTTPForbidden(reason="this queue belongs to another user")
    return await handler(request)
