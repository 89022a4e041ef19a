"""The files of the page, as built from `webui`: read into memory once, and served compressed."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import re
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from grassq.web.access.auth import Route
from grassq.web.access.description import Description
from grassq.web.listen.admission import ClientConnection
from grassq.web.responses import Denied

FOLDER = Path(__file__).parent.parent / "static"
SHELL = "index.html"
#: The first parts of the addresses that the page has a screen for; all of them are answered with the same file.
PAGES = frozenset({"jobs", "sweeps", "machines", "queues", "new", "access", "gpupeasy", "batchaddjobs", "jobinfo"})
#: The first part of every other address that a user may type: the page itself says that there is nothing.
PAGE = r"(?!assets(?:/|$))[A-Za-z_-]+"
FILES_MAX = 300
BYTES_MAX = 16 << 20
#: Smaller files are not compressed.
GZIP_MIN = 512

#: The types of files that a page may have; others are not served.
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/vnd.microsoft.icon",
    ".woff2": "font/woff2",
    ".txt": "text/plain; charset=utf-8",
}
PACKED = frozenset({".png", ".ico", ".woff2"})
#: `NAME-HASH.EXT`, as Vite names what it builds: a new content has a new name.
_HASHED = re.compile(r"assets/.*-[\w-]{8,}\.\w+", re.ASCII)
FOREVER = "public, max-age=31536000, immutable"
ASK = "no-cache"
NO_PAGE = (
    "This Grass was installed without its web page.\n"
    "The page is built by npm: install Node.js 20 or newer, then install Grass again (`pip install .` in a checkout, or"
    " `make page` there).\n"
    "Everything else works: `grass show`, `grass top`, and the API under /v1.\n"
)


class PageFile(Struct, frozen=True):
    """One file of the page."""

    body: bytes
    #: The body compressed; None if that is not shorter.
    packed: bytes | None
    kind: str
    tag: str
    caching: str


class PageFiles:
    """Serves the page. The files are read anew when the page was built anew."""

    def __init__(self, folder: Path = FOLDER) -> None:
        self._folder = folder
        self._built: int | None = None
        self._files: dict[str, PageFile] = {}
        self._reading = asyncio.Lock()

    def routes(self) -> list[Route]:
        """Return the routes."""
        page = f"/{{page:{PAGE}}}"
        shell = Description("web page", "The page in HTML, which reads its own address", None, "file")
        asset = Description("web page", "A file of the page", None, "file")
        return [
            Route("GET", "/", self.shell, "page", about=shell),
            Route("GET", page, self.shell, "page", about=shell),
            Route("GET", page + "/{rest:.*}", self.shell, "page", about=shell),
            Route("GET", "/assets/{name}", self.asset, "page", about=asset),
            Route("GET", r"/{name:[\w-]+\.(?:svg|ico|png|webmanifest|txt)}", self.asset, "page", about=asset),
        ]

    @property
    def is_built(self) -> bool:
        """Whether there is a page."""
        return (self._folder / SHELL).is_file()

    async def shell(self, request: web.Request) -> web.Response:
        """Answer with the page, which reads the address itself; at some doors `/` leads to another address."""
        protocol = None if request.transport is None else request.transport.get_protocol()
        begins_at = protocol.door.begins_at if isinstance(protocol, ClientConnection) else "/"
        if request.path == "/" and begins_at != "/":
            return web.Response(status=302, headers={"Location": begins_at, "Cache-Control": "no-store"})
        is_known = request.match_info.get("page", "jobs") in PAGES
        if not is_known and "text/html" not in request.headers.get("Accept", ""):
            raise web.HTTPNotFound  # a program with a wrong address reads words, not a page
        files = await self._current()
        if SHELL not in files:
            return web.Response(status=503, text=NO_PAGE)
        return _answer(request, files[SHELL], 200 if is_known else 404)

    async def asset(self, request: web.Request) -> web.Response:
        """Answer with one file by its name; a name that is in no list is nothing."""
        file = (await self._current()).get(request.path.removeprefix("/"))
        if file is None:
            raise Denied(404, "the page has no such file; load the page again")
        return _answer(request, file)

    async def _current(self) -> dict[str, PageFile]:
        async with self._reading:
            try:
                built: int | None = (self._folder / SHELL).stat().st_mtime_ns
            except OSError:
                built = None
            if built != self._built:
                self._files = {} if built is None else await asyncio.to_thread(_read, self._folder)
                self._built = built
            return self._files


def _read(folder: Path) -> dict[str, PageFile]:
    """Return the files below a folder by their paths, FILES_MAX at most and BYTES_MAX together; links are left out."""
    found: dict[str, PageFile] = {}
    left = BYTES_MAX
    for path in sorted(folder.rglob("*"))[: FILES_MAX * 2]:
        kind = TYPES.get(path.suffix)
        if kind is None or path.is_symlink() or not path.is_file() or len(found) >= FILES_MAX:
            continue
        if (size := path.stat().st_size) > left:
            continue
        left -= size
        name, body = path.relative_to(folder).as_posix(), path.read_bytes()
        packed = gzip.compress(body, 9, mtime=0) if len(body) >= GZIP_MIN and path.suffix not in PACKED else None
        found[name] = PageFile(
            body,
            packed if packed is not None and len(packed) < len(body) else None,
            kind,
            f'"{hashlib.sha256(body).hexdigest()[:16]}"',
            FOREVER if _HASHED.fullmatch(name) else ASK,
        )
    return found


def _answer(request: web.Request, file: PageFile, status: int = 200) -> web.Response:
    headers = {"Content-Type": file.kind, "Cache-Control": file.caching, "ETag": file.tag, "Vary": "Accept-Encoding"}
    if status == 200 and request.headers.get("If-None-Match") == file.tag:
        return web.Response(status=304, headers=headers)
    if file.packed is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(status=status, body=file.packed, headers=headers | {"Content-Encoding": "gzip"})
    return web.Response(status=status, body=file.body, headers=headers)
