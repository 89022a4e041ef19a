"""GET /v1/jobs/ID/log/search: the lines of a log that match, as JSON lines while they are found.

`q` is a text, or a regular expression of Python with `regex=1`; `i=1` ignores case. Lines are searched as people see
them. Every line of the answer is a hit (`n`, `text`, `at`), the progress (`total`, `searched`, `begin`, `size`), or the
end (`end`, perhaps with an `error`). `after=N` begins behind line N, `before=N` goes backwards from the line before it.
`limit` hits are told, and all are counted, or none further with `stop=1`. With `within=MS` the search pauses after this
time, and its end says in `on` from where to go on. The search ends when the client hangs up.
"""

from __future__ import annotations

from aiohttp import web

from grassq.broker.engine import Engine
from grassq.errors import BadInput, Refused
from grassq.web.access.auth import Route
from grassq.web.access.description import Description, Parameter
from grassq.web.answers.logs import LogSearchDocument
from grassq.web.listen.abort import cut, write_until_hangup
from grassq.web.logs.index import LogBytes
from grassq.web.logs.search_parts import LINE_MAX
from grassq.web.logs.search_run import Question, SearchRun
from grassq.web.logs.serve import LOG_CHOICE, LOG_PATH, chosen, find
from grassq.web.requests import number
from grassq.web.workers.directory import WorkerDirectory

QUERY_MAX = 1_000
#: Searches that run at once; another is refused.
SEARCHES_MAX = 4
HITS_DEFAULT, HITS_MAX = 1_000, 1_000_000
#: The longest time that a request may give a search.
WITHIN_MS_MAX = 60_000


class LogSearch:
    """The handler of the route."""

    def __init__(self, engine: Engine, directory: WorkerDirectory) -> None:
        self._engine = engine
        self._directory = directory
        self._running = 0

    def routes(self) -> list[Route]:
        """Return the route."""
        about = Description(
            "logs",
            "The lines of a log that match, while they are found",
            LogSearchDocument,
            "json lines",
            (
                *LOG_CHOICE,
                Parameter("q", "What to search for", is_required=True),
                Parameter("regex", "`q` is a regular expression of Python", bool),
                Parameter("i", "Ignore case", bool),
                Parameter("after", "Begin behind this line", int, 0),
                Parameter(
                    "before", "Go backwards, from the line before this one to the first; the nearest hit first", int
                ),
                Parameter("limit", f"How many hits are told, at most {HITS_MAX:,}; all are counted", int, HITS_DEFAULT),
                Parameter("stop", "End with the last hit that is told, and count no further", bool),
                Parameter(
                    "within", "Pause after this many milliseconds; the end says in `on` from where to go on", int
                ),
            ),
        )
        return [Route("GET", f"{LOG_PATH}/search", self.serve, "read", waits=True, about=about)]

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer with the lines that match."""
        asked = _asked(request)
        found = await find(self._engine, int(request.match_info["id"]))
        attempt, stream = chosen(request, found.job)
        key = found.job.id, attempt, stream
        worker = found.workers.get(attempt)
        source = None if worker is None else self._directory.source(worker, *key)
        if self._running >= SEARCHES_MAX:
            raise Refused(f"{SEARCHES_MAX} searches run already; try again when one has ended")
        index = None
        if source is not None and self._directory.indexes is not None:
            index = await self._directory.indexes.of(key, is_cut=source.cut_at is not None)
        log = None if source is None else LogBytes(source, key)
        path = None if source is None else source.path
        self._running += 1
        try:
            async with SearchRun(asked, log, path, index) as search:
                return await self._stream(request, search)
        finally:
            self._running -= 1

    async def _stream(self, request: web.Request, search: SearchRun) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        response.force_close()
        await response.prepare(request)

        async def write() -> None:
            async for lines in search.lines():
                await response.write(lines)

        try:
            if await write_until_hangup(request, write()):
                await response.write_eof()
        except OSError:
            cut(request.transport)
        return response


def _asked(request: web.Request) -> Question:
    query = request.query.get("q", "")
    if not query or len(query) > QUERY_MAX:
        raise BadInput(f"q= is what to search for: 1 to {QUERY_MAX:,} characters")
    if "after" in request.query and "before" in request.query:
        raise BadInput("after= and before= cannot go together")
    return Question(
        query,
        is_regex=request.query.get("regex") == "1",
        ignores_case=request.query.get("i") == "1",
        after=number(request, "after", 0, LINE_MAX),
        before=number(request, "before", 0, LINE_MAX) if "before" in request.query else None,
        limit=number(request, "limit", HITS_DEFAULT, HITS_MAX),
        stops=request.query.get("stop") == "1",
        within_s=number(request, "within", 0, WITHIN_MS_MAX) / 1e3 if "within" in request.query else None,
    )
