"""The arguments of gpupeasy-server and gpupeasy-gui: flags, then the environment, then what the script says."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from grassq.core.names import check_name
from grassq.core.syntax.addresses import PORT_MAX
from grassq.core.syntax.numbers import is_number
from grassq.errors import BadInput

SERVER, GUI = "gpupeasy-server", "gpupeasy-gui"
SERVER_PORT, GUI_PORT = 8888, 4004
DEVICES = ("0", "1", "2", "3")
QUEUE = "gpupeasy"
LOOPBACK = ("127.0.0.1", "localhost", "::1", "[::1]", "")
#: An entry of the device list without a device, where it must not be empty.
NO_DEVICE = "-"

SERVER_MORE = """\
devices:
  --devices 0 1 2 3     one job at a time on each of four GPUs
  --devices 0,1 2,3     pairs of GPUs: each job gets two
  --devices 0 0 1       two jobs at a time on GPU 0
  --devices 0 ''        '' or - is a job without a GPU
  Without --devices a queue that exists keeps its devices; the first start makes it with 0 1 2 3.

environment:
  GPUPEASY_PORT, GPUPEASY_DEVICES ("0 1 -"), GPUPEASY_QUEUE and GPUPEASY_PROJECT are used where a flag is not given.

The server listens on this machine only, and answers programs of its owner only: its API has no token. From another
machine, submit to the broker with a token: `grass daemon --bind ADDRESS`, then POST /v1/submit.
"""


class ServerArguments(NamedTuple):
    """The arguments of a server."""

    port: int
    #: The entries of the device list; None: those of the queue as it is, else the usual ones.
    devices: tuple[str, ...] | None
    queue: str
    project: str | None


def read_server(
    argv: Sequence[str],
    environment: Mapping[str, str],
    port: int = SERVER_PORT,
    devices: Sequence[str] = DEVICES,
    project: str | None = None,
) -> ServerArguments:
    """Read the arguments of a server; if they are invalid, print the usage and exit with code 2."""
    parser = argparse.ArgumentParser(
        prog=SERVER,
        description="Serve GPUPeasy's JSON API on this machine; the jobs run in a queue of Grass.",
        epilog=SERVER_MORE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _add_place(parser, port, "GPUPEASY_PORT")
    parser.add_argument("--devices", metavar="IDS", nargs="*", help=f"the GPUs (default: {' '.join(DEVICES)})")
    parser.add_argument("--queue", metavar="QUEUE", help=f"the queue of Grass (default: {QUEUE})")
    parser.add_argument("--project", metavar="NAME", help="the project of the jobs")
    typed = parser.parse_args(argv)
    listed = environment.get("GPUPEASY_DEVICES")
    chosen: Sequence[str] | None = tuple(devices) if tuple(devices) != DEVICES else None
    if typed.devices is not None:
        chosen = typed.devices
    elif listed:
        chosen = listed.split()
    try:
        if chosen is not None and not chosen:
            raise BadInput("--devices needs at least one device")
        named = typed.project or environment.get("GPUPEASY_PROJECT") or project
        return ServerArguments(
            _port(typed, environment, "GPUPEASY_PORT", port),
            None if chosen is None else tuple(chosen),
            check_name(typed.queue or environment.get("GPUPEASY_QUEUE") or QUEUE, "queue name"),
            None if not named else check_name(named, "project"),
        )
    except BadInput as error:
        parser.error(str(error))


class GuiArguments(NamedTuple):
    """The arguments of the page."""

    port: int
    queue: str


def read_gui(argv: Sequence[str], environment: Mapping[str, str], port: int = GUI_PORT) -> GuiArguments:
    """Read the arguments of the page; if they are invalid, print the usage and exit with code 2."""
    parser = argparse.ArgumentParser(
        prog=GUI, description="Open the page of Grass at GPUPeasy's port, and print the link that logs a browser in."
    )
    _add_place(parser, port, "GPUPEASY_GUI_PORT")
    parser.add_argument("--queue", metavar="QUEUE", help=f"the queue that the page shows first (default: {QUEUE})")
    typed = parser.parse_args(argv)
    queue = typed.queue or environment.get("GPUPEASY_QUEUE") or QUEUE
    try:
        return GuiArguments(_port(typed, environment, "GPUPEASY_GUI_PORT", port), check_name(queue, "queue name"))
    except BadInput as error:
        parser.error(str(error))


def _add_place(parser: argparse.ArgumentParser, port: int, variable: str) -> None:
    parser.add_argument("--port", metavar="N", help=f"the port on this machine (default: ${variable}, else {port})")
    parser.add_argument("--host", metavar="ADDRESS", default="", help="an address of this machine's loopback")


def _port(typed: argparse.Namespace, environment: Mapping[str, str], variable: str, default: int) -> int:
    if typed.host not in LOOPBACK:
        raise BadInput(
            f"--host {typed.host}: this API has no token, so it is served on loopback only; for other machines "
            "`grass daemon --bind ADDRESS` serves the same queue over TLS, with tokens"
        )
    text = str(typed.port or environment.get(variable) or default)
    if not is_number(text) or not 0 < int(text) <= PORT_MAX:
        raise BadInput(f"the port is a number from 1 to {PORT_MAX}, not {text[:20]!r}")
    return int(text)
