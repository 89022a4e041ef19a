"""What is submitted for a line of a batch: its words for bash, what is sent and what comes back.

ml-scheduler ran an interactive bash, so that a line could use what ~/.bashrc defines. But an interactive bash prints
words of its own to stderr, and it ignores SIGTERM. So an interactive bash is only asked for its definitions, and a
plain bash runs the line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from grassq.cli.progress import byte_progress
from grassq.compat.execute_batch.batch_file import BatchLine
from grassq.compat.execute_batch.copies import TreeSender, fetch_patterns, stored_trees
from grassq.compat.execute_batch.queue import BatchQueue
from grassq.compat.execute_batch.results import Results
from grassq.compat.messages import Messages
from grassq.core.names import is_name
from grassq.core.syntax.placeholders import JOB_PLACEHOLDERS, literal, placeholders
from grassq.core.syntax.resource_names import SLOT, SLOTS_OF
from grassq.net.encoding import word_value

#: The variable with the script that reads ~/.bashrc; the script removes the variable.
VARIABLE = b"EXECUTE_BATCH_BASHRC"
_IN_SLOTS = frozenset({SLOT.encode(), SLOTS_OF.encode()})
#: Errors and output of ~/.bashrc are dropped, and its input is empty. What it says about devices does not count.
SCRIPT = (
    b"EXECUTE_BATCH_KEPT=$(declare -p CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES 2>/dev/null); "
    b'eval "$(bash -ic "declare -p >&3; declare -f >&3; alias -p >&3" 3>&1 >/dev/null 2>&1 </dev/null)" '
    b">/dev/null 2>&1; "
    b'eval "$EXECUTE_BATCH_KEPT"; unset EXECUTE_BATCH_KEPT EXECUTE_BATCH_BASHRC; shopt -s expand_aliases'
)


class JobDocuments:
    """Makes what is submitted; the content of what is sent is stored in the home."""

    def __init__(self, home: str, cwd: str, messages: Messages) -> None:
        self._blobs = stored_trees(home)
        self._cwd = cwd
        self._messages = messages

    def of(self, lines: Iterable[BatchLine], queue: BatchQueue, results: Results) -> list[dict[str, Any]]:
        """Return the documents of lines, each with the tree it is sent; show how far the content is stored."""
        with byte_progress("reading", is_shown=os.isatty(2)) as progress:
            sender = TreeSender(self._blobs, self._cwd, progress, lambda text: self._messages.say(f"note: {text}"))
            return [self._document(line, queue, sender.manifest(line.forward), results) for line in lines]

    def _document(self, line: BatchLine, queue: BatchQueue, manifest: str, results: Results) -> dict[str, Any]:
        return {
            "command": [word_value(word) for word in bash_words(line.command, by_gpu=queue.by_gpu)],
            "queue": queue.name,
            "name": line.name if is_name(line.name) else None,
            "request": queue.request,
            "split": True,
            "env": [[word_value(VARIABLE), word_value(SCRIPT)]],
            "send": [{"manifest": manifest, "folder": word_value(os.fsencode(self._cwd)), "dest": ""}],
            "fetch": [word_value(pattern) for pattern in fetch_patterns(line.backwards)],
            "fetch_to": word_value(os.fsencode(results.arriving(line.name))),
        }


def bash_words(line: bytes, *, by_gpu: bool) -> list[bytes]:
    """Return the words that run a line. ml-scheduler has no placeholders, so the braces of the line are kept.

    `by_gpu`: the job holds a slot and a GPU, so Grass fills in these names and no others.
    """
    read = b'eval "$' + VARIABLE + b'"\n'
    if by_gpu or not placeholders(line):
        # On a line of its own: bash expands aliases in the lines that it has not read yet.
        return [b"bash", b"-c", read + literal(line, JOB_PLACEHOLDERS | _IN_SLOTS)]
    # Grass refuses the name of a resource that the job does not ask for. In parts, the line has no such name.
    together = b'printf -v EXECUTE_BATCH_LINE %s "$@"; set --\neval "$EXECUTE_BATCH_LINE"'
    first, *others = line.split(b"{")
    return [b"bash", b"-c", read + together, b"bash", first, *(part for each in others for part in (b"{", each))]
