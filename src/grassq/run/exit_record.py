"""The exit record of an attempt: what is in it, and whether it is whole. A job can write it, so all is checked."""

from __future__ import annotations

from grassq import atomic_files
from grassq.core import result
from grassq.core.printable import printable

TYPE_CHECKING = False  # `typing` costs every shim memory; type checkers read this name as true
if TYPE_CHECKING:
    from typing import Any

#: The bounds of an exit record: the year 9999, and what a kernel says of a process.
TIME_MAX = 253402300799
KERNEL_MAX = 2**31 - 1
#: The "outcome" of an exit record. Each is an outcome of the core, except that a signal is also `exited`, and that
#: `lease_ended` is `lost`, or nothing at all if the command had not started.
OUTCOMES = ("exited", "spawn_failed", "cancelled", "lease_ended", "timed_out")
EXITED, SPAWN_FAILED, CANCELLED, LEASE_ENDED, TIMED_OUT = OUTCOMES
#: One byte more than a result may have: a larger file is refused as such.
RESULT_LIMIT = result.RESULT_MAX + 1


def parse(data: bytes) -> dict[str, Any] | None:
    """Return the record in the contents of an exit file; None if it is torn, damaged or incomplete."""
    body = atomic_files.verify_checksum(data)
    record = None if body is None else atomic_files.parse(body)
    if record is None or not _is_whole(record):
        return None
    if record["error"] is not None:
        # JSON can spell what is no Unicode: no message could carry it to the broker.
        record["error"] = printable(record["error"])
    return record


def _is_whole(record: dict[str, Any]) -> bool:
    code, signal, error, *times = (record.get(name, ...) for name in ("code", "signal", "error", "started", "ended"))
    return (
        all(each is None or (type(each) is int and abs(each) <= KERNEL_MAX) for each in (code, signal))
        and record.get("outcome") in OUTCOMES
        and type(error) in (str, type(None))
        and _is_result(record.get("result"))
        # NaN is no time: it compares with nothing.
        and all(type(at) in (int, float) and 0 <= at <= TIME_MAX for at in times)
    )


def _is_result(text: object) -> bool:
    try:
        return text is None or (isinstance(text, str) and result.read(text.encode()) == text)
    except ValueError:
        return False


def take_result(record: dict[str, Any], data: bytes | None) -> None:
    """Add the contents of a result file to an exit record; None if there is no file."""
    try:
        if data is not None:
            record["result"] = result.read(data)
    except ValueError as error:
        no_result(record, error)


def no_result(record: dict[str, Any], error: OSError | ValueError) -> None:
    """Note why a result file gives no result: as the error of a job that has succeeded."""
    if record["code"] == 0 and record["error"] is None:
        record["error"] = f"the result file is unusable: {error}"
