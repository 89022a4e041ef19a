"""Every error of Grass, with the exit code of a command that ends by it."""

from __future__ import annotations

EXIT_OK = 0
EXIT_JOB_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_FOUND = 3
EXIT_UNREACHABLE = 4
EXIT_REFUSED = 5
EXIT_TIMED_OUT = 124
EXIT_INTERRUPTED = 130
#: The reader of stdout has gone, as a shell reports it.
EXIT_BROKEN_PIPE = 141


class GrassError(Exception):
    """Something went wrong; the message says what and what to do."""

    exit_code = 1


class BadInput(GrassError):
    """The given words, amounts or files are invalid."""

    exit_code = EXIT_USAGE


class NotFound(GrassError):
    """No job, queue or program has this name."""

    exit_code = EXIT_NOT_FOUND


class Unreachable(GrassError):
    """No daemon or broker answers."""

    exit_code = EXIT_UNREACHABLE


class Gone(Unreachable):
    """This daemon or broker is ending; ask again to reach the next one."""


class Refused(GrassError):
    """Understood, but it cannot be done or can never fit."""

    exit_code = EXIT_REFUSED


class HomeTaken(Refused):
    """Another daemon serves this home."""


class StoreUnavailable(Refused):
    """The store cannot be read or written now."""


class StoreFull(StoreUnavailable):
    """The store cannot be written because this machine's disk is full."""


class UnknownSchema(StoreUnavailable):
    """Another version of Grass wrote this store; this version must not change it."""


class Deposed(GrassError):
    """Another broker has taken the store over; this broker must do nothing more."""


class InvalidMove(GrassError):
    """A job was asked to make a move its state forbids (a bug)."""


class GuardFailed(GrassError):
    """A guarded update matched no row: the board and the store disagree (a bug)."""
