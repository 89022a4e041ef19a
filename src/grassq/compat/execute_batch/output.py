"""The lines of execute_batch on stdout, as ml-scheduler prints them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from grassq.cli import render
from grassq.compat.execute_batch.batch_file import BatchLine
from grassq.compat.messages import Messages


def limits_lines(slots: Mapping[str, Sequence[int | None]]) -> list[str]:
    """Return the lines about the slots of each machine: how many jobs at a time, and the GPU of each of them."""
    limits = {machine: len(gpus) for machine, gpus in slots.items()}
    choices = [[gpu for gpu in gpus if gpu is not None] for gpus in slots.values()]
    return [f"machine limits:  {limits}", f"machine gpu choices: {choices}"]


def warning_line(number: int) -> str:
    """Return the line about a line of the batch whose results exist."""
    return f"WARNING: job results already exists for line {number}, skipping evaluation: delete if you wish to rerun"


def started_line(line: BatchLine, gpus: str) -> bytes:
    """Return the line about a job that has started; `gpus` are the ids of its GPUs, "" without any."""
    export = b"export CUDA_VISIBLE_DEVICES=%s && " % gpus.encode() if gpus else b""
    return b"started: %s;  %s%s" % (os.fsencode(line.name), export, line.command)


def ended_line(line: BatchLine, *, is_ok: bool) -> bytes:
    """Return the line about a job that has ended."""
    return b"%s: %s; %s" % (b"finished" if is_ok else b"failed", os.fsencode(line.name), line.command)


def skipped_line(line: BatchLine) -> bytes:
    """Return the line about a line of the batch whose turn has come and whose results exist."""
    return b"skipping " + line.command


def dry_line(line: BatchLine) -> bytes:
    """Return the line about a job that a dry run does not start."""
    return b"would start: %s;  %s" % (os.fsencode(line.name), line.command)


class BatchOutput:
    """Writes lines to stdout; if stdout cannot be written, `messages` gets one message and the jobs go on."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages
        self._trouble = ""

    def line(self, content: bytes | str) -> None:
        """Write a line."""
        if self._trouble:
            return
        self._messages.step_aside()
        data = os.fsencode(content) if isinstance(content, str) else content
        try:
            render.write(data + b"\n")
        except OSError as error:
            self._trouble = error.strerror or str(error)
            goes_on = "the jobs go on, and job_results gets their output"
            self._messages.say(f"stdout cannot be written ({self._trouble}); {goes_on}")
