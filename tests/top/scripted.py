"""A daemon of some jobs for `top`: answers in this process, can go away and come back, and keeps what it was asked."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

from grassq.errors import BadInput, NotFound, Unreachable

Job = dict[str, Any]
FINAL = ("succeeded", "failed", "cancelled")


def job(id_: int, state: str = "queued", **values: Any) -> Job:
    """A job as `show --json` has it."""
    ended = f"2026-11-17T12:00:{id_ % 60:02}.000Z" if state in FINAL else None
    started = None if state in ("queued", "waiting", "held") else "2026-11-17T11:00:00.000Z"
    whole: Job = {
        "id": id_,
        "name": None,
        "queue": "default",
        "state": state,
        "reason": None,
        "command": ["train", f"--lr={id_}"],
        "request": {"gpu": 1},
        "allocation": {"gpu": {"0": 1.0}} if state == "running" else None,
        "worker": "box" if started else None,
        "attempt": 1 if started else 0,
        "created": "2026-11-17T10:00:00.000Z",
        "started": started,
        "finished": ended,
        "split": False,
    }
    return {**whole, **values}


class Answers:
    """What the scripted daemon has, and what it was asked to change."""

    def __init__(self, jobs: list[Job]) -> None:
        self.jobs = {each["id"]: each for each in jobs}
        self.logs: dict[int, bytes] = {}
        self.changes: list[tuple[str, Mapping[str, Any]]] = []
        self.asked: list[str] = []
        self.forecasts: list[dict[str, Any]] = []
        self.scope = "admin"
        self.is_away = False
        self.seq = 0
        self.readers: list[queue.Queue[bytes | None]] = []
        self.broker: str | None = None
        self.home = "/nonexistent"

    # What feeds.asker.Daemon has.

    def client(self) -> Client:
        return Client(self)

    def stream(
        self, path: str, asked: list[tuple[str, object]], timeout_s: float | None
    ) -> tuple[Any, Iterator[bytes], Any]:
        if self.is_away:
            raise Unreachable("no daemon runs in /nonexistent; `grass start` starts one")
        given = dict(asked)
        if path == "/v1/events":
            mine: queue.Queue[bytes | None] = queue.Queue()
            self.readers.append(mine)
            mine.put(self._line("subscribed"))
            return Response({}), iter(mine.get, None), Ended(mine)
        id_ = int(path.split("/")[3])
        log = self.logs.get(id_, b"")
        offset = int(str(given.get("offset") or 0))
        if given.get("tail") is not None:
            kept = log.splitlines(keepends=True)[-int(str(given["tail"])) :]
            offset = len(log) - sum(map(len, kept))
        headers = {"grass-offset": str(offset), "grass-attempt": "1"}
        return Response(headers), iter([log[at : at + 65536] for at in range(offset, len(log), 65536)]), Ended(None)

    # What a test does.

    def change(self, *jobs: Job) -> None:
        """Change jobs, and tell the readers of the events."""
        self.jobs.update({each["id"]: each for each in jobs})
        self.seq += 1
        for reader in self.readers:
            reader.put(self._line("started"))

    def leave(self) -> None:
        """Go away as a killed daemon does."""
        self.is_away = True
        for reader in self.readers:
            reader.put(None)
        self.readers.clear()

    def _line(self, event: str) -> bytes:
        return json.dumps({"event": event, "epoch": "e", "seq": self.seq}).encode() + b"\n"


class Response:
    """The head of an answer."""

    def __init__(self, headers: dict[str, str]) -> None:
        self.headers = headers


class Ended:
    """A connection that can be ended from another thread."""

    def __init__(self, reader: queue.Queue[bytes | None] | None) -> None:
        self._reader = reader

    def close(self) -> None:
        if self._reader is not None:
            self._reader.put(None)

    interrupt = close


class Client:
    """What net.client.ApiClient has, as far as `top` uses it."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self.headers = {"grass-scope": answers.scope}

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self) -> dict[str, Any]:
        jobs = self._all()
        totals: dict[str, int] = {}
        for each in jobs:
            totals[each["state"]] = totals.get(each["state"], 0) + 1
        free = 0.0 if totals.get("running") else 1.0
        worker = {"name": "box", "online": True, "drained": False, "jobs": 1, "since": None}
        worker |= {
            "capacity": {"cpu": 8.0, "gpu": {"0": 1.0, "1": 1.0}},
            "free": {"cpu": 6.0, "gpu": {"0": free, "1": 1.0}},
        }
        queues = [{"name": "default", "worker": "box", "running": 1, "queued": 2, "paused": False}]
        sweeps = [{"name": "lr", "queue": "q", "jobs": 8, "ended": 2, "running": 1, "counts": {"failed": 1}}]
        told = {"version": "9.9", "jobs": jobs[:100], "workers": [worker], "queues": queues, "totals": totals}
        return {**told, "sweeps": sweeps}

    def jobs(self, selectors: list[str] | tuple[str, ...] = (), **asked: Any) -> dict[str, Any]:
        if selectors:
            ends = [part.split("-") for part in ",".join(selectors).split(",")]
            found = [each for each in self._all() if any(int(end[0]) <= each["id"] <= int(end[-1]) for end in ends)]
            if not found:
                raise NotFound("no job matches")
            return {"jobs": found, "next": None}
        return self.get("jobs?" + "&".join(f"{key}={value}" for key, value in asked.items()))

    def get(self, what: str, selectors: list[str] | tuple[str, ...] = (), **asked: Any) -> dict[str, Any]:
        path, _, rest = what.partition("?")
        self._answers.asked.append(what)
        if path == "show":
            return self.show()
        if path.endswith("/log/lines"):
            return log_lines(self._answers.logs[int(path.split("/")[1])], **asked)
        if path == "why":
            return {
                "jobs": [{"id": int(selectors[0]), "state": "queued", "text": f"job {selectors[0]} (x) waits for gpu"}]
            }
        if path == "eta" and self._answers.forecasts:
            return {"jobs": self._answers.forecasts}
        if path != "jobs":
            raise NotFound(f"there is no {path}")
        return page(self._all(), parse_qsl(rest))

    def change(self, action: str, **values: Any) -> dict[str, Any]:
        if self._answers.scope == "read":
            raise BadInput("your token may only read")
        self._answers.changes.append((action, values))
        return {"ids": [1], "notes": []}

    def _all(self) -> list[Job]:
        if self._answers.is_away:
            raise Unreachable("no daemon runs in /nonexistent; `grass start` starts one")
        return sorted(self._answers.jobs.values(), key=lambda each: int(each["id"]))


