"""GPUPeasy's server and page as real processes, in a home of their own, and a client as GPUPeasy's users write one."""

from __future__ import annotations

import contextlib
import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.world import BIN, DEADLINE_S, Grass, eventually, free_port

EXAMPLES = Path(__file__).parents[2] / "examples" / "gpupeasy"
LISTS = {"Scheduled": "scheduledjobs", "Running": "deviceutilization", "Succeeded": "successfuljobs"}
LISTS |= {"Failed": "failedjobs", "Killed": "failedjobs"}


class Said(NamedTuple):
    """An answer of the server."""

    code: int
    document: dict[str, Any]
    headers: dict[str, str]

    @property
    def value(self) -> Any:
        """What a list has."""
        assert (self.code, self.document["status"]) == (200, "successful"), self
        return self.document["value"]

    @property
    def why(self) -> str:
        """Why a request was refused."""
        assert self.document["status"] == "failed" and self.code >= 400, self
        return str(self.document["message"])


class Peasy(Grass):
    """A user of GPUPeasy."""

    def __init__(self, home: Path, cwd: Path) -> None:
        super().__init__(home, cwd)
        self.port = free_port()
        self.servers: list[subprocess.Popen[str]] = []

    def serve(self, *flags: str, script: str = "startserver.py", port: int | None = None) -> subprocess.Popen[str]:
        """Start the server, or the page, and wait for its first message."""
        at = ["--port", str(self.port if port is None else port)] if port != 0 else []
        server = subprocess.Popen(
            [BIN / "python", EXAMPLES / script, *at, *flags],
            cwd=self.cwd,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A shell lets Ctrl-C reach what it runs in the foreground.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.servers.append(server)
        assert server.stderr is not None
        self.said = server.stderr.readline()
        return server

    def end(self, server: subprocess.Popen[str], how: int = signal.SIGINT) -> int:
        """End a server by a signal; its exit code."""
        server.send_signal(how)
        server.communicate(timeout=DEADLINE_S)
        self.servers.remove(server)
        return server.returncode

    def ask(
        self, path: str, body: object = None, method: str | None = None, headers: dict[str, str] | None = None
    ) -> Said:
        """Ask as GPUPeasy's clients do."""
        connection = http.client.HTTPConnection("localhost", self.port, timeout=DEADLINE_S)
        sent = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        kind = {} if sent is None else {"Content-Type": "application/json"}
        with contextlib.closing(connection):
            verb = method or ("GET" if sent is None else "POST")
            connection.request(verb, f"/{path}", sent, {**kind, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Said(answer.status, json.loads(text) if text else {}, found)

    def add(self, name: str, outfile: str, *command: str) -> int:
        """Add a job; its id."""
        said = self.ask("addnewjob", {"job": {"jobName": name, "outFile": outfile, "jobCommand": list(command)}})
        assert (said.code, said.document["status"]) == (200, "successful"), said
        assert said.document["jobID"] == said.document["jobid"]
        return int(said.document["jobID"])

    def add_gated(self, name: str) -> int:
        """Add a job that runs until its gate, which has its name, is opened."""
        return self.add(name, f"{name}.out", "sh", "-c", f"until [ -e {self.cwd}/{name} ]; do sleep 0.02; done")

    def info(self, id_: int) -> dict[str, Any]:
        """What the server tells of a job."""
        return self.ask(f"jobinfo/{id_}").document

    def reaches(self, id_: int, status: str) -> dict[str, Any]:
        """Wait for a status of a job, and check that the job is in the list of this status and in no other."""
        found = eventually(lambda: self._if_reached(id_, status), f"job {id_} is {status}") or {}
        in_lists = {path for path in LISTS.values() for job in self.ask(path).value if job["jobID"] == id_}
        assert in_lists == {LISTS[status]}, (status, in_lists)
        return found

    def _if_reached(self, id_: int, status: str) -> dict[str, Any] | None:
        info = self.info(id_)
        # Between the start and the word of it the pid is not known yet.
        return info if info["status"] == status and (status != "Running" or info["pid"]) else None

    def close(self) -> None:
        """End servers and daemon."""
        for server in [*self.servers]:
            self.end(server, signal.SIGKILL)
        super().close()


PYTHON = sys.executable
