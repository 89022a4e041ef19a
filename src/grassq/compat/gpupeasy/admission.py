"""The guard of an API without a token: it answers programs of the owner on this machine, and no browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grassq import loopback_sockets
from grassq.compat.gpupeasy.api import PeasyAnswer, failure

PAGE = "`grass web` or gpupeasy-gui opens the page for a browser"
#: A browser sends one of these with what a page does, and a program sends none.
_BROWSER = ("origin", "upgrade", "service-worker", "purpose", "access-control-request-method")
_FETCH = "sec-"


def refusal(headers: Sequence[tuple[str, str]], port: int) -> PeasyAnswer | None:
    """Return the answer to a request that is refused by its headers; None if it may go on."""
    names = [name.lower() for name, _ in headers]
    hosts = [value.strip().lower() for name, value in headers if name.lower() == "host"]
    # A name that another site has given to this address (DNS rebinding) is none of ours.
    if len(hosts) != 1 or hosts[0] not in loopback_sockets.hosts(port):
        return failure(421, f"this server is 127.0.0.1:{port} or localhost:{port}, and has no other name")
    if any(name in _BROWSER or name.startswith(_FETCH) for name in names):
        return failure(403, f"this API is for programs, not for browsers; {PAGE}")
    return None


def body_length(headers: Mapping[str, list[str]], most: int) -> int | PeasyAnswer:
    """Return the length of a body; the answer to a request whose body is too long, or whose length is not known."""
    if headers.get("transfer-encoding"):
        return failure(411, "send the body with Content-Length, not in chunks")
    lengths = headers.get("content-length") or ["0"]
    text = lengths[0].strip()
    if len(lengths) != 1 or not (text.isascii() and text.isdigit()) or len(text) > 15:
        return failure(400, "the header Content-Length is not one number")
    return int(text) if int(text) <= most else failure(413, f"the body has more than {most:,} bytes")
