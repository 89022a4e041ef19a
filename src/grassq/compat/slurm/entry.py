"""Runs one call of a command of Slurm. `main` does all imports, so a ctrl-C there prints no traceback."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from grassq.net.client import ApiClient

    Command = Callable[[ApiClient, list[str]], int]


def main(program: str, argv: list[str]) -> int:
    """Run one call and return its exit code; never a traceback."""
    try:
        from grassq.descriptors import open_standard_streams

        open_standard_streams()
        return _call(program, argv)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141
    finally:
        from grassq.compat.signals import ignore

        ignore()


def _call(program: str, argv: list[str]) -> int:
    from importlib import import_module

    from grassq import home
    from grassq.cli.render import clean, reason, text
    from grassq.errors import GrassError
    from grassq.net.client import ApiClient
    from grassq.net.encoding import version_warning

    def say(message: str) -> None:
        text(f"{program}: {clean(message)}\n", fd=2)

    try:
        directory = home.current()
        # The client opens no connection before the first request, so wrong words need no daemon.
        with ApiClient(directory, broker=home.broker(directory, None), tell=say) as client:
            command: Command = import_module(f"grassq.compat.slurm.{program}").run
            code = command(client, argv)
            if client.broker is None and (warning := version_warning(client.headers.get("grass-version"))):
                say(warning)
            return code
    except GrassError as error:
        say(f"error: {error}")
        return error.exit_code
    except BrokenPipeError:
        raise
    except OSError as error:
        say(f"error: {reason(error)}")
        return 1
