"""The pages of MLflow and Ray, with rows of their own, measured as our page is."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser

from bench.homes import free_address, own_folder, until
from bench.page import LOADS, Figures, load

#: How long a server may take to answer, and to end.
ANSWERS_S = 180.0
ENDS_S = 20.0


@contextlib.contextmanager
def running(*words: str | Path, cwd: Path | None = None) -> Iterator[None]:
    """Run a server in a session of its own; everything of the session ends with it."""
    process = subprocess.Popen(
        words, cwd=cwd, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(ENDS_S)
                break


def call(*words: str | Path, cwd: Path | None = None) -> None:
    """Run a command to its end; raise if it fails."""
    subprocess.run(words, cwd=cwd, check=True, timeout=ANSWERS_S, capture_output=True)


def free_port() -> int:
    """Return a port of loopback that nobody has now."""
    return int(free_address().rpartition(":")[2])


def mlflow(browser: Browser, program: Path, runs: int, quick: int) -> Figures:
    """Measure the table of runs of MLflow, with runs that are written into its database."""
    with own_folder() as folder:
        store, port = f"sqlite:///{folder}/mlflow.db", free_port()
        call(program, "db", "upgrade", store, cwd=folder)
        options = ("--backend-store-uri", store, "--host", "127.0.0.1", "--port", str(port), "--workers", "1")
        with running(program, "server", *options, cwd=folder):
            until(lambda: _answers(port), "MLflow answers", ANSWERS_S)
            _write_runs(folder / "mlflow.db", runs)
            row = 'a[href*="/runs/0000"]'
            address = f"http://127.0.0.1:{port}/#/experiments/0/runs"
            return {"rows": runs, **load(browser, lambda: address, row, max(1, LOADS // quick))}


def _write_runs(database: Path, runs: int) -> None:
    with contextlib.closing(sqlite3.connect(database)) as store, store:
        known = [column[1] for column in store.execute("pragma table_info(runs)")]
        if not store.execute("select 1 from experiments where experiment_id = 0").fetchone():
            raise RuntimeError("MLflow has made no default experiment")
        now = int(time.time() * 1e3)
        for number in range(runs):
            values = {
                "run_uuid": f"{number:032x}",
                "name": f"run-{number}",
                "user_id": "bench",
                "status": "FINISHED",
                "start_time": now - number * 1000,
                "end_time": now - number * 1000 + 500,
                "lifecycle_stage": "active",
                "artifact_uri": "/nowhere",
                "experiment_id": 0,
                "source_type": "LOCAL",
            }
            used = {name: value for name, value in values.items() if name in known}
            marks = ",".join("?" * len(used))
            store.execute(f"insert into runs ({','.join(used)}) values ({marks})", [*used.values()])
            # Its table shows no run without a tag.
            tag = ("mlflow.runName", f"run-{number}", f"{number:032x}")
            store.execute("insert into tags (key, value, run_uuid) values (?, ?, ?)", tag)


def ray(browser: Browser, program: Path, jobs: int, quick: int) -> Figures:
    """Measure the list of jobs of Ray's dashboard: it takes about a second to submit one, so there are few."""
    port, own = free_port(), free_port()
    options = (
        "--dashboard-host",
        "127.0.0.1",
        "--include-dashboard",
        "true",
        "--disable-usage-stats",
        "--num-cpus",
        "2",
    )
    head = (program, "start", "--head", "--block", "--port", str(own), "--dashboard-port", str(port))
    with running(*head, *options):
        until(lambda: _answers(port), "Ray's dashboard answers", ANSWERS_S)
        address = f"http://127.0.0.1:{port}"
        for _ in range(jobs):
            call(program, "job", "submit", "--no-wait", "--address", address, "--", "true")
        row = "table tbody tr a, table tbody tr td p"
        return {"rows": jobs, **load(browser, lambda: f"{address}/#/jobs", row, max(1, LOADS // quick))}


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5):
            return True
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
