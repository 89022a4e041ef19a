"""The page of a real daemon: `grass web`, a session that survives a restart, jobs of the page, and its end."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any

from tests.e2e.world import Grass, eventually, free_port

KEY = "0123456789abcdef0123456789abcdef"


class Page:
    """A browser that has followed a link of `grass web`."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.cookie = ""

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request of the page; the status and the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        origin = f"http://127.0.0.1:{self.port}"
        headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin", "Cookie": self.cookie}
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        raw = answer.read()
        self.cookie = (answer.getheader("Set-Cookie") or self.cookie).partition(";")[0]
        connection.close()
        return answer.status, json.loads(raw) if raw.startswith(b"{") else raw.decode()


def test_the_page_opens_outlives_the_daemon_submits_and_ends(grass: Grass, tmp_path: Path) -> None:
    grass.env |= {"GRASS_WEB_PORT": str(free_port()), "OF_THE_DAEMON": "yes"}
    link = grass.json("web")
    port = link["port"]
    assert link["url"] == f"http://127.0.0.1:{port}/#code={link['code']}"
    shown = grass("web", "--no-open", env={"SSH_CONNECTION": "10.0.0.9 5 10.0.0.1 2222", "USER": "ann"})
    assert shown.out.startswith(f"http://127.0.0.1:{port}/#code=")
    assert f"ssh -N -L {port}:127.0.0.1:{port} -p 2222 ann@10.0.0.1" in shown.err
    page = Page(port)
    status, begun = page.ask("POST", "/v1/session", {"code": link["code"]})
    assert (status, begun["opened_in"]) == (200, str(grass.cwd)), "the page offers the directory of `grass web`"
    assert next(each["found"] for each in grass.json("doctor")["checks"] if each["check"] == "page").endswith(
        f":{port}/"
    )

    grass.crash()
    grass.ok("start")  # at the port of the daemon before, with its sessions
    status, about = page.ask("GET", "/v1/session")
    assert (status, about["scope"]) == (200, "admin")
    place = tmp_path / "typed here"
    place.mkdir()
    job = {"key": KEY, "words": ["--shell", "pwd; echo $OF_THE_DAEMON"], "cwd": str(place)}
    assert page.ask("POST", "/v1/enqueue", job)[0] == 200
    grass.ok("wait", "1")
    assert grass.ok("log", "1") == f"{place}\nyes\n"

    fake = tmp_path / "bin"
    fake.mkdir()
    (fake / "xdg-open").write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/opened\n')
    (fake / "xdg-open").chmod(0o755)
    seen = grass("web", env={"DISPLAY": ":9", "PATH": f"{fake}:{grass.env['PATH']}", "SSH_CONNECTION": ""})
    opened = (tmp_path / "opened").read_text()
    assert (seen.code, seen.out, seen.err) == (0, opened, "") or "without its page" in seen.err
    assert Page(port).ask("POST", "/v1/session", {"code": opened.strip().partition("#code=")[2]})[0] == 200

    assert page.ask("POST", "/v1/stop", {})[0] == 403
    assert "2 sessions ended" in grass.ok("web", "--logout-all")
    assert page.ask("GET", "/v1/session")[0] == 401
    audit = grass.ok("audit", "--json")
    secrets = [link["code"].partition(".")[2], page.cookie.partition(".")[2]]
    kept = audit + (grass.home / "daemon.log").read_text() + grass.ok("token", "--json")
    assert all(secret and secret not in kept for secret in secrets)


def test_a_taken_port_is_left_to_its_program(grass: Grass) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        grass.env["GRASS_WEB_PORT"] = str(taken)
        port = grass.json("web")["port"]
        assert port != taken
        assert f"port {taken}" in grass.refuses(5, "web", "--port", str(taken))
        assert grass.json("web")["port"] == port
        moved = free_port()
        assert grass.json("web", "--port", str(moved))["port"] == moved
        eventually(lambda: not _answers(port), "the former port is closed")
        grass.ok("restart")
        assert Page(moved).ask("GET", "/v1/session")[0] == 401


def _answers(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
