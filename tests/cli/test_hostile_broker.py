"""Attacks on a terminal: a broker whose every word holds control sequences, and each command that asks it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document, reply, stored, stream
from tests.cli.fake_broker import Certificate, FakeBroker, code_for

from grassq.core.syntax.commands import COMMANDS

#: Sets the title, clears the screen, hides and reverses what follows, rings, moves back, begins a line.
EVIL = "\x1b]0;owned\x07\x1b[2J\x1b[8m\x1b#8\x9b2J\x9d0;owned\x9c\u202edesrever\u2066\u2028\x08\x0e\x07\r\nforged"
JOB = {
    "id": 5, "name": EVIL, "queue": EVIL, "state": EVIL, "reason": EVIL, "error": EVIL, "cwd": EVIL, "worker": EVIL,
    "command": [EVIL], "request": {EVIL: EVIL}, "allocation": {EVIL: {EVIL: 0.5}}, "pid": EVIL, "attempt": 1,
    "priority": EVIL, "created": EVIL, "started": EVIL, "finished": EVIL, "rerun_of": EVIL, "outcome": EVIL,
    "exit_code": 1, "signal": 9, "cannot_start": EVIL, "text": EVIL, "story": [{"at": EVIL, "kind": EVIL,
    "detail": EVIL}],
}  # fmt: skip
DONE = {**JOB, "state": "failed"}
QUEUE = {"name": EVIL, "worker": EVIL, "limits": {EVIL: EVIL}, "free": {EVIL: EVIL}, "prefix": [EVIL], "running": EVIL}
WORKER = {"name": EVIL, "online": True, "labels": [EVIL], "capacity": {EVIL: {EVIL: 1}}, "free": {}, "since": EVIL}
SHOWN = {
    "jobs": [JOB], "queues": [QUEUE, {**QUEUE, "slots": [{"name": EVIL}]}], "workers": [WORKER],
    "totals": {EVIL: 1}, "restored": [EVIL], "more": True,
}  # fmt: skip
TOKEN = {"id": EVIL, "scope": EVIL, "name": EVIL, "queues": [EVIL], "live": True, "created": EVIL, "expires": EVIL}
ENTRY = {key: EVIL for key in ("at", "who", "name", "peer", "method", "path", "about", "result")}
#: The answers to the requests of all commands, by their paths.
ANSWERS: Mapping[str, object] = {
    "/v1/show": SHOWN,
    "/v1/jobs": {"jobs": [DONE]},
    "/v1/why": {"jobs": [JOB]},
    "/v1/wait": {"jobs": [DONE]},
    "/v1/tokens": {"tokens": [TOKEN]},
    "/v1/devices": {
        "devices": [
            {key: EVIL for key in ("worker", "resource", "id", "worth", "free")}
            | {"vram": 8, "vram_free": EVIL, "holders": [{"job": EVIL}], "online": True, "drained": EVIL}
        ]
    },
    "/v1/limits": {
        "limits": [{"group": EVIL, "amounts": {EVIL: EVIL}, "held": {EVIL: EVIL}, "jobs": EVIL, "running": EVIL}]
    },
    "/v1/audit": {"entries": [ENTRY]},
    "/v1/machines": {
        "machines": [
            {**{key: EVIL for key in ("name", "host", "state", "why", "runs", "offers", "jobs")}, "labels": [EVIL]}
        ]
    },
    "/v1/machines/m/about": {"argv": [f"/nowhere/{EVIL}"]},
    "/v1/machines/m/test": {"step": EVIL, "ok": False, "words": EVIL},
    "/v1/history": {
        "groups": [{key: EVIL for key in ("group", "jobs", "runs", "failed", "run_hours", "wait_p90_s")}],
        "total": {"hours": {EVIL: EVIL}},
    },
    "/v1/config": {"settings": {"passes": {"value": EVIL, "origin": {"kind": EVIL, "where": EVIL}}}},
    "/v1/eta": {"now": EVIL, "jobs": [{**JOB, "basis": EVIL, "starts": {"likely": EVIL}}]},
    "/v1/what-if": {"before": {}, "after": {}, "notes": [EVIL]},
    "/v1/notify": {
        "rules": [{"on": [EVIL], "to": EVIL, "queue": EVIL, "name": EVIL}],
        "recent": [{key: EVIL for key in ("at", "to", "title", "state", "error")}],
        "dropped": EVIL,
    },
    "/v1/info": {"pid": EVIL, "version": EVIL, "store": EVIL, "read_only": EVIL, "strays": [{"path": EVIL}]},
}
CHANGED = {
    "name": EVIL, "status": EVIL, "queues": [EVIL], "worker": EVIL, "drained": True, "id": EVIL, "code": EVIL,
    "resource": EVIL, "group": EVIL,
    "expires": EVIL, "notes": [EVIL], "changed": {EVIL: EVIL}, "ids": [5], "jobs": [JOB], "print": {},
    "results": [{"to": EVIL, "ok": True}, {"to": EVIL, "error": EVIL}],
}  # fmt: skip
EVENT = {"event": EVIL, "job": EVIL, "last": EVIL, "name": EVIL, "queue": EVIL, "detail": EVIL, "at": EVIL}

#: At least one line of each command that asks a broker.
LINES = {
    "enqueue": [["enqueue", "ls"], ["enqueue", "--json", "ls"]],
    "run": [["run", "ls"], ["run", "-q", "ls"]],
    "sweep": [["sweep", "echo {x}", "-p", "x", "1"], ["sweep", "--dry-run", f"echo {EVIL}{{x}}", "-p", "x", "1"]],
    "kill": [["kill", "5"]],
    "rerun": [["rerun", "5"]],
    "hold": [["hold", "5"], ["hold", "-q", "5"]],
    "release": [["release", "5"]],
    "suspend": [["suspend", "5"], ["suspend", "5", "--free"]],
    "priority": [["priority", "5", "10"]],
    "move": [["move", "5", "--first"], ["move", "5", "--after", "6"]],
    "edit": [["edit", "5", "--set", "name=x"]],
    "clean": [["clean", "5"]],
    "show": [["show"], ["show", "5"], ["show", "all"], ["show", "--json"], ["show", "all", "--json"]],
    "why": [["why", "5"]],
    "log": [["log", "5"], ["log", "5", "--json"]],
    "follow": [["follow", "5"]],
    "wait": [["wait", "5"]],
    "events": [["events"], ["events", "--json"]],
    "eta": [["eta"], ["eta", "5"], ["eta", "--json"]],
    "what-if": [["what-if", "--capacity", "{gpu: 1}"]],
    "history": [["history"], ["history", "--csv"], ["history", "--json"]],
    "config": [["config"], ["config", "show", "--origin"], ["config", "--json"]],
    "notify": [["notify"], ["notify", "--json"], ["notify", "--test", "x"]],
    "create-queue": [["create-queue", "q"]],
    "delete-queue": [["delete-queue", "q"]],
    "pause": [["pause", "q"]],
    "resume": [["resume", "q"]],
    "limit": [["limit"], ["limit", "--json"], ["limit", "project:p", "gpu=1"], ["limit", "project:p", "--remove"]],
    "machine": [
        ["machine"], ["machine", "--json"], ["machine", "add", "m"], ["machine", "test", "m"],
        ["machine", "retry", "m"], ["machine", "remove", "m"], ["machine", "shell", "m"],
    ],
    "web": [["web"], ["web", "--json"], ["web", "--logout-all"]],
    "token": [["token"], ["token", "-q"], ["token", "create"], ["token", "revoke", "x"]],
    "device": [["device"], ["device", "-q"], ["device", "--json"], ["device", "drain", "0"]],
    "drain": [["drain", "w"]],
    "remove": [["remove", "w"]],
    "audit": [["audit"]],
    "start": [["start"]],
    "doctor": [["doctor"]],
}  # fmt: skip
#: These ask no broker, or print nothing of the answer but a number; `login` and `join` have a test below.
OTHERS = {
    "login",
    "logout",
    "use",
    "join",
    "stop",
    "restart",
    "completion",
    "slurm-alias",
    "install-service",
    "daemon",
    "store",
    "top",
}

#: Runs several command lines in one process; a mark begins the output of each.
DRIVER = """
import json, os, sys
from grassq.cli.fast import main
for line in json.load(open(sys.argv[1])):
    os.write(1, b"\\n<<" + json.dumps(line).encode() + b">>\\n")
    main(line)
