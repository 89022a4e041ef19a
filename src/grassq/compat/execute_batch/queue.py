"""The temporary queue of a batch: one slot for each job that runs at a time, on each of the machines."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from grassq.compat.execute_batch.machines import BatchMachine
from grassq.net.client import ApiClient


def new_queue_name() -> str:
    """Return the name of a new queue."""
    return f"batch-{os.urandom(4).hex()}"


class BatchQueue:
    """A queue with the slots of a batch. The daemon removes it when all its jobs have ended."""

    def __init__(self, client: ApiClient, name: str, machines: Sequence[BatchMachine], *, by_gpu: bool) -> None:
        """Take the slots of these machines; with `by_gpu` each slot is a GPU, and its job sees this GPU only."""
        self.name = name
        self._client = client
        self._machines = [machine for machine in machines if machine.gpus]
        self.by_gpu = by_gpu
        #: The resource that a job asks for if slots have no GPUs.
        self._resource = f"slots_of_{name.replace('-', '_')}"

    def create(self) -> None:
        """Make the queue on every machine; a queue that is there stays as it is."""
        for machine in self._machines:
            words = [self.name, "--worker", machine.worker, *self._slots(machine)]
            self._client.create_queue([os.fsencode(word) for word in words], cwd=b"/", temporary=True)

    @property
    def request(self) -> dict[str, int]:
        """What each job asks for."""
        return {} if self.by_gpu else {self._resource: 1}

    def _slots(self, machine: BatchMachine) -> list[str]:
        if not self.by_gpu:
            return ["--capacity", json.dumps({self._resource: len(machine.gpus)})]
        return ["--slots", " ".join(map(str, machine.gpus)), "--order", "rotate"]
