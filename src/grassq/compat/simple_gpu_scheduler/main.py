"""Where a call of simple_gpu_scheduler begins and ends."""

from __future__ import annotations

import os
import sys

from grassq import __version__
from grassq import home as homes
from grassq.compat.simple_gpu_scheduler import arguments
from grassq.compat.simple_gpu_scheduler.aftermath import tell_of_earlier
from grassq.compat.simple_gpu_scheduler.door import EXIT_SIGNAL, Door
from grassq.compat.simple_gpu_scheduler.signals import Leave, Signals
from grassq.compat.simple_gpu_scheduler.voice import Voice
from grassq.errors import GrassError
from grassq.net.client import Client


def main(argv: list[str]) -> int:
    """Run one call and return its exit code; never a traceback."""
    _open_standard_streams()
    typed = arguments.read(argv)
    voice, signals = Voice(), Signals()
    try:
        # Always this machine's own daemon: the devices are this machine's.
        with Client(homes.current(), tell=voice.say) as client:
            return _serve(client, typed, voice, signals)
    except GrassError as error:
        voice.say(str(error))
        return error.exit_code
    except OSError as error:
        voice.say(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
        return 1
    except Leave:
        voice.say("left; what was handed over goes on, and the next simple_gpu_scheduler tells of it")
        return EXIT_SIGNAL + signals.first
    finally:
        voice.hide()


def _serve(client: Client, typed: arguments.Arguments, voice: Voice, signals: Signals) -> int:
    try:
        door = Door(client, typed, voice, signals)
        tell_of_earlier(client, voice)
        return door.run()
    finally:
        if client.daemon_version not in (None, __version__):
            other = f"the daemon is version {client.daemon_version}, this command is {__version__}"
            voice.say(f"{other}; `grass restart` (jobs run on)")


def _open_standard_streams() -> None:
    # With one of 0-2 closed, what is opened next would get its number and be written to.
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) <= 2:
            pass
