"""Where simple_gpu_scheduler begins and ends; all else is loaded where a ctrl-C is no traceback any more."""

from __future__ import annotations

import os
import sys


def main(argv: list[str]) -> int:
    """Run one call and return its exit code."""
    try:
        _open_standard_streams()
        from grassq.compat.simple_gpu_scheduler.call import call

        return call(argv)
    except KeyboardInterrupt:
        return 130  # before anything was made
    finally:
        from grassq.compat.simple_gpu_scheduler.signals import ignore

        ignore()


def _open_standard_streams() -> None:
    # With one of 0-2 closed, what is opened next would get its number and be written to.
    if sys.stdin is None or sys.stdout is None or sys.stderr is None:
        while os.open(os.devnull, os.O_RDWR) <= 2:
            pass
