"""Runs gpupeasy-server and gpupeasy-gui. `main` does all imports, so that a ctrl-C there prints no traceback."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from grassq.compat.gpupeasy.arguments import GuiArguments, ServerArguments
    from grassq.compat.messages import Messages
    from grassq.compat.signals import Signals
    from grassq.net.client import ApiClient

EXIT_SIGNAL = 128
BACKLOG = 128


def start_server(port: int = 8888, devices: Sequence[str] = ("0", "1", "2", "3"), project: str | None = None) -> None:
    """Serve GPUPeasy's API until ctrl-C, and exit; flags and the environment count before these values."""
    sys.exit(main_server(sys.argv[1:], port, devices, project))


def start_gui(port: int = 4004) -> None:
    """Open the page at this port until ctrl-C, and exit; flags and the environment count before this value."""
    sys.exit(main_gui(sys.argv[1:], port))


def main_server(
    argv: list[str],
    port: int = 8888,
    devices: Sequence[str] = ("0", "1", "2", "3"),
    project: str | None = None,
) -> int:
    """Run the server and return its exit code; never a traceback."""

    def call() -> int:
        from grassq.compat.gpupeasy import arguments
        from grassq.home import environment_text

        typed = arguments.read_server(argv, environment_text(), port, devices, project)
        return _with_client(arguments.SERVER, lambda *parts: _serve(typed, *parts))

    return _guarded(call)


def main_gui(argv: list[str], port: int = 4004) -> int:
    """Run the page and return its exit code; never a traceback."""

    def call() -> int:
        from grassq.compat.gpupeasy import arguments
        from grassq.home import environment_text

        typed = arguments.read_gui(argv, environment_text(), port)
        return _with_client(arguments.GUI, lambda *parts: _show(typed, *parts))

    return _guarded(call)


def _guarded(call: Callable[[], int]) -> int:
    try:
        from grassq.descriptors import open_standard_streams

        open_standard_streams()
        return call()
    except KeyboardInterrupt:
        return 130  # nothing was begun yet
    finally:
        from grassq.compat.signals import ignore

        ignore()


def _with_client(program: str, call: Callable[[ApiClient, Messages, Signals], int]) -> int:
    from grassq import home
    from grassq.compat.messages import Messages
    from grassq.compat.signals import Leave, Signals
    from grassq.errors import GrassError
    from grassq.net.client import ApiClient
    from grassq.net.encoding import version_warning

    messages, signals = Messages(program), Signals(leave_at=2)
    try:
        # Always the daemon of this machine, because the devices are in this machine.
        with ApiClient(home.current(), tell=messages.say) as client:
            try:
                return call(client, messages, signals)
            finally:
                if warning := version_warning(client.headers.get("grass-version")):
                    messages.say(warning)
    except GrassError as error:
        messages.say(str(error))
        return error.exit_code
    except Leave:
        return EXIT_SIGNAL + signals.first


def _serve(typed: ServerArguments, client: ApiClient, messages: Messages, signals: Signals) -> int:
    from grassq import loopback_sockets
    from grassq.compat.gpupeasy import arguments
    from grassq.compat.gpupeasy.api import PeasyApi
    from grassq.compat.gpupeasy.devices import make_queue
    from grassq.compat.gpupeasy.http_server import HttpServer
    from grassq.errors import Refused
    from grassq.home import Sender

    try:
        listening = loopback_sockets.listen(typed.port, BACKLOG)
    except loopback_sockets.PortTaken as error:
        raise Refused(f"{error}; or end the other {arguments.SERVER}, if it is one") from None
    entries, notes = make_queue(client, typed.queue, typed.devices)
    for note in notes:
        messages.say(f"note: {note}")
    api = PeasyApi(client, typed.queue, typed.project, Sender.to(None))
    devices = " ".join(entry or arguments.NO_DEVICE for entry in entries)
    messages.say(f"http://127.0.0.1:{typed.port} serves queue {typed.queue} with devices {devices}; ctrl-C ends it")
    signal = HttpServer(api, listening, signals).run()
    messages.say(f"stopped; the jobs of queue {typed.queue} go on, and the next start shows them")
    return EXIT_SIGNAL + signal


def _show(typed: GuiArguments, client: ApiClient, messages: Messages, signals: Signals) -> int:
    from grassq.compat.gpupeasy.gui import show

    return EXIT_SIGNAL + show(client, typed, messages, signals)
