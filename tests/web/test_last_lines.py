"""The ends of logs: read within bounds, remembered while they do not grow, and left out where they cannot be read."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from tests.web.subscribed import Rig, with_rig

from grassq.core.protocol import LogCut
from grassq.errors import Refused
from grassq.web.logs import last_lines
from grassq.web.logs.last_lines import BYTES_READ, JOBS_MAX, LINE_CHARS, LastLines, LogPlace, LookedAtDocument, end_of
from grassq.web.logs.tail import Source


class Logs:
    """The logs of some jobs on the workers `here` and `slow`; a worker of another name is out of touch."""

    def __init__(self, **logs: bytes) -> None:
        self.logs = {int(name.removeprefix("job")): data for name, data in logs.items()}
        self.reads: list[tuple[int, int]] = []

    def source(self, worker: str, job: int, attempt: int, stream: str) -> Source:
        if worker not in ("here", "slow"):
            raise Refused("out of touch")
        return Source(_Reader(self, 60.0 if worker == "slow" else 0.0))


class _Reader:
    def __init__(self, logs: Logs, delay_s: float) -> None:
        self._logs, self._delay_s = logs, delay_s

    async def read(self, job: int, attempt: int, stream: str, offset: int, wait_s: float = 0.0) -> tuple[bytes, int]:
        await asyncio.sleep(self._delay_s)
        data = self._logs.logs.get(job, b"")
        if offset < len(data):
            self._logs.reads.append((job, len(data) - offset))
        return data[offset:], len(data)

    async def cut(self, job: int, attempt: int, stream: str) -> LogCut | None:
        return None

    async def tail_offset(self, job: int, attempt: int, stream: str, lines: int) -> int:
        raise NotImplementedError


def a_job(id_: int = 1, state: str = "running", **more: Any) -> LookedAtDocument:
    ended = {"exit_code": None, "signal": None, "outcome": None, "error": None}
    job: Any = {"id": id_, "state": state, "attempt": 1, "worker": "here", "split": False, **ended, **more}
    return cast(LookedAtDocument, job)


def told(logs: Logs, *jobs: LookedAtDocument, reader: LastLines | None = None) -> list[Any]:
    asyncio.run((reader or LastLines(logs, look_s=0.2)).describe(jobs))
    return list(jobs)


def test_a_running_job_has_its_last_line_and_its_progress() -> None:
    bar = "epoch 12:  73%|███████▎  | 730/1000 [01:12<00:26, 10.1it/s, loss=0.2]"
    logs = Logs(job1=f"begin\n\r  0%|   | 0/1000 [00:00<?, ?it/s]\r{bar}".encode())
    (job,) = told(logs, a_job())
    assert job["last_line"] == bar
    assert job["progress"] == {"done": 730, "total": 1000, "fraction": 0.73, "left_s": 26}
    assert "cause" not in job


def test_a_failed_job_has_a_cause_and_a_succeeded_one_only_its_line() -> None:
    logs = Logs(job1=b"Traceback\nRuntimeError: CUDA out of memory.\n\n", job2=b"done\n")
    failed, good = told(logs, a_job(state="failed", outcome="exited", exit_code=1), a_job(2, "succeeded"))
    assert failed["last_line"] == "RuntimeError: CUDA out of memory."
    assert failed["cause"] == "probably out of GPU memory" and "progress" not in failed
    assert good["last_line"] == "done" and not {"cause", "progress"} & good.keys()


def test_a_job_that_has_not_started_has_no_line() -> None:
    (job,) = told(Logs(), a_job(state="queued", attempt=0, worker=None))
    assert job["last_line"] is None


def test_of_two_streams_the_one_that_says_more_is_read() -> None:
    class Split(Logs):
        def source(self, worker: str, job: int, attempt: int, stream: str) -> Source:
            text = {"out": b"result 3\n", "err": b" 50%|#####     | 5/10 [00:01<00:01, 5.0it/s]"}[stream]
            return Source(_Reader(Logs(job1=text), 0.0))

    (running,) = told(Split(), a_job(split=True))
    assert running["progress"]["fraction"] == 0.5 and "50%" in running["last_line"]
    (failed,) = told(Split(), a_job(split=True, state="failed", exit_code=1))
    assert "50%" in failed["last_line"]


def test_a_bar_in_a_bar_counts_though_the_outer_one_is_far_before_the_end() -> None:
    outer = b"\repochs:  30%|###       | 3/10 [00:10<00:20, 3.0s/it]"
    inner = b"\n\rtrain:  50%|#####     | 5/10 [00:01<00:01, 3.0it/s]\x1b[A"
    logs = Logs(job1=outer + inner * 1000)
    reader = LastLines(logs, look_s=5.0)
    (job,) = told(logs, a_job(), reader=reader)
    assert job["progress"] == {"done": 3, "total": 10, "fraction": 0.35, "left_s": 13}
    assert job["last_line"].startswith("train:")
    logs.logs[1] += inner * 200
    logs.reads.clear()
    (job,) = told(logs, a_job(), reader=reader)
    assert job["progress"]["fraction"] == 0.35, "it was seen before"
    assert sum(size for _, size in logs.reads) < 2 * 200 * len(inner), "and only the new bytes are searched"


def test_workers_that_do_not_answer_in_time_or_are_away_are_left_out() -> None:
    logs = Logs(job1=b"one\n", job2=b"two\n", job3=b"three\n")
    jobs = told(logs, a_job(1, worker="slow"), a_job(2, worker="away"), a_job(3))
    assert [job["last_line"] for job in jobs] == [None, None, "three"]


def test_a_log_that_did_not_grow_is_read_once() -> None:
    logs = Logs(job1=b"one\n")
    reader = LastLines(logs, look_s=5.0)
    for _ in range(3):
        (job,) = told(logs, a_job(), reader=reader)
    assert job["last_line"] == "one" and len(logs.reads) == 1
    logs.logs[1] += b"two\n"
    assert told(logs, a_job(), reader=reader)[0]["last_line"] == "two"
    # The last words of a job come after it was last looked at.
    logs.logs[1] += b"MemoryError\n"
    (job,) = told(logs, a_job(state="failed", exit_code=1), reader=reader)
    assert job["last_line"] == "MemoryError" and job["cause"] == "probably out of memory"
    count = len(logs.reads)
    told(logs, a_job(state="failed", exit_code=1), reader=reader)
    assert len(logs.reads) == count


def test_a_cause_is_guessed_once_and_again_when_the_log_can_be_read() -> None:
    logs = Logs(job1=b"MemoryError\n")
    reader = LastLines(logs, look_s=5.0)
    failed: dict[str, Any] = {"state": "failed", "outcome": "signalled", "signal": 9}
    (job,) = told(logs, a_job(**failed, worker="away"), reader=reader)
    assert job["cause"] == "killed by signal 9, perhaps out of memory" and job["last_line"] is None
    (job,) = told(logs, a_job(**failed), reader=reader)
    assert job["cause"] == "probably out of memory"
    (job,) = told(logs, a_job(**failed, worker="away"), reader=reader)
    assert job["cause"] == "probably out of memory", "it is remembered"


def test_the_bytes_and_the_jobs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = Logs(job1=b"x" * 5_000_000)
    (job,) = told(logs, a_job())
    assert len(job["last_line"]) == LINE_CHARS and all(size <= BYTES_READ for _, size in logs.reads)
    many = [a_job(number) for number in range(1, JOBS_MAX + 10)]
    told(Logs(**{f"job{number}": b"x\n" for number in range(1, JOBS_MAX + 10)}), *many)
    assert sum("last_line" in job for job in many) == JOBS_MAX
    monkeypatch.setattr(last_lines, "REMEMBERED_MAX", 3)
    reader = LastLines(logs)
    told(Logs(), *(a_job(number) for number in range(1, 9)), reader=reader)
    assert len(reader._remembered) <= 3


@pytest.mark.parametrize(
    ("data", "last"),
    [
        (b"", None),
        (b"\n\n\r\r\n", None),
        (b"a\x1b[31mred\x1b[0m\x1b]0;title\x07", "ared"),
        ("é".encode()[1:] + b"x", "\ufffdx"),
        (b"one\rtwo\r", "two"),
        (b"\x1b[2K\x1b[1A\x07 bell", " bell"),
    ],
)
def test_what_a_terminal_would_show(data: bytes, last: str | None) -> None:
    assert end_of(data, len(data)).last_line == last


def test_a_line_whose_begin_was_not_read_is_left_out() -> None:
    assert end_of(b"half\nwhole\n", 100).lines == ("whole",)
    assert end_of(b"half", 100).lines == ("half",)


def test_the_routes_look_only_when_they_are_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(rig: Rig) -> None:
        await rig.submit(hold=True)
        token = await rig.fixture.token("read")
        for path in ("/v1/show", "/v1/show?selector=1", "/v1/jobs", "/v1/jobs?selector=1"):
            plain = (await rig.fixture.ask("GET", path, token=token)).json["jobs"][0]
            looked = (await rig.fixture.ask("GET", path + ("&" if "?" in path else "?") + "look=1", token=token)).json
            # The overview looks at the logs of jobs that run or failed.
            told = {} if path == "/v1/show" else {"last_line": None}
            assert "last_line" not in plain and looked["jobs"][0] == {**plain, **told}, path

    with_rig(test, monkeypatch)


def test_places_are_remembered_by_job_attempt_and_stream() -> None:
    assert LogPlace(1, 2, "log", "here").key == (1, 2, "log")
