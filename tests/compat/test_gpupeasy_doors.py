"""Attacks on GPUPeasy's doors: other users, browsers, other names, and requests that are no requests."""

from __future__ import annotations

import http.client
import json
import os
import pwd
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.compat.peasy import Peasy
from tests.e2e.world import DEADLINE_S, eventually

ADD = json.dumps({"job": {"jobName": "x", "outFile": "x.out", "jobCommand": ["touch", "attacked"]}}).encode()

#: Sends what stdin has as another user, and prints the answer.
AS_OTHER = """
import os, socket, sys
data = sys.stdin.buffer.read()
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
connection.close()
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
connection = socket.create_connection((sys.argv[3], int(sys.argv[1])), timeout=30)
try:
    connection.sendall(data)
    while part := connection.recv(4096):
        os.write(1, part)
except ConnectionError:
    pass
"""


def raw(port: int, data: bytes, *, shut: bool = False) -> bytes:
    """What the server answers to these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        connection.sendall(data)
        if shut:
            connection.shutdown(socket.SHUT_WR)
        parts = []
        try:
            while part := connection.recv(65536):
                parts.append(part)
        except ConnectionError:
            pass
        return b"".join(parts)


def request(port: int, *headers: str, line: str = "POST /addnewjob HTTP/1.1", host: str | None = None) -> bytes:
    """The bytes of a request that adds a job."""
    named = f"127.0.0.1:{port}" if host is None else host
    lines = [line, f"Host: {named}", "Content-Type: application/json", f"Content-Length: {len(ADD)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + ADD


def code_of(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1]) if answer else 0


def test_nobody_but_a_program_of_the_owner_gets_in(peasy: Peasy) -> None:
    peasy.serve()
    port = peasy.port
    if os.getuid() == 0:
        nobody = pwd.getpwnam("nobody").pw_uid
        for host in ("127.0.0.1", "::1"):
            done = subprocess.run(
                [sys.executable, "-c", AS_OTHER, str(port), str(nobody), host],
                input=request(port), stdout=subprocess.PIPE, check=True, timeout=DEADLINE_S,
            )  # fmt: skip
            # The answer may be lost: for another user no byte of the request is waited for.
            assert done.stdout == b"" or (code_of(done.stdout) == 403 and b"owner" in done.stdout)

    foreign = ["evil.example", f"evil.example:{port}", "127.0.0.1", "localhost", f"127.0.0.1:{port + 1}", ""]
    foreign += [f"localhost.:{port}", f"localhost.evil.example:{port}", f"127.0.0.1:{port}@evil.example"]
    foreign += [f"127.1:{port}", f"[::ffff:127.0.0.1]:{port}", f"127.0.0.1:{port}, evil.example", f"0.0.0.0:{port}"]
    for host in foreign:
        assert code_of(raw(port, request(port, host=host))) == 421, host
    assert code_of(raw(port, request(port, "Host: evil.example"))) == 421, "two hosts"
    assert code_of(raw(port, request(port).replace(f"Host: 127.0.0.1:{port}\r\n".encode(), b""))) == 421, "no host"

    own = f"http://127.0.0.1:{port}"
    for headers in (
        ["Origin: http://evil.example"], [f"Origin: {own}"], ["Origin: null"], ["oRiGiN: x"], ["Sec-Fetch-Site: none"],
        ["Sec-Fetch-Mode: no-cors"], ["sec-fetch-site: same-origin"], ["Sec-CH-UA: x"], ["Upgrade: websocket"],
        ["Sec-WebSocket-Key: x"], ["Access-Control-Request-Method: POST"],
    ):  # fmt: skip
        answer = raw(port, request(port, *headers))
        assert code_of(answer) == 403 and b"grass web" in answer, headers
        for path in ("availabledevices", "jobinfo/1"):
            assert code_of(raw(port, request(port, *headers, line=f"GET /{path} HTTP/1.1"))) == 403, headers
    preflight = raw(port, request(port, "Origin: http://evil.example", line="OPTIONS /addnewjob HTTP/1.1"))
    assert code_of(preflight) == 403 and b"access-control" not in preflight.lower()
    form = request(port).replace(b"application/json", b"text/plain")
    assert code_of(raw(port, form)) == 400, "the form of an old browser, which sends no Origin"

    refused = peasy.program(
        Path(sys.executable), "-c", "from grassq.compat.gpupeasy.entry import start_server; start_server()",
        "--host", "0.0.0.0",
    )  # fmt: skip
    assert refused.code == 2 and "grass daemon --bind" in refused.err
    peasy.nothing_was_stored()
    assert not (peasy.cwd / "attacked").exists()


def test_odd_requests_are_answered_in_words_and_end(peasy: Peasy) -> None:
    server = peasy.serve()
    port = peasy.port
    for method in ("PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "GET", "HEAD", "POSTX", "post"):
        assert code_of(raw(port, request(port, line=f"{method} /addnewjob HTTP/1.1"))) == 405, method
    for path in (
        "/", "/addnewjob/", "/addnewjob/../addnewjob", "/ADDNEWJOB", "/v1/submit", "/../../etc/passwd",
        "http://evil.example/addnewjob", "*", "/addnewjob%2f", "/\u202e".encode().decode("latin-1"),
    ):  # fmt: skip
        assert code_of(raw(port, request(port, line=f"POST {path} HTTP/1.1"))) in (400, 404, 405), path
    for path in (
        "/jobinfo/../../etc/passwd", "/jobinfo/1/../2", "/jobinfo/%31", "/jobinfo/1%00", "/jobinfo/-1", "/jobinfo/1e3",
        "/jobinfo/" + "9" * 400, "/jobinfo/@", "/jobinfo/all", "/jobinfo/1-5", "/jobinfo/１",
    ):  # fmt: skip
        line = f"GET {path} HTTP/1.1".encode().decode("latin-1")
        assert code_of(raw(port, request(port, line=line))) in (400, 404), path
    assert code_of(raw(port, b"\x16\x03\x01 no http\r\n\r\n")) in (0, 400)
    assert code_of(raw(port, b"GET /availabledevices\r\n", shut=True)) in (0, 400, 421), "HTTP/0.9"
    assert code_of(raw(port, request(port, "X: " + "y" * 70_000))) == 431
    assert code_of(raw(port, request(port, *(f"X-{number}: y" for number in range(300))))) in (400, 421, 431)
    assert code_of(raw(port, request(port, "Transfer-Encoding: chunked"))) == 411
    assert code_of(raw(port, request(port, "Content-Length: 5"))) == 400, "two lengths"
    big = f"POST /addnewjob HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {1 << 40}\r\n\r\n".encode()
    assert code_of(raw(port, big)) == 413
    deep = b'{"job":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert peasy.ask("addnewjob", deep).code == 400
    short = request(port)[: -len(ADD) // 2]
    assert code_of(raw(port, short, shut=True)) == 400, "a body that ends too early"
    peasy.nothing_was_stored()

    # Nothing but the log of a job of this queue is ever read.
    own = peasy.add("own", "own.out", "echo", "<script>alert(1)</script>")
    peasy.reaches(own, "Succeeded")
    other = peasy.enqueue("--output", "other.out", "--", "echo", "secret")
    peasy.until(other, "succeeded")
    link = peasy.cwd / "link.out"
    link.symlink_to("/etc/passwd")
    for name in (
        "/etc/passwd",
        "../../etc/passwd",
        "other.out",
        "link.out",
        str(link),
        "",
        ".",
        "own.out/../other.out",
    ):
        assert peasy.ask("loadlogfile", {"fileName": name}).code in (400, 404), name
    assert peasy.ask("loadlogfile", {"fileName": "/etc/passwd", "jobID": own}).code == 404
    assert peasy.ask("loadlogfile", {"jobID": other}).code == 404
    for lines in (0, -1, 10**9, "x", True, None, 1.5):
        assert peasy.ask("loadlogfile", {"jobID": own, "lastN": lines}).code == 400, lines
    shown = peasy.ask("loadlogfile", {"fileName": "./own.out", "lastN": "1"})
    assert shown.value == "<script>alert(1)</script>\n" and shown.headers["content-type"] == "application/json"
    assert shown.headers["x-content-type-options"] == "nosniff" and "access-control-allow-origin" not in shown.headers
    assert server.poll() is None


@pytest.mark.parametrize("how", ["kill", "interrupt"])
def test_the_page_is_open_as_long_as_its_program_lives(peasy: Peasy, how: str) -> None:
    gui = peasy.serve("--queue", "night", script="startgui.py")
    assert gui.stdout is not None
    link = gui.stdout.readline().strip()
    code = link.partition("#code=")[2]
    port = peasy.port
    host = f"127.0.0.1:{port}"

    def ask(method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=DEADLINE_S)
        try:
            connection.request(method, path, body or None, {name.replace("_", "-"): v for name, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    status, headers, _ = ask("GET", "/")
    assert (status, headers["location"]) == (302, "/gpupeasy?queue=night")
    assert ask("GET", "/gpupeasy")[0] in (200, 503) and ask("GET", "/jobinfo/1")[0] in (200, 503)
    assert ask("GET", "/v1/jobs")[0] == 401, "a port is no right"
    own = {"Sec_Fetch_Site": "same-origin", "Origin": f"http://{host}"}
    body = json.dumps({"code": code}).encode()
    assert ask("POST", "/v1/session", body, Sec_Fetch_Site="cross-site", Origin="http://evil.example")[0] == 403
    status, headers, _ = ask("POST", "/v1/session", body, **own)
    assert status == 200 and headers["set-cookie"].startswith(f"grass-{port}=")
    cookie = headers["set-cookie"].partition(";")[0]
    assert ask("GET", "/v1/jobs", Cookie=cookie, Sec_Fetch_Site="same-origin")[0] == 200
    assert ask("GET", "/v1/jobs", Cookie=cookie, Host=f"evil.example:{port}", Sec_Fetch_Site="same-origin")[0] in (
        401,
        421,
    )
    assert ask("POST", "/v1/session", body, **own)[0] == 403, "a link works once"
    if how == "kill":
        peasy.crash()
        peasy.ok("show")
        eventually(lambda: is_open(port), "the page is open again after the daemon was killed")
        assert ask("GET", "/v1/jobs", Cookie=cookie, Sec_Fetch_Site="same-origin")[0] == 200
    peasy.end(gui, 9 if how == "kill" else 2)
    eventually(lambda: not is_open(port), "the page is closed with its program")


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
