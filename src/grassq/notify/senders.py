"""Sends one notice to one target, once, within a time limit."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import stat
import sys
from collections.abc import Mapping
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec
from msgspec import Struct

from grassq.broker.documents.texts import timestamp
from grassq.core.notices.notice import JobEnd, Notice, variables
from grassq.core.notices.targets import APPRISE_HINT, Target
from grassq.core.printable import printable
from grassq.notify import apprise_child
from grassq.notify.bounded_command import CommandEnd, run_bounded

#: The seconds of one try.
TRY_S = 15.0
#: The bytes of an answer that are read, for the message about a failure.
ANSWER_MAX = 400
ERROR_CHARS_MAX = 200
#: Discord takes no longer text.
DISCORD_CHARS_MAX = 2000
#: Answers after which another try may succeed, besides all from 500 on.
_AGAIN = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
#: Exit codes of a shell for a program that is not there or is none.
_NO_PROGRAM = (126, 127)


class SendResult(Struct, frozen=True):
    """How one try went: no error, or why not, and whether another try would be pointless."""

    error: str = ""
    for_good: bool = False
    #: The seconds after which the receiver wants the next try.
    after_s: float | None = None


class NoticeSender:
    """Sends notices. `env` is the environment of commands: that of the daemon, and `home` the home of Grass."""

    def __init__(self, env: Mapping[bytes, bytes], home: str, *, try_s: float = TRY_S) -> None:
        others = {name: value for name, value in env.items() if not name.startswith(b"GRASS_")}
        self._env = {**others, b"GRASS_HOME": os.fsencode(home)}
        self._try_s = try_s
        self._host = socket.gethostname()

    async def send(self, target: Target, notice: Notice, cwd: bytes = b"") -> SendResult:
        """Send a notice; a command runs in `cwd` if there is such a directory."""
        try:
            match target.kind:
                case "url":
                    return await self._post(target, notice)
                case "desktop":
                    return await self._desktop(notice)
                case "apprise":
                    return await self._apprise(target, notice)
                case _:
                    return await self._command(target.text, notice, cwd)
        except OSError as error:
            return SendResult(f"cannot be started: {error.strerror or error}")

    def document(self, notice: Notice) -> dict[str, object]:
        """Return a notice as JSON has it."""
        sweep = notice.sweep
        return {
            "schema": 1,
            "event": notice.event,
            "title": notice.title,
            "text": notice.text,
            "at": timestamp(notice.at),
            "host": self._host,
            "queue": notice.queue,
            "job": None if notice.end is None else _job_document(notice.end, notice),
            "sweep": None if sweep is None else msgspec.structs.asdict(sweep),
        }

    async def _post(self, target: Target, notice: Notice) -> SendResult:
        body, kind = self._body(target, notice)
        headers = {"Content-Type": kind, "User-Agent": "grass"}
        limit = aiohttp.ClientTimeout(total=self._try_s)
        try:
            async with (
                aiohttp.ClientSession(timeout=limit, trust_env=True) as session,
                # A redirect is not followed: a secret in the URL is for one host.
                session.post(target.text, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                said = b"" if answer.ok else await answer.content.read(ANSWER_MAX)
                after = answer.headers.get("Retry-After", "")
                return _read_answer(target, answer.status, said, after)
        except TimeoutError:
            return SendResult(f"no answer within {self._try_s:g} s")
        except aiohttp.ClientConnectorCertificateError:
            return SendResult("the certificate of the host is not valid")
        except aiohttp.ClientConnectorError as error:
            return SendResult(f"cannot connect: {error.os_error.strerror or 'no such host'}")
        except ValueError:
            # Besides what aiohttp calls invalid: a host that cannot be encoded.
            return SendResult("the URL cannot be used", for_good=True)
        except aiohttp.ClientError as error:
            # The words of the error may hold the URL, so only its kind is told.
            return SendResult(f"no valid answer ({type(error).__name__})")

    def _body(self, target: Target, notice: Notice) -> tuple[bytes, str]:
        match target.style:
            case "slack":
                content: object = {"text": notice.message}
            case "discord":
                content = {"content": notice.message[:DISCORD_CHARS_MAX]}
            case "ntfy" | "text":
                return notice.message.encode("utf-8", "replace"), "text/plain; charset=utf-8"
            case _:
                content = self.document(notice)
        return json.dumps(content).encode(), "application/json"

    async def _command(self, line: str, notice: Notice, cwd: bytes) -> SendResult:
        document = self.document(notice)
        job = document["job"]
        given = variables(notice, job if isinstance(job, dict) else {})
        env = {**self._env, **{os.fsencode(name): os.fsencode(value) for name, value in given.items()}}
        end = await self._run(["/bin/sh", "-c", line], json.dumps(document).encode() + b"\n", env, cwd)
        result = self._how(end)
        return SendResult(result.error, for_good=end.code in _NO_PROGRAM)

    async def _desktop(self, notice: Notice) -> SendResult:
        program = shutil.which("notify-send", path=os.fsdecode(self._env.get(b"PATH", b"/usr/bin:/bin")))
        if program is None:
            return SendResult("there is no notify-send on this machine; install libnotify", for_good=True)
        bus = self._env.get(b"DBUS_SESSION_BUS_ADDRESS") or _user_bus()
        if bus is None:
            return SendResult("there is no desktop session of yours on this machine (no session bus)", for_good=True)
        urgency = "critical" if notice.is_bad else "normal"
        words = [program, "--app-name=grass", f"--urgency={urgency}", "--", notice.title, _escaped(notice.text)]
        end = await self._run(words, b"", {**self._env, b"DBUS_SESSION_BUS_ADDRESS": bus}, b"")
        return self._how(end)

    async def _apprise(self, target: Target, notice: Notice) -> SendResult:
        if not has_apprise():
            return SendResult(APPRISE_HINT, for_good=True)
        text = notice.text or notice.title
        asked = {"url": target.text, "title": notice.title, "text": text, "bad": notice.is_bad}
        # -P: no module of the directory it runs in takes the place of another.
        words = [sys.executable, "-P", "-m", apprise_child.__name__]
        end = await self._run(words, json.dumps(asked).encode(), self._env, b"")
        if end.code == apprise_child.NOT_INSTALLED:
            return SendResult(APPRISE_HINT, for_good=True)
        if end.code == apprise_child.NO_TARGET:
            return SendResult("apprise does not know this URL; see its list of services", for_good=True)
        return SendResult(self._how(end).error.replace(target.text, "..."))

    async def _run(self, argv: list[str], given: bytes, env: Mapping[bytes, bytes], cwd: bytes) -> CommandEnd:
        if not cwd or not await asyncio.to_thread(_is_directory, cwd):
            cwd = self._env.get(b"HOME", b"/")
            cwd = cwd if await asyncio.to_thread(_is_directory, cwd) else b"/"
        return await run_bounded(argv, given, env=env, cwd=cwd, limit_s=self._try_s)

    def _how(self, end: CommandEnd) -> SendResult:
        if end.code == 0:
            return SendResult()
        if end.code is None:
            return SendResult(f"did not end within {self._try_s:g} s, and was killed")
        lines = end.output.decode("utf-8", "replace").strip().splitlines()
        how = f"exit code {end.code}" if end.code > 0 else f"signal {-end.code}"
        return SendResult(printable(f"{how}: {lines[-1].strip()}" if lines else how, ERROR_CHARS_MAX))


def has_apprise() -> bool:
    """Tell whether the package that knows URLs other than http and https is installed."""
    return find_spec("apprise") is not None


def _read_answer(target: Target, status: int, said: bytes, after: str) -> SendResult:
    if 200 <= status < 300:
        return SendResult()
    if 300 <= status < 400:
        return SendResult(f"answers with a redirect ({status}); name the address behind it", for_good=True)
    phrase = HTTPStatus(status).phrase if status in HTTPStatus.__members__.values() else ""
    words = " ".join(said.decode("utf-8", "replace").split())
    path = urlsplit(target.text).path
    words = words.replace(path, "...") if len(path) > 1 else words
    error = printable(f"answers {status} {phrase}".rstrip() + (f": {words}" if words else ""), ERROR_CHARS_MAX)
    seconds = float(after) if after.isascii() and after.isdigit() and len(after) < 8 else None
    return SendResult(error, for_good=status < 500 and status not in _AGAIN, after_s=seconds)


def _job_document(end: JobEnd, notice: Notice) -> dict[str, object]:
    return {
        "id": end.job,
        "name": end.name,
        "queue": end.queue,
        "state": end.state,
        "outcome": end.outcome,
        "exit_code": end.exit_code,
        "signal": end.signal,
        "error": end.error,
        "worker": end.worker,
        "attempt": end.attempt,
        "took_s": None if end.took_s is None else round(end.took_s, 3),
        "created": timestamp(end.created),
        "started": timestamp(end.started),
        "finished": timestamp(end.finished),
        "cause": notice.clue.cause or None,
        "last_line": notice.clue.last_line or None,
    }


def _user_bus() -> bytes | None:
    """Return the address of the session bus that systemd keeps for a user with a session."""
    path = f"/run/user/{os.getuid()}/bus"
    try:
        return f"unix:path={path}".encode() if stat.S_ISSOCK(Path(path).stat().st_mode) else None
    except OSError:
        return None


def _is_directory(path: bytes) -> bool:
    return Path(os.fsdecode(path)).is_dir()


def _escaped(text: str) -> str:
    """Return a text in which a desktop finds no markup."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
