"""The folder job_results: what each job of a batch wrote and brought back.

    NAME.out, NAME.err   what the job wrote
    NAME/                what the job brought back, with a record of how the job ended; it makes the line count as done
    NAME.partial/        what a job brought back that was ended before it was done
    NAME.failed/         what a failed job brought back, before its line was run again
    .grass/              files that are on their way, and notes about jobs that run

Nothing is ever replaced except NAME.out and NAME.err of a job that is not done.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from grassq.errors import BadInput, Refused

FOLDER = "job_results"
OWN = ".grass"
#: The record in the folder of a job that is done.
RECORD = ".execute_batch.json"
RECORD_MAX = 1 << 20
#: Results of one job that are kept aside under one suffix.
ASIDE_MAX = 1000


class Record(NamedTuple):
    """How a job ended."""

    #: As a shell says it: 128 and the signal for a job that a signal ended.
    exit_code: int
    #: The id of the job in Grass.
    job: int
    command: str


class Results:
    """The results in one directory."""

    def __init__(self, cwd: str) -> None:
        self.folder = Path(cwd, FOLDER)
        self.own = self.folder / OWN
        self._outputs: dict[str, int] = {}

    def prepare(self) -> None:
        """Make the folders; raise BadInput if something else has their name."""
        for folder in (self.folder, self.own):
            if os.path.lexists(folder) and not folder.is_dir():
                raise BadInput(f"{folder} is not a folder; results are put there, so move it away")
        self.own.mkdir(mode=0o700, parents=True, exist_ok=True)

    def has(self, name: str) -> bool:
        """Tell whether a job is done: its folder is there, whatever is in it."""
        return os.path.lexists(self.folder / name)

    def has_failed(self, name: str) -> bool:
        """Tell whether a job is done and is known to have failed."""
        try:
            with (self.folder / name / RECORD).open("rb") as file:
                record = json.loads(file.read(RECORD_MAX))
        except (OSError, ValueError):
            return False
        return isinstance(record, dict) and record.get("exit_code") not in (0, None)

    def arriving(self, name: str) -> Path:
        """Return the folder in which the files of a job arrive; it is there when all of them have arrived."""
        return self.own / "files" / name

    def forget(self, name: str) -> None:
        """Remove files that arrived for an earlier job of this name and were not taken over."""
        shutil.rmtree(self.arriving(name), ignore_errors=True)

    def begin(self, name: str) -> None:
        """Empty the output files of a job that has started."""
        self.close(name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        os.close(os.open(self._stream(name, "err"), flags, 0o666))
        self._outputs[name] = os.open(self._stream(name, "out"), flags, 0o666)

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Write a part of a job's stdout; a part before the end of the file means that the job truncated it."""
        descriptor = self._outputs.get(name)
        if descriptor is None:
            return
        os.ftruncate(descriptor, offset)
        while data:
            written = os.pwrite(descriptor, data, offset)
            data, offset = data[written:], offset + written

    def close(self, name: str) -> None:
        """Close the output of a job that has ended."""
        descriptor = self._outputs.pop(name, None)
        if descriptor is not None:
            os.close(descriptor)

    def put_stream(self, name: str, stream: str, parts: Iterable[bytes]) -> None:
        """Write a whole stream of a job, aside and then renamed: `out` or `err`, from an iterable of bytes."""
        path = self._stream(name, stream)
        aside = self.own / f"{name}.{stream}"
        try:
            with aside.open("wb") as file:
                for part in parts:
                    file.write(part)
            aside.rename(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    def put(self, name: str, record: Record) -> None:
        """Take over what a job brought back: from now on the job is done."""
        place = self.folder / name
        if self.has(name):
            raise Refused(f"{place} is there already; the new results are kept in {self.arriving(name)}")
        arrived = self.arriving(name)
        arrived.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record._asdict(), indent=2) + "\n"
        # Unlinked first: what came from the machine may be a link to somewhere else.
        (arrived / RECORD).unlink(missing_ok=True)
        (arrived / RECORD).write_text(text, encoding="utf-8", errors="surrogateescape")
        arrived.rename(place)

    def put_partial(self, name: str) -> Path | None:
        """Keep what an ended job brought back, without counting the job as done; return where, None if nothing came."""
        arrived = self.arriving(name)
        if not arrived.is_dir():
            return None
        place = self._free(name, "partial")
        arrived.rename(place)
        return place

    def set_failed_aside(self, name: str) -> Path:
        """Move the results of a failed job away, so that its line can be run again; return where they are."""
        place = self._free(name, "failed")
        (self.folder / name).rename(place)
        for stream in ("out", "err"):
            if self._stream(name, stream).exists():
                self._stream(name, stream).rename(f"{place}.{stream}")
        return place

    def tidy(self) -> None:
        """Remove the folder of our own files if it is empty."""
        for folder in (self.own / "files", self.own):
            try:
                folder.rmdir()
            except OSError:
                return

    def _stream(self, name: str, stream: str) -> Path:
        return self.folder / f"{name}.{stream}"

    def _free(self, name: str, suffix: str) -> Path:
        """Return a name that is free: NAME.suffix, then NAME.suffix.2 and so on."""
        for number in range(1, ASIDE_MAX + 1):
            place = self.folder / (f"{name}.{suffix}" if number == 1 else f"{name}.{suffix}.{number}")
            if not os.path.lexists(place):
                return place
        raise Refused(f"there are {ASIDE_MAX:,} folders {name}.{suffix} in {self.folder}; remove some of them")
