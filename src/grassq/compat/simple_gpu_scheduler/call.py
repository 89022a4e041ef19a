"""One call of simple_gpu_scheduler, from its words to its exit code."""

from __future__ import annotations

import os

from grassq import __version__
from grassq import home as homes
from grassq.compat.simple_gpu_scheduler import arguments
from grassq.compat.simple_gpu_scheduler.aftermath import tell_of_earlier
from grassq.compat.simple_gpu_scheduler.door import EXIT_SIGNAL, Door
from grassq.compat.simple_gpu_scheduler.signals import Leave, Signals, ignore
from grassq.compat.simple_gpu_scheduler.voice import Voice
from grassq.errors import BadInput, GrassError
from grassq.net.client import Client


def call(argv: list[str]) -> int:
    """Run one call and return its exit code; never a traceback."""
    typed = arguments.read(argv)
    voice, signals = Voice(), Signals()
    try:
        try:
            return _guarded(typed, voice, signals)
        finally:
            voice.hide()
            ignore()
    except Leave:
        # It comes once, and may come at the very end.
        ignore()
        voice.say("left; what was handed over goes on, and the next simple_gpu_scheduler tells of it")
        return EXIT_SIGNAL + signals.first


def _guarded(typed: arguments.Arguments, voice: Voice, signals: Signals) -> int:
    try:
        cwd = _working_directory()
        # Always this machine's own daemon: the devices are this machine's.
        with Client(homes.current(), tell=voice.say) as client:
            return _serve(client, typed, cwd, voice, signals)
    except GrassError as error:
        voice.say(str(error))
        return error.exit_code
    except OSError as error:
        voice.say(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
        return 1


def _serve(client: Client, typed: arguments.Arguments, cwd: bytes, voice: Voice, signals: Signals) -> int:
    try:
        door = Door(client, typed, cwd, voice, signals)
        tell_of_earlier(client, voice)
        return door.run()
    finally:
        if client.daemon_version not in (None, __version__):
            other = f"the daemon is version {client.daemon_version}, this command is {__version__}"
            voice.say(f"{other}; `grass restart` (jobs run on)")


def _working_directory() -> bytes:
    try:
        return os.getcwdb()  # noqa: PTH109 - bytes
    except OSError as error:
        raise BadInput(f"the current directory cannot be used ({error.strerror}); cd to another one") from error
