"""One call of simple_gpu_scheduler, from its words to its exit code."""

from __future__ import annotations

import os

from grassq import __version__
from grassq import home as homes
from grassq.compat.simple_gpu_scheduler import arguments
from grassq.compat.simple_gpu_scheduler.killed_runs import tell_of_earlier
from grassq.compat.simple_gpu_scheduler.messages import Messages
from grassq.compat.simple_gpu_scheduler.scheduler import EXIT_SIGNAL, Scheduler
from grassq.compat.simple_gpu_scheduler.signals import Leave, Signals, ignore
from grassq.errors import BadInput, GrassError
from grassq.net.client import ApiClient


def call(argv: list[str]) -> int:
    """Run one call and return its exit code; never a traceback."""
    typed = arguments.read(argv)
    messages, signals = Messages(), Signals()
    try:
        try:
            return _guarded(typed, messages, signals)
        finally:
            messages.hide()
            ignore()
    except Leave:
        # It comes once, and may come at the very end.
        ignore()
        messages.say("left; what was handed over goes on, and the next simple_gpu_scheduler tells of it")
        return EXIT_SIGNAL + signals.first


def _guarded(typed: arguments.Arguments, messages: Messages, signals: Signals) -> int:
    try:
        cwd = _working_directory()
        # Always this machine's own daemon: the devices are this machine's.
        with ApiClient(homes.current(), tell=messages.say) as client:
            return _serve(client, typed, cwd, messages, signals)
    except GrassError as error:
        messages.say(str(error))
        return error.exit_code
    except OSError as error:
        messages.say(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
        return 1


def _serve(client: ApiClient, typed: arguments.Arguments, cwd: bytes, messages: Messages, signals: Signals) -> int:
    try:
        scheduler = Scheduler(client, typed, cwd, messages, signals)
        tell_of_earlier(client, messages)
        return scheduler.run()
    finally:
        if client.daemon_version not in (None, __version__):
            other = f"the daemon is version {client.daemon_version}, this command is {__version__}"
            messages.say(f"{other}; `grass restart` (jobs run on)")


def _working_directory() -> bytes:
    try:
        return os.getcwdb()  # noqa: PTH109 - bytes
    except OSError as error:
        raise BadInput(f"the current directory cannot be used ({error.strerror}); cd to another one") from error
