"""The device list: one slot of the queue for each entry, in rotation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from grassq.compat.gpupeasy.arguments import DEVICES, NO_DEVICE
from grassq.core.syntax.resource_names import SLOTS_OF
from grassq.core.syntax.slots import slot_names
from grassq.errors import BadInput
from grassq.net.client import ApiClient


def slot_words(entries: Sequence[str]) -> list[str]:
    """Return the entries of a device list as words of `--slots`; raise BadInput for what is no entry."""
    words = [_word(entry.strip()) for entry in entries]
    slot_names(words)
    return words


def _word(entry: str) -> str:
    if entry in ("", NO_DEVICE):
        return NO_DEVICE
    if any(character in entry for character in " \t\n[]"):
        raise BadInput(f"{entry!r} is not a device entry; write 0, or 0,1 for two GPUs of one job")
    return f"[{entry}]" if "," in entry else entry


def make_queue(client: ApiClient, queue: str, devices: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Make the queue, or change its devices; return its entries and notes for the user.

    Without devices a queue that is there stays as it is.
    """
    found = find_queue(client, queue)
    if found is not None and devices is None:
        return entries_of(found), []
    words = [queue, "--slots", " ".join(slot_words(DEVICES if devices is None else devices)), "--order", "rotate"]
    answer = client.create_queue([os.fsencode(word) for word in words])
    made = find_queue(client, queue)
    return entries_of(made or {}), [str(note) for note in answer.get("notes") or ()]


def find_queue(client: ApiClient, queue: str) -> dict[str, Any] | None:
    """Return the document of a queue with slots on this machine; None if there is none. Raise BadInput for another."""
    queues = client.show()["queues"]
    found: dict[str, Any] | None = next((each for each in queues if each.get("name") == queue), None)
    if found is not None and not found.get("slots"):
        raise BadInput(f"queue {queue} exists and has no slots; name another: --queue NAME")
    return found


def available_entries(client: ApiClient, queue: dict[str, Any]) -> list[str]:
    """Return the entries that jobs may get: those without a device that is drained or removed."""
    usable = {
        str(each.get("id"))
        for each in client.get("devices").get("devices") or ()
        if each.get("worker") == queue.get("worker")
        and each.get("resource") == SLOTS_OF
        and not (each.get("drained") or each.get("leaving"))
    }
    slots = [slot for slot in queue.get("slots") or () if usable.issuperset(map(str, slot.get("gpu") or ()))]
    return entries_of({"slots": slots})


def entries_of(queue: dict[str, Any]) -> list[str]:
    """Return the device list of a queue."""
    return [str(slot.get("name") or "") for slot in queue.get("slots") or ()]
