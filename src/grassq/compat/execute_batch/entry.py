"""Runs one call of execute_batch or execute_remote. `main` does all imports, so a ctrl-C there prints no traceback."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from grassq.compat.messages import Messages
    from grassq.net.client import ApiClient

#: The exit code of ssh for every failure of its own; execute_remote has it for a machine that cannot be used.
EXIT_SSH = 255


def main(argv: list[str]) -> int:
    """Run one call of execute_batch and return its exit code; never a traceback."""
    return _guarded(lambda: _batch(argv))


def main_remote(argv: list[str]) -> int:
    """Run one call of execute_remote and return its exit code; never a traceback."""
    return _guarded(lambda: _remote(argv))


def _guarded(call: Callable[[], int]) -> int:
    try:
        from grassq.descriptors import open_standard_streams

        open_standard_streams()
        return call()
    except KeyboardInterrupt:
        return 130  # nothing was submitted yet
    finally:
        from grassq.compat.signals import ignore

        ignore()


def _batch(argv: list[str]) -> int:
    from grassq.compat.execute_batch import arguments

    # First of all: wrong words and --help need nothing else.
    typed = arguments.read_batch(argv)
    from grassq.compat.execute_batch.batch import BatchCall
    from grassq.compat.messages import Messages

    messages = Messages(arguments.BATCH, "jobs")
    return _call(messages, lambda client: BatchCall(typed, messages).run(client))


def _remote(argv: list[str]) -> int:
    from grassq.compat.execute_batch import arguments
    from grassq.compat.execute_batch.machines import MachineUnusable
    from grassq.compat.execute_batch.remote import RemoteCall
    from grassq.compat.messages import Messages

    messages = Messages(arguments.REMOTE)

    def run(client: ApiClient) -> int:
        try:
            return RemoteCall(arguments.read_remote(argv), messages).run(client)
        except MachineUnusable as error:
            messages.say(str(error))
            return EXIT_SSH

    return _call(messages, run)


def _call(messages: Messages, run: Callable[[ApiClient], int]) -> int:
    """Run with a client of the daemon; print an error as one line."""
    from grassq import home
    from grassq.cli.render import reason
    from grassq.compat.signals import Leave, ignore
    from grassq.errors import GrassError
    from grassq.net.client import ApiClient
    from grassq.net.encoding import version_warning

    try:
        try:
            # Always the daemon of this machine: it has the user's keys.
            with ApiClient(home.current(), tell=messages.say) as client:
                code = run(client)
                if warning := version_warning(client.headers.get("grass-version")):
                    messages.say(warning)
                return code
        except GrassError as error:
            messages.say(str(error))
            return error.exit_code
        except OSError as error:
            messages.say(reason(error))
            return 1
        finally:
            messages.hide()
    except Leave:
        ignore()
        messages.say("left; the same call says what became of its jobs")
        return 130
