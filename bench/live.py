"""What open pages cost the daemon, and how soon they are told what changed; and how long a timeline takes.

Pages are WebSockets on the unix socket, all opened by this process; each wants totals, devices, queues, workers and the
documents of some jobs. Latencies are from the answer to a submission, which is sent after its commit, to the frame;
beside them, in the same rounds, to the line of GET /v1/events. `python -m bench live --json FILE` writes the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import aiohttp

from bench.homes import own_home, until
from bench.log import WRITER, WRITES_MB_S
from bench.table import tell_figures
from grassq.net.client import ApiClient
from grassq.sdk import Client

PAGES = 50
ROUNDS = 100
#: Between two rounds, so that each finds the pages at rest.
REST_S = 0.15
#: How long a share of a core is measured.
SECONDS = 15.0
CHANGES_PER_S = 20.0
#: Jobs whose documents each page wants.
SHOWN = 40
#: Ended jobs for the timeline.
JOBS = 100_000
START_S = 900.0
#: How many timelines of each span are asked for; the width differs, so that none is answered by the one before.
TIMELINES = 20
#: The widths and spans of the timelines that are asked for: an hour and a day.
PX, SPANS_S = 1600, (3600.0, 86400.0)
WANTED = {"totals": True, "devices": True, "queues": True, "workers": True, "jobs": [*range(1, SHOWN + 1)]}

Figures = dict[str, object]


class BenchPage:
    """One page: it notes when it was told of each number of jobs."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket
        self.frames = 0
        self.bytes = 0
        self.told: dict[int, float] = {}
        self._task = asyncio.create_task(self._hear())

    async def _hear(self) -> None:
        async for message in self.socket:
            now = time.perf_counter()
            self.bytes += len(message.data)
            frame = json.loads(message.data)
            self.frames += "seq" in frame
            if "totals" in frame:
                self.told.setdefault(sum(frame["totals"].values()), now)

    async def close(self) -> None:
        """Close the page."""
        await self.socket.close()
        await self._task


@contextlib.asynccontextmanager
async def pages(home: str, count: int, wanted: dict[str, object]) -> AsyncIterator[list[BenchPage]]:
    """Open pages."""
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(f"{home}/grass.sock", limit=0)) as session:
        opened: list[BenchPage] = []
        try:
            for _ in range(count):
                page = BenchPage(await session.ws_connect("http://grass/v1/live", max_msg_size=0))
                await page.socket.send_str(json.dumps({"sub": wanted}))
                opened.append(page)
            yield opened
        finally:
            for page in opened:
                await page.close()


async def _submit(session: aiohttp.ClientSession) -> tuple[int, float]:
    """Submit a job that is held; return its id, and when its commit was answered."""
    job = {"command": ["true"], "hold": True}
    body = {"key": os.urandom(16).hex(), "cwd": "/", "env": [], "umask": 18, "jobs": [job]}
    async with session.post("http://grass/v1/submit", json=body) as answer:
        ids = (await answer.json())["ids"]
        return int(ids[0]), time.perf_counter()


async def latencies(home: str, count: int, rounds: int) -> Figures:
    """Return how long after a commit pages, and a reader of events, are told of it."""
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(f"{home}/grass.sock")) as session,
        session.get("http://grass/v1/events", timeout=aiohttp.ClientTimeout(None)) as events,
        pages(home, count, WANTED) as opened,
    ):
        await events.content.readline()
        seen: list[float] = []
        heard: list[float] = []
        for _ in range(rounds):
            await asyncio.sleep(REST_S)
            job, answered = await _submit(session)
            await events.content.readline()
            heard.append(time.perf_counter() - answered)
            async with asyncio.timeout(START_S):
                while not all(job in page.told for page in opened):  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
            seen += [page.told[job] - answered for page in opened]
    name = f"pages_{count}"
    return {
        f"{name}_told_after_ms_median": _ms(median(seen)),
        f"{name}_told_after_ms_p99": _ms(quantiles(seen, n=100)[98]),
        f"{name}_told_after_ms_max": _ms(max(seen)),
        f"{name}_events_line_after_ms_median": _ms(median(heard)),
        f"{name}_ratio_to_events": round(max(median(seen), 1e-5) / max(median(heard), 1e-5), 2),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 2)


async def shares(home: str, pid: int, seconds: float) -> Figures:
    """Return the share of a core that the daemon takes with and without pages, at rest and while jobs change."""
    found: Figures = {}
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(f"{home}/grass.sock")) as session:
        for count in (0, PAGES):
            async with pages(home, count, WANTED) as opened:
                await asyncio.sleep(1.0)
                found[f"share_idle_{count}_pages"] = await _share(pid, seconds)
                frames = sum(page.frames for page in opened)
                changing = asyncio.create_task(_change(session))
                began = time.perf_counter()
                found[f"share_20_changes_s_{count}_pages"] = await _share(pid, seconds)
                took = time.perf_counter() - began
                changing.cancel()
                await asyncio.gather(changing, return_exceptions=True)
                if opened:
                    more = sum(page.frames for page in opened) - frames
                    found["frames_a_page_and_s_at_20_changes_s"] = round(more / len(opened) / took, 1)
    return found


async def _change(session: aiohttp.ClientSession) -> None:
    while True:
        began = time.perf_counter()
        await _submit(session)
        await asyncio.sleep(max(0.0, 1.0 / CHANGES_PER_S - (time.perf_counter() - began)))


