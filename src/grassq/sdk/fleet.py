"""The part of the client that is about queues and devices."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from grassq.errors import BadInput
from grassq.net.client import ApiClient
from grassq.sdk.notices import warn
from grassq.sdk.submission import Word, env_words, word_bytes

Directory = str | bytes | os.PathLike[str]
#: What a queue may use of a resource: a number, an amount such as "24G", ids of devices, or an object.
Limit = int | float | str | list[Any] | Mapping[str, Any]


class FleetClient(ABC):
    """Manages queues and devices; `Client` inherits it."""

    @property
    @abstractmethod
    def _requests(self) -> ApiClient:
        """What sends requests; raises an error if the client is closed."""

    def queues(self) -> list[dict[str, Any]]:
        """Return every queue on every worker, as `grass show --json` prints it."""
        queues: list[dict[str, Any]] = self._requests.show()["queues"]
        return queues

    def create_queue(
        self,
        name: str,
        command: Iterable[Word] = (),
        *,
        capacity: Mapping[str, Limit] | None = None,
        gpu: Limit | None = None,
        cpu: Limit | None = None,
        mem: Limit | None = None,
        vram: Limit | None = None,
        disk: Limit | None = None,
        cwd: Directory | None = None,
        env: Mapping[str, Word] | None = None,
        worker: str | None = None,
        wrap: str | None = None,
    ) -> str:
        """Make or replace a queue; return "created", "unchanged" or "replaced".

        `capacity` and the shortcuts limit what its jobs hold together: gpu=2, gpu=[2, 3], capacity={"printer": 1}.
        `command` comes before the words of every job, and `wrap` before all of these. At a broker, `worker` says on
        which machine.
        """
        shortcuts = {"gpu": gpu, "cpu": cpu, "mem": mem, "vram": vram, "disk": disk}
        limits = {**(capacity or {}), **{each: limit for each, limit in shortcuts.items() if limit is not None}}
        options: dict[str, list[Any]] = {
            "--capacity": [json.dumps(limits)] if limits else [],
            "--cwd": [] if cwd is None else [cwd],
            "--env": env_words(env or {}),
            "--wrap": [] if wrap is None else [wrap],
            "--worker": [] if worker is None else [worker],
        }
        words = [name, *(word for option, values in options.items() for value in values for word in (option, value))]
        answer = self._requests.create_queue([word_bytes(word) for word in (*words, "--", *command)])
        warn(answer.get("notes", []))
        return str(answer["status"])

    def delete_queue(self, name: str, *, worker: str | None = None) -> None:
        """Delete a queue: its running jobs finish, its other jobs wait until it exists again."""
        warn(self._requests.change("delete-queue", name=name, worker=worker).get("notes", []))

    def devices(self, worker: str | None = None) -> list[dict[str, Any]]:
        """Return every device as a document: what is free of it, which jobs hold it, whether it is drained."""
        found = self._requests.get("devices")["devices"]
        return [each for each in found if worker in (None, each["worker"])]

    def change_devices(
        self, verb: str, *ids: int | str, worker: str | None = None, resource: str = "gpu", kill: bool = False
    ) -> list[dict[str, Any]]:
        """Do "add", "remove", "drain" or "undrain" with devices, and return all devices of the worker after it.

        A removed device is gone when the jobs that hold it end; `kill` ends these jobs. A drained device gets no new
        jobs. `worker` is a worker of the broker (default: the broker's own).
        """
        told = {"ids": [str(id_) for id_ in ids], "worker": worker, "resource": resource, "kill": kill}
        answer = self._requests.change(f"devices/{verb}", **told)
        warn(answer.get("notes", []))
        return list(answer["devices"])

    def pause(self, queue: str | None = None) -> None:
        """Start no more jobs of a queue, or of all queues; running jobs go on."""
        self._requests.change("pause", queue=queue)

    def limits(self) -> list[dict[str, Any]]:
        """Return the limits of groups, each with what the jobs of its group hold now, as in `grass limit --json`."""
        found: list[dict[str, Any]] = self._requests.get("limits")["limits"]
        return found

    def limit(
        self,
        group: str,
        amounts: Mapping[str, int | float | str] | None = None,
        *,
        jobs: int | None = None,
        remove: bool = False,
    ) -> None:
        """Set what the jobs of "project:NAME" or "tag:KEY=VALUE" hold at once, such as {"gpu": 4}, or remove the limit.

        `jobs` is how many of them run at once. The limit is set as a whole.
        """
        answer = self._requests.change("limit", group=group, amounts=dict(amounts or {}), jobs=jobs, remove=remove)
        warn(answer.get("notes", []))

    def _resume_queue(self, queue: str | None) -> None:
        """Start jobs of a queue, or of all queues, again."""
        warn(self._requests.change("resume", queue=queue).get("notes", []))


def queue_among(requests: ApiClient, names: list[str]) -> str | None:
    """Return the word that names a queue, alone among selectors; None if all of them name jobs."""
    from grassq.core.syntax.selectors import ByWord, parse

    words = [name for name in names if isinstance(parse(name), ByWord)]
    if not words:
        return None
    overview = requests.get("show", brief=1)
    known = {queue.get("name") for queue in overview.get("queues", [])} | set(overview.get("paused", []))
    queue = next((word for word in words if word in known), None)
    if queue is not None and len(names) > 1:
        raise BadInput(f"{queue} is a queue: name it alone to start its jobs again; queue:{queue} are its jobs")
    return queue