def page(jobs: list[Job], pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """One page of jobs, as GET /v1/jobs answers; it looks at no more jobs than SCANNED."""
    given = dict(pairs)
    states = [value for name, value in pairs if name == "state"]
    by_end = given.get("sort") == "finished"

    def place(each: Job) -> tuple[float, int]:
        return (float(each["finished"][17:23]) if by_end else 0.0), each["id"]

    ordered = sorted((each for each in jobs if each["finished"] or not by_end), key=place)
    if given.get("order") == "desc":
        ordered.reverse()
    if "cursor" in given:
        value, _, id_ = given["cursor"].partition(":")
        at = float(value) % 60 if by_end else 0.0, int(id_)
        ordered = [each for each in ordered if (place(each) < at if given["order"] == "desc" else place(each) > at)]
    found: list[Job] = []
    last: Job | None = None
    limit = int(given.get("limit", 100))
    for scanned, each in enumerate(ordered):
        if len(found) == limit or scanned == SCANNED:
            assert last is not None
            return {"jobs": found, "next": f"{_value(last, by_end)!r}:{last['id']}"}
        last = each
        text = f"{each['name'] or ''}\n{' '.join(each['command'])}"
        matches = (not states or each["state"] in states) and given.get("text", "") in text
        if matches and all(given.get(kind, each[kind]) == each[kind] for kind in ("queue", "name", "worker")):
            found.append(each)
    return {"jobs": found, "next": None}


def _value(each: Job, by_end: bool) -> float:
    from grassq.cli.job_text import seconds

    return seconds(each["finished"]) or 0.0 if by_end else 0.0


def log_lines(log: bytes, *, stream: str, byte: int | None = None, line: int = 1, count: int = 1) -> dict[str, Any]:
    """Some lines of a log, as GET /v1/jobs/ID/log/lines answers."""
    ends = [at + 1 for at, each in enumerate(log) if each == 10]
    begins = [0, *ends[:-1]]
    first = line if byte is None else next(n for n, end in enumerate(ends, 1) if byte < end)
    some = list(enumerate(zip(begins, ends, strict=True), 1))[first - 1 : first - 1 + count]
    spans = {n: [["bold fg2", log[begin : end - 1].decode()]] for n, (begin, end) in some}
    return {"lines": [{"n": n, "begin": begin, "end": end, "spans": spans[n]} for n, (begin, end) in some]}


#: Jobs that one page looks at.
SCANNED = 50
