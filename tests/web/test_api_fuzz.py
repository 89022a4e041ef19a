"""Random queries and bodies for every route: an answer in words, never an error of the daemon itself."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.web.api_check import ApiCheck, Schema
from tests.web.broker_fixture import BrokerFixture, key, play
from tests.web.subscribed import QUEUE, Rig
from tests.web.test_every_route import KnownMachines, change_devices

from grassq.web.logs.index import LogIndexes

CHECK = ApiCheck()
#: An answer that follows something is read for this long.
READ_S = 0.05
#: These stop what the others are asked of.
LEFT_OUT = {("POST", "/v1/stop"), ("GET", "/v1/live"), ("GET", "/v1/worker")}
EXAMPLES = 500

TEXTS = st.one_of(
    st.sampled_from(["", "all", "@", "1", "1-3", "q", "w", "running", "0", "-1", "1e999", "nan", "9" * 30, "{gpu: 1}"]),
    st.text(max_size=12),
)
#: Values that make sense, by the name of a parameter or a field: half of the values are of these.
SENSE: dict[str, list[Any]] = {
    "selector": ["all", "1", "1-99", "held", QUEUE, "@"],
    "selectors": [["all"], ["1", "2"], [QUEUE], ["failed,held"]],
    "q": ["state:held", f"queue:{QUEUE}", "line", "id:1-3 gpu>0", "since:1d name:*"],
    "queue": [QUEUE, "default"],
    "worker": ["w"],
    "words": [[QUEUE, "true"], ["--hold", QUEUE, "true"], ["r", "--capacity", "{cpu: 2}"], ["x", "--at-broker"]],
    "command": [["true"]],
    "commands": [["true", "false"]],
    "env": [[["PATH", "/bin"]]],
    "cwd": ["/"],
    "cursor": ["0.0:3"],
    "capacity": ["{cpu: 8}"],
    "kind": ["job", "name,queue,worker"],
    "set": [{"priority": 3}, {"command": ["false"]}, {"hold": None}],
    "text": ["a;;out.txt;;true;;;"],
    "batch": ["a;;out.txt;;true;;;"],
    "ids": [["0"], [1, 2]],
    "since": ["1d", "0"],
    "timeout_s": ["0"],
    "name": ["lr", QUEUE],
    "target": ["1", "host"],
}
#: Whole numbers in a query.
NUMBERS = st.sampled_from(["0", "1", "2", "7", "100"])
ANYTHING = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=4,
)


class Question(NamedTuple):
    """One request."""

    method: str
    path: str
    body: bytes | None


def of_schema(schema: Schema, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values of a described type, and now and then any other value."""
    if "$ref" in schema:
        return of_schema(CHECK.api["components"]["schemas"][schema["$ref"].rpartition("/")[2]], depth)
    if "anyOf" in schema:
        return st.one_of([of_schema(each, depth + 1) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "string":
            return TEXTS
        case "integer":
            return st.one_of(st.integers(0, 9), st.integers())
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case "array" if depth < 5:
            return st.lists(of_schema(schema.get("items") or {}, depth + 1), max_size=3)
        case "object" if depth < 5 and "properties" in schema:
            needed = set(schema.get("required", ()))
            fields = {name: _sensible(name, of_schema(each, depth + 1)) for name, each in schema["properties"].items()}
            return st.fixed_dictionaries(
                {name: each for name, each in fields.items() if name in needed},
                optional={name: each for name, each in fields.items() if name not in needed},
            )
    return ANYTHING


def _sensible(name: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.sampled_from(SENSE[name]), values) if name in SENSE else values


def _pairs(parameter: Schema) -> st.SearchStrategy[tuple[str, str]]:
    """A parameter with a value."""
    name, schema = parameter["name"], parameter["schema"]
    values = _sensible(name, st.one_of(TEXTS, st.sampled_from(schema["enum"]) if "enum" in schema else NUMBERS))
    return st.tuples(st.just(name), values)


def of_operation(method: str, path: str, operation: Schema) -> st.SearchStrategy[Question]:
    """Requests to one route."""
    parts = {each["name"]: st.sampled_from(["1", "2", "999", QUEUE, "a"]) for each in operation["parameters"]}
    pairs = [_pairs(each) for each in operation["parameters"] if each["in"] == "query"]
    query = st.lists(st.one_of(pairs), max_size=4) if pairs else st.just([])
    body: st.SearchStrategy[Any] = st.none()
    has_key = False
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        has_key = "key" in CHECK.api["components"]["schemas"][schema["$ref"].rpartition("/")[2]]["properties"]
        body = st.one_of(of_schema(schema), of_schema(schema), of_schema(schema), ANYTHING)
    path_parts = st.fixed_dictionaries({name: parts[name] for name in parts if "{" + name + "}" in path})

    def made(part: dict[str, str], asked: list[tuple[str, str]], sent: Any) -> Question:
        raw = None
        if method == "POST":
            # A good key, so that what is behind it is reached.
            raw = json.dumps({**sent, "key": key()} if has_key and isinstance(sent, dict) else sent).encode()
        words = "&".join(f"{name}={quote(text, safe='', errors='surrogatepass')}" for name, text in asked)
        return Question(method, path.format(**part) + (f"?{words}" if words else ""), raw)

    return st.builds(made, path_parts, query, body)


#: The files of the page take no parameters.
QUESTIONS = st.one_of(
    [
        of_operation(*route, each)
        for route, each in CHECK.operations.items()
        if route not in LEFT_OUT and each["x-need"] != "page"
    ]
)


class Asker:
    """Asks a broker that runs in a thread, one request after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.told = Told()
        self._ready, self._done = threading.Event(), asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._session: aiohttp.ClientSession
        self._thread = threading.Thread(target=play, args=(self._serve, KnownMachines()))

    def __enter__(self) -> Asker:
        logging.getLogger().addHandler(self.told)
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *problem: object) -> None:
        self._loop.call_soon_threadsafe(self._done.set)
        self._thread.join()
        logging.getLogger().removeHandler(self.told)

    def ask(self, question: Question) -> None:
        """Ask, and check the answer and the log."""
        self.told.errors.clear()
        asyncio.run_coroutine_threadsafe(ask(self._session, question), self._loop).result(30)
        assert not self.told.errors, self.told.errors

    async def _serve(self, fixture: BrokerFixture) -> None:
        self._loop = asyncio.get_running_loop()
        with pytest.MonkeyPatch.context() as monkeypatch:
            rig = Rig(fixture, monkeypatch)
            monkeypatch.setattr(fixture.directory, "change_devices", change_devices)
            fixture.directory.indexes = LogIndexes(self.folder)
            for hold in (False, True):
                rig.logs[await rig.submit(hold=hold)] = b"a line\n"
            connector = aiohttp.UnixConnector(str(fixture.home / "grass.sock"))
            async with aiohttp.ClientSession(connector=connector) as self._session:
                self._ready.set()
                await self._done.wait()


@pytest.fixture(scope="module")
def asker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asker]:
    with Asker(tmp_path_factory.mktemp("indexes")) as asker:
        yield asker


@settings(max_examples=EXAMPLES)
@given(question=QUESTIONS)
def test_no_request_makes_an_error_of_the_daemon(question: Question, asker: Asker) -> None:
    asker.ask(question)


async def ask(session: aiohttp.ClientSession, question: Question) -> None:
    """Ask, and check the answer as far as it comes at once."""
    try:
        async with (
            asyncio.timeout(READ_S * 100),
            session.request(question.method, f"http://grass{question.path}", data=question.body) as answer,
        ):
            content = b""
            try:
                async with asyncio.timeout(READ_S if answer.content_length is None else None):
                    content = await answer.read()
            except TimeoutError:
                content = b"unfinished"
            assert answer.status < 500 or answer.status == 503, (question, answer.status, content[:300])
            if content != b"unfinished":
                CHECK.check(question.method, question.path, answer.status, answer.content_type, content)
    except TimeoutError:
        assert "/v1/wait" in question.path, question


class Told(logging.Handler):
    """Keeps what is logged as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.errors.append(self.format(record))