"""
#: Colours, and the sequences of our own progress bar.
ALLOWED = re.compile(r"\x1b\[(?:[0-9;]*m|2K|1A|\?25[hl])")
HARMFUL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2028\u2029\u2066-\u2069\ufeff]")


class Hostile:
    """A daemon that puts control sequences into everything it says: answers, or refusals."""

    def __init__(self, *, refuses: bool = False) -> None:
        self._refuses = refuses
        self._streams = 0

    def __call__(self, request: Request) -> Answer:
        path = urlsplit(request.target).path
        if self._refuses:
            return document({"error": {"exit": 5, "message": EVIL}}, status=409)
        if path == "/v1/enqueue":
            follow = {"Grass_Follow": 5} if b'"run"' in request.body else {}
            return stored(f"job 5 {EVIL}\n".encode(), f"grass: {EVIL}\n".encode(), **follow)
        if path == "/v1/events":
            # The second request, after the end of the stream, ends the command.
            self._streams += 1
            if self._streams % 2 == 0:
                return document({"error": {"exit": 5, "message": EVIL}}, status=409)
            return stream(json.dumps(EVENT).encode() + b"\n")
        if path.endswith("/log"):
            return stream(f"ok \x1b[31mred\x1b[0m {EVIL} \x1b[8m".encode(), Grass_Attempt=1)
        if path == "/v1/show" and "all" in request.target:
            head = json.dumps({"queues": [], "workers": [], "jobs": []})[:-2]
            return stream(f"{head}\n{json.dumps(JOB, ensure_ascii=False)}\n]}}\n".encode())
        if request.method == "GET":
            return document(ANSWERS[path])
        more = {"found": [EVIL], "left": [EVIL]} if path.startswith("/v1/machines/") else {}
        return document({**CHANGED, **more})


def outputs(home: Path, lines: list[list[str]]) -> dict[str, str]:
    """What a terminal is sent by each command line."""
    file = home.parent / "lines.json"
    file.write_text(json.dumps(lines))
    drawn = calls.on_terminal(home, "-c", DRIVER, file, GRASS_BROKER="").decode()
    _, *parts = re.split(r"\r\n<<(.*)>>\r\n", drawn)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def test_every_command_is_tried() -> None:
    assert LINES.keys() | OTHERS == {command.name for command in COMMANDS}


@pytest.mark.parametrize("refuses", [False, True])
def test_nothing_that_a_broker_says_controls_the_terminal(home: Path, refuses: bool) -> None:
    lines = [line for each in LINES.values() for line in each]
    with FakeDaemon(home, Hostile(refuses=refuses)):
        shown = outputs(home, lines)
    assert len(shown) == len(lines)
    for line, text in shown.items():
        assert "Traceback" not in text, text
        plain = ALLOWED.sub("", text)
        assert not HARMFUL.search(plain), (line, plain)
        colours = re.findall(r"\x1b\[([0-9;]*)m", text)
        assert not colours or colours[-1] == "0", (line, "the terminal is left as the broker wishes", text)
        # A log has the lines that the job wrote, and these answers are texts of several lines.
        if json.loads(line)[0] not in ("log", "follow", "run", "enqueue", "sweep", "why"):
            assert "\nforged" not in plain, (line, plain)


@pytest.mark.parametrize("verb", ["login", "join"])
def test_nothing_that_a_broker_says_to_a_code_controls_the_terminal(home: Path, tmp_path: Path, verb: str) -> None:
    certificate = Certificate(tmp_path)
    answer = {"token": "0a1b2c3d." + "s" * 43, "name": EVIL, "scope": EVIL, "store_id": "f" * 32}
    answers = [document(answer), document({"error": {"exit": 5, "message": EVIL}}, status=403), reply(EVIL.encode())]
    with FakeBroker(certificate, lambda request: answers.pop()) as broker:
        code = code_for(certificate, broker.address)
        texts = [outputs(home, [[verb, code]])[json.dumps([verb, code])] for _ in range(len(answers))]
    assert not answers
    for text in texts:
        assert "Traceback" not in text and not HARMFUL.search(ALLOWED.sub("", text)), text
