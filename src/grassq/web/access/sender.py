"""The sender of a request: which host it names, and whether a browser sent it for a page of ours.

A browser sends requests for every page that it shows, also to loopback. These rules hold for each request, whatever its
route and method; they are functions of a request, a scheme and a set of hosts, so that other doors can use them too.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Callable, Collection

from aiohttp import web

from grassq.core.syntax.numbers import is_number
from grassq.web.responses import Denied

#: How many cookies of one name are looked at: another program on this host can set cookies of the same name.
COOKIES_MAX = 8

HOW_TO_REACH = "use its address or a name in its certificate (setting `hosts`)"

IsOurs = Callable[[str], bool]


def check_sender(
    request: web.Request, scheme: str, is_ours: IsOurs, *, may_navigate: bool = False, how: str = HOW_TO_REACH
) -> None:
    """Refuse requests that a web page of another site sends through a browser, whatever host name it uses.

    With `may_navigate` a link on another site may lead here: the browser shows the answer, and no page can read it.
    `how` is what to do about a wrong host name.
    """
    if not request.raw_path.startswith("/"):
        raise Denied(400, "this broker is not a proxy")
    host = host_of(request)
    if not is_ours(host):
        raise Denied(421, f"this broker does not have this host name; {how}")
    origins = request.headers.getall("Origin", [])
    is_foreign = any(origin.lower() != f"{scheme}://{host}" for origin in origins)
    site = request.headers.get("Sec-Fetch-Site", "none")
    if not is_foreign and (site in ("none", "same-origin") or (may_navigate and _is_navigation(request))):
        return
    raise Denied(403, "requests from another web site are refused")


def is_from_own_page(request: web.Request, scheme: str, is_ours: IsOurs) -> bool:
    """Tell whether the browser proves that a page of ours sends this request; a cookie counts only with this proof.

    A page at another port of the same host is the same site for a cookie, but not the same origin. An upgrade to a
    WebSocket is not bound by the rule of one origin, so it needs the Origin itself.
    """
    host = host_of(request)
    if not is_ours(host):
        return False
    origins = request.headers.getall("Origin", [])
    if any(origin.lower() != f"{scheme}://{host}" for origin in origins):
        return False
    sites = request.headers.getall("Sec-Fetch-Site", [])
    if any(site != "same-origin" for site in sites):
        return False
    if "Upgrade" in request.headers:
        return len(origins) == 1
    return bool(origins or sites)


def host_of(request: web.Request) -> str:
    """Return the host that a request names, with its port; "" if it names none or two."""
    named = request.headers.getall("Host", [])
    return named[0].strip().lower() if len(named) == 1 else ""


def is_one_of(host: str, names: Collection[str]) -> bool:
    """Tell whether a host is an IP address, or has one of our names; a name may be `*.domain`."""
    name, colon, port = host.rpartition(":")
    if not colon or not is_number(port):
        name = host
    name = name.rstrip(".")
    with contextlib.suppress(ValueError):
        bare = name[1:-1] if name.startswith("[") and name.endswith("]") else name
        ipaddress.ip_address(bare)
        return True
    _, _, domain = name.partition(".")
    return name in names or (bool(domain) and f"*.{domain}" in names)


def cookies(request: web.Request, name: str) -> list[str]:
    """Return the values of the cookies of one name, the first COOKIES_MAX."""
    parts = [part for header in request.headers.getall("Cookie", []) for part in header.split(";")]
    pairs = [part.strip().partition("=") for part in parts]
    return [value for key, _, value in pairs if key == name][:COOKIES_MAX]


def _is_navigation(request: web.Request) -> bool:
    mode, dest = request.headers.get("Sec-Fetch-Mode"), request.headers.get("Sec-Fetch-Dest")
    return request.method == "GET" and mode == "navigate" and dest == "document"
