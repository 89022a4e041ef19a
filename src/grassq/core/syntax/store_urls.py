"""How a store is named: memory, sqlite:/absolute/path, or postgresql://USER@HOST/DATABASE."""

from __future__ import annotations

import re
from urllib.parse import unquote

POSTGRES = ("postgresql://", "postgres://")
HIDDEN = "***"

# From the first colon behind the user to the last @: a password with unquoted characters is hidden too.
_USERINFO = re.compile(r"(://[^:@/?#]*):.*@", re.DOTALL)
# What is no URL is refused, but repeated in the refusal: a URL without slashes, or libpq's `host=... password=...`.
_NO_URL = re.compile(r"\A([^:]*):.*@", re.DOTALL)
_PASSWORD = re.compile(r"(\w*pass\w*\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|\S+)", re.DOTALL | re.IGNORECASE)


def is_postgres(url: str) -> bool:
    """Tell whether this names a PostgreSQL database."""
    return url.startswith(POSTGRES)


def shown_url(url: str) -> str:
    """Return the URL as it may be printed: without a password, wherever it is; also what is no URL."""
    if "://" not in url:
        return _PASSWORD.sub(rf"\1{HIDDEN}", _NO_URL.sub(rf"\1:{HIDDEN}@", url))
    url = _USERINFO.sub(rf"\1:{HIDDEN}@", url)
    head, mark, query = url.partition("?")
    return head + mark + "&".join(map(_shown_setting, query.split("&")))


def _shown_setting(setting: str) -> str:
    key, equals, _ = setting.partition("=")
    return f"{key}{equals}{HIDDEN}" if "password" in unquote(key).lower() else setting
