"""web: open the web page in a browser, or print a link to it."""

from __future__ import annotations

import argparse
import shutil
import subprocess
from typing import Any

from grassq import home as homes
from grassq.cli import render
from grassq.cli.connect import connect
from grassq.errors import EXIT_OK, BadInput
from grassq.net.page_link import page_links

EPILOG = "The link works once, within a minute. It is for a browser on this machine; elsewhere, use the ssh line."
SCOPES = ("read", "submit", "admin")
#: The programs that open a link, in the order in which they are tried.
OPENERS = ("xdg-open", "gio", "wslview")
#: Seconds that such a program may take to hand the link to a browser.
OPEN_S = 5.0


def build(_: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `web`."""
    parser.epilog = EPILOG
    parser.add_argument("--no-open", action="store_true", help="print the link, and open no browser")
    scope = "read, submit or admin: what the page may do (default: what you may do)"
    parser.add_argument("--scope", metavar="SCOPE", choices=SCOPES, help=scope)
    parser.add_argument("--port", metavar="N", type=int, help="the port on this machine (default: setting web_port)")
    parser.add_argument("--logout-all", action="store_true", help="end all sessions of pages, in every browser")
    parser.add_argument("--json", action="store_true", help="print the answer as a JSON document; open no browser")
    parser.set_defaults(run=_web)


def _web(arguments: argparse.Namespace) -> int:
    if arguments.logout_all:
        if arguments.scope is not None or arguments.port is not None:
            raise BadInput("--logout-all takes no --scope and no --port")
        return _logout_all(arguments)
    environment = homes.environment_text()
    with connect(arguments.broker) as client:
        # For a broker elsewhere no browser is opened: other users of this machine see its command line, and the code.
        is_quiet = arguments.no_open or arguments.json or client.broker is not None
        opener = None if is_quiet else _opener(environment)
        answer = client.change(
            "session/link",
            scope=arguments.scope,
            port=arguments.port,
            own=opener is not None or None,
            cwd=homes.directory_text() if client.broker is None else None,
        )
        link, *others = page_links(answer, client.broker)
    if arguments.json:
        return render.document({**answer, "url": link})
    render.line(link)
    port = answer.get("port")
    notes = []
    if opener is None or not _opened(opener, link):
        notes.append(f"open this link in a browser within {_seconds(answer)} s; it works once")
        if client.broker is None and environment.get("SSH_CONNECTION") and isinstance(port, int):
            notes.append(f"from your computer, first: {_ssh_line(port, environment)}")
        notes += [f"or from another machine: {other}" for other in others]
    if answer.get("is_built") is False:
        notes.append("this Grass was installed without its page; the link says how to get it")
    render.notes(notes)
    return EXIT_OK


def _logout_all(arguments: argparse.Namespace) -> int:
    with connect(arguments.broker) as client:
        answer = client.change("session/end-all")
    count = len(answer.get("ended") or [])
    sentence = "there was no session to end" if not count else f"{count} session{'s' if count > 1 else ''} ended"
    return render.outcome(arguments.json, answer, sentence)


def _seconds(answer: dict[str, Any]) -> str:
    seconds = answer.get("expires_s")
    return f"{seconds:g}" if isinstance(seconds, int | float) else "60"


def _opener(environment: Any) -> list[str] | None:
    """Return the program that opens a link here; None without a display, where a text browser would take over."""
    if environment.get("SSH_CONNECTION") or not (environment.get("DISPLAY") or environment.get("WAYLAND_DISPLAY")):
        return None
    for name in OPENERS:
        if (path := shutil.which(name)) is not None:
            return [path, "open"] if name == "gio" else [path]
    return None


def _opened(opener: list[str], link: str) -> bool:
    """Open a link, and return whether that seems to have worked."""
    quiet = subprocess.DEVNULL
    try:
        started = subprocess.Popen([*opener, link], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
        return started.wait(OPEN_S) == 0
    except subprocess.TimeoutExpired:
        return True  # some of these programs stay until the browser ends
    except OSError:
        return False


def _ssh_line(port: int, environment: Any) -> str:
    parts = str(environment["SSH_CONNECTION"]).split()
    user = environment.get("USER") or environment.get("LOGNAME") or "USER"
    host = parts[2] if len(parts) == 4 else "HOST"
    own = f"-p {parts[3]} " if len(parts) == 4 and parts[3] != "22" else ""
    return f"ssh -N -L {port}:127.0.0.1:{port} {own}{user}@{host}"