async def _share(pid: int, seconds: float) -> float:
    cpu, began = _cpu_s(pid), time.perf_counter()
    await asyncio.sleep(seconds)
    return round((_cpu_s(pid) - cpu) / (time.perf_counter() - began), 4)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def loud_log(home: str, client: ApiClient, pid: int, seconds: float) -> Figures:
    """Return what a followed log costs while its job writes 50 MB/s, and how far behind the page ends."""
    found: Figures = {}
    for name, count in (("alone", 0), ("on_1_page", 1)):
        told = Path(home) / f"rate.{name}"
        job = await asyncio.to_thread(_start_writer, seconds + 3.0, told)
        until(lambda job=job: client.one_job(str(job))["state"] == "running", "start of the writer", START_S)  # type: ignore[misc]
        async with pages(home, count, {"log": {"job": job, "lines": 200}}) as opened:
            await asyncio.sleep(1.0)
            frames, sent = [page.frames for page in opened], [page.bytes for page in opened]
            began = time.perf_counter()
            found[f"share_50_mb_s_log_{name}"] = await _share(pid, seconds)
            took = time.perf_counter() - began
            for page, before, size in zip(opened, frames, sent, strict=True):
                found["log_frames_a_second"] = round((page.frames - before) / took, 1)
                found["log_kb_a_second"] = round((page.bytes - size) / took / 1e3, 1)
            async with asyncio.timeout(START_S):
                while not told.exists():  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        until(lambda job=job: client.one_job(str(job))["state"] == "succeeded", "end of the job", START_S)  # type: ignore[misc]
        found[f"writer_mb_s_{name}"] = round(float(told.read_text().split()[0]), 1)
    return found


def _start_writer(seconds: float, told: Path) -> int:
    argv = [sys.executable, "-c", WRITER, str(WRITES_MB_S), str(seconds), str(told)]
    enqueue = [sys.executable, "-m", "grassq", "enqueue", "-q", "--", *argv]
    return int(subprocess.run(enqueue, stdout=subprocess.PIPE, text=True, check=True).stdout)


def copy_jobs(home: str, count: int) -> None:
    """Copy the rows of the first job, which has ended, so that the store has this many; the daemon must not run.

    The copies ended one after the other within the last day, each after a run of up to a minute.
    """
    with contextlib.closing(sqlite3.connect(next(Path(home).glob("*.db")))) as store:
        for table, key in (("job", "id"), ("attempt", "job")):
            names = [row[1] for row in store.execute(f"pragma table_info({table})")]
            end = f"{time.time()!r} - 86400.0 * ({count} - n) / {count}"
            times = {"finished": end, "ended": end, "started": f"{end} - n % 60", "created": f"{end} - 100"}
            made = ", ".join({**times, key: "n"}.get(name, name) for name in names)
            store.execute(
                "with recursive numbers (n) as (select 1000 union all select n + 1 from numbers where n < ?) "
                f"insert into {table} ({', '.join(names)}) select {made} from {table}, numbers where {key} = 1",
                (count + 1000,),
            )
        store.commit()


def timelines(client: ApiClient) -> Figures:
    """Return how long a timeline takes with the jobs that there are."""
    pid = int(client.info()["pid"])
    found: Figures = {"jobs": sum(client.show()["totals"].values())}
    for span_s in SPANS_S:
        took: list[float] = []
        answer: dict[str, Any] = {}
        now, cpu = time.time(), _cpu_s(pid)
        for turn in range(TIMELINES):
            begun = time.perf_counter()
            answer = client.get("timeline", (), **{"from": now - span_s, "to": now + 600, "px": PX + turn})
            took.append(time.perf_counter() - begun)
        name = f"timeline_{span_s / 3600:.0f}h"
        blocks = [block for lane in answer["lanes"] for block in lane["blocks"]]
        found |= {f"{name}_first_ms": _ms(took[0]), f"{name}_median_ms": _ms(median(took[1:]))}
        found[f"{name}_cpu_ms"] = _ms((_cpu_s(pid) - cpu) / TIMELINES)
        found |= {f"{name}_blocks": len(blocks), f"{name}_is_whole": answer["is_whole"]}
        found[f"{name}_attempts"] = sum(block.get("count", 1) for block in blocks)
    return found


def measure(rounds: int, seconds: float, jobs: int) -> Figures:
    """Return all figures."""
    with own_home() as home, ApiClient(home) as client, Client(home) as sdk:
        for _ in range(SHOWN):
            sdk.submit(["true"])
        until(lambda: not client.show()["totals"].get("queued"), "end of the first jobs")
        pid = int(client.info()["pid"])
        found: Figures = {}
        for count in (1, PAGES):
            found |= asyncio.run(latencies(home, count, rounds))
        found |= asyncio.run(shares(home, pid, seconds))
        found |= asyncio.run(loud_log(home, client, pid, seconds))
    if jobs:
        with own_home() as home:
            with Client(home) as sdk:
                first = sdk.submit(["true"])
                until(first.done, "end of the first job")
            subprocess.run([sys.executable, "-m", "grassq", "stop"], stdout=subprocess.DEVNULL, check=True)
            copy_jobs(home, jobs)
            with ApiClient(home) as client:
                found |= timelines(client)
    return found


def main(argv: Sequence[str]) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(prog="python -m bench live", description=__doc__)
    parser.add_argument("--rounds", metavar="N", type=int, default=ROUNDS, help=f"commits (default {ROUNDS})")
    parser.add_argument("--seconds", metavar="S", type=float, default=SECONDS, help="measure each share for this long")
    parser.add_argument("--jobs", metavar="N", type=int, default=JOBS, help=f"ended jobs (default {JOBS:,}; 0: none)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there too")
    arguments = parser.parse_args(argv)
    if arguments.rounds < 1 or not arguments.seconds > 0 or arguments.jobs < 0:
        parser.error("--rounds and --seconds are above 0, and --jobs is not below")
    load = os.getloadavg()[0]
    tell_figures(measure(arguments.rounds, arguments.seconds, arguments.jobs), load, arguments.json)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
