"""Links to the web page, made of parts of the daemon's answer that are checked here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grassq.core.syntax.addresses import parse_addresses
from grassq.errors import Unreachable

_CODE = re.compile(r"[0-9a-f]{8}\.[\w-]{20,100}", re.ASCII)
_ADDRESS = re.compile(r"(?:\[[0-9a-f:.]+\]|[\w.-]+):[0-9]{1,5}", re.ASCII)


def page_links(answer: Mapping[str, object], broker: str | None = None) -> list[str]:
    """Return the links to the page by the answer to POST /v1/session/link, the best one first.

    The link to a broker elsewhere has the address at which that broker was asked.
    """
    code, port, addresses = str(answer.get("code")), answer.get("port"), answer.get("addresses")
    if _CODE.fullmatch(code) is None or not (broker or isinstance(port, int)):
        raise Unreachable("the daemon answered without a link; is it another version? try `grass restart`")
    if broker is not None:
        return [f"https://{parse_addresses(broker, 'the broker')[0]}/#code={code}"]
    known = [str(each) for each in addresses if _ADDRESS.fullmatch(str(each))] if isinstance(addresses, list) else []
    return [f"http://127.0.0.1:{port}/#code={code}", *(f"https://{each}/#code={code}" for each in known)]
