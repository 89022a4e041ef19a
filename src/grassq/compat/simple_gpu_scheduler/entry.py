"""Runs one call of simple_gpu_scheduler. `main` does all imports, so a ctrl-C during an import prints no traceback."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from grassq.compat.messages import Messages
    from grassq.compat.signals import Signals
    from grassq.compat.simple_gpu_scheduler.arguments import Arguments


def main(argv: list[str]) -> int:
    """Run one call and return its exit code; never a traceback."""
    try:
        from grassq.descriptors import open_standard_streams

        open_standard_streams()
        return _call(argv)
    except KeyboardInterrupt:
        return 130  # nothing was created yet
    finally:
        from grassq.compat.signals import ignore

        ignore()


def _call(argv: list[str]) -> int:
    from grassq.compat.messages import Messages
    from grassq.compat.signals import Leave, Signals, ignore
    from grassq.compat.simple_gpu_scheduler import arguments
    from grassq.compat.simple_gpu_scheduler.scheduler import EXIT_SIGNAL
    from grassq.errors import GrassError

    typed = arguments.read(argv)
    messages, signals = Messages(arguments.PROGRAM), Signals()
    try:
        try:
            return _schedule(typed, messages, signals)
        except GrassError as error:
            messages.say(str(error))
            return error.exit_code
        except OSError as error:
            messages.say(f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror))
            return 1
        finally:
            messages.hide()
            ignore()
    except Leave:
        # Raised at most once, possibly as late as in `finally`.
        ignore()
        messages.say("left; submitted commands keep running, and the next simple_gpu_scheduler reports them")
        return EXIT_SIGNAL + signals.first


def _schedule(typed: Arguments, messages: Messages, signals: Signals) -> int:
    from grassq import home
    from grassq.compat.simple_gpu_scheduler.killed_runs import report_killed_runs
    from grassq.compat.simple_gpu_scheduler.scheduler import Scheduler
    from grassq.net.client import ApiClient
    from grassq.net.encoding import version_warning

    cwd = home.working_directory()
    # Always the daemon of this machine, because the GPUs are in this machine.
    with ApiClient(home.current(), tell=messages.say) as client:
        try:
            scheduler = Scheduler(client, typed, cwd, messages, signals)
            report_killed_runs(client, messages)
            return scheduler.run()
        finally:
            if warning := version_warning(client.headers.get("grass-version")):
                messages.say(warning)
