"""The headers of every answer over TCP: what a browser may do with it."""

from __future__ import annotations

from aiohttp import web

from grassq.web.listen.admission import ClientConnection

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "font-src 'self'",
        "connect-src 'self'",
        "manifest-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "require-trusted-types-for 'script'",
    )
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


async def add_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Add the headers to an answer; an answer that says nothing about caches stays in none."""
    if request.transport is None or not isinstance(request.transport.get_protocol(), ClientConnection):
        return  # the unix socket, which no browser uses
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-store")
