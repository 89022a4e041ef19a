from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.e2e.small_disk import fill, mounted, needs_root
from tests.run.harness import a_spec, mode_of, names_in, prepare

from grassq import atomic_files
from grassq.core.printable import TEXT_CHARS_MAX
from grassq.run import attempt_notes, processes, rundir, spawn

RECORD = {
    "code": 3, "signal": None, "outcome": "exited", "error": None, "user_s": 0.5, "system_s": 0.25, "max_rss_kb": 900,
    "started": 1.5, "ended": 2.5,
}  # fmt: skip
CLAIMERS = 20


@pytest.fixture
def path(tmp_path: Path) -> str:
    found = rundir.attempt_dir(str(tmp_path), 7, 1)
    prepare(found, a_spec(7, ["true"], found))
    return found


def write(path: str, name: str, data: bytes) -> None:
    Path(path, name).write_bytes(data)


@given(st.binary())
def test_any_word_survives_json(word: bytes) -> None:
    assert rundir.decode_word(json.loads(json.dumps(rundir.encode_word(word)))) == word


def test_a_prepared_run_dir_is_private_and_complete(path: str) -> None:
    for directory in (path, rundir.files_dir(path), rundir.checkpoint_dir(path), str(Path(path).parent)):
        assert mode_of(directory) == 0o700
    assert mode_of(f"{path}/spec.json") == 0o600
    assert rundir.read_spec(path).argv == [b"true"]


def test_preparing_twice_changes_nothing(path: str) -> None:
    before = Path(path, "spec.json").read_bytes()
    prepare(path, json.loads(before))
    assert Path(path, "spec.json").read_bytes() == before
    assert names_in(path) == ["files", "spec.json"]


def test_preparing_mends_a_spec_that_was_torn(path: str) -> None:
    write(path, "spec.json", b'{"v": 1, "arg')
    prepare(path, a_spec(7, ["false"], path))
    assert rundir.read_spec(path).argv == [b"false"]
    assert names_in(path) == ["files", "spec.json"]


def test_an_attempt_dir_in_a_home_of_odd_bytes_is_found_again(tmp_path: Path) -> None:
    home = os.fsencode(tmp_path) + b"/a \xff home"
    found = rundir.attempt_dir(home, 1, 2)
    prepare(found, a_spec(1, [b"\xff"], found))
    assert rundir.read_spec(found).argv == [b"\xff"]
    assert Path(os.fsdecode(home), "jobs/1/2/files").is_dir()


@pytest.mark.parametrize("change", [{"v": 2}, {"argv": [3]}, {"cwd": {"b64": "?"}}, {"env": [["A"]]}, {"umask": None}])
def test_a_spec_that_makes_no_sense_is_refused(path: str, change: dict[str, Any]) -> None:
    prepare(path, a_spec(7, ["true"], path) | change)
    with pytest.raises(ValueError):
        rundir.read_spec(path)


def test_of_twenty_claimers_exactly_one_wins(tmp_path: Path) -> None:
    for attempt in range(1, 11):
        path = rundir.attempt_dir(str(tmp_path), 1, attempt)
        prepare(path, a_spec(1, ["true"], path))
        spec = rundir.read_spec(path)
        gate, opener = os.pipe()
        children = [_claimer(path, spec, gate, opener) for _ in range(CLAIMERS)]
        os.close(opener)  # all of them read end-of-file at once
        won = [pid for pid in children if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0]
        os.close(gate)
        assert len(won) == 1
        assert rundir.look(path, spec.boot).shim == (won[0], 1)
        assert names_in(path) == ["files", "spec.json", "started"]


def _claimer(path: str, spec: rundir.RunSpec, gate: int, opener: int) -> int:
    pid = os.fork()
    if pid == 0:
        os.close(opener)
        os.read(gate, 1)
        os._exit(0 if rundir.claim(path, spec, os.getpid(), 1) else 1)
    return pid


def test_an_attempt_given_up_cannot_be_claimed(path: str) -> None:
    spec = rundir.read_spec(path)
    assert rundir.void(path, spec.store, spec.job, spec.attempt, spec.boot)
    assert not rundir.claim(path, spec, 1, 1)
    found = rundir.look(path, spec.boot)
    assert (found.claimed, found.void, found.shim, found.shim_alive) == (True, True, None, False)


def test_a_claimed_attempt_cannot_be_given_up(path: str) -> None:
    spec = rundir.read_spec(path)
    assert rundir.claim(path, spec, 1, 1)
    assert not rundir.void(path, spec.store, spec.job, spec.attempt, spec.boot)
    assert not rundir.look(path, spec.boot).void


def test_an_attempt_can_be_given_up_before_it_has_a_run_dir(tmp_path: Path) -> None:
    path = rundir.attempt_dir(str(tmp_path), 8, 1)
    assert rundir.void(path, "5eed", 8, 1, "boot")
    assert rundir.look(path, "boot").void


def test_a_stop_request_is_read_back(path: str) -> None:
    assert rundir.read_stop(path) is None
    rundir.request_stop(path, 2.5, "killed by the user")
    assert rundir.read_stop(path) == {"grace_s": 2.5, "reason": "killed by the user"}
    rundir.request_stop(path, None, "again")
    assert rundir.read_stop(path) == {"grace_s": None, "reason": "again"}


@needs_root
def test_a_stop_is_asked_for_also_on_a_full_disk(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=64k") as disk:
        fill(disk)
        rundir.request_stop(str(disk), 2.5, "killed by the user")
        assert rundir.read_stop(str(disk)) == {"grace_s": None, "reason": None}


def test_a_stop_request_that_cannot_be_read_still_stops(path: str) -> None:
    write(path, "stop", b"")
    assert rundir.read_stop(path) == {"grace_s": None, "reason": None}


@pytest.mark.parametrize("sync", [False, True])
def test_an_exit_record_is_read_back_and_private(path: str, sync: bool) -> None:
    rundir.write_exit(path, RECORD, sync)
    assert rundir.read_exit(path) == {"v": 1, **RECORD}
    assert mode_of(f"{path}/exit") == 0o600
    assert names_in(path) == ["exit", "files", "spec.json"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_a_torn_or_flipped_exit_is_no_record(path: str, data: st.DataObject) -> None:
    rundir.write_exit(path, RECORD, sync=False)
    whole = Path(path, "exit").read_bytes()
    if data.draw(st.booleans(), label="torn"):
        damaged = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        at, bit = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 7))
        damaged = whole[:at] + bytes([whole[at] ^ (1 << bit)]) + whole[at + 1 :]
    write(path, "exit", damaged)
    assert rundir.read_exit(path) is None


@pytest.mark.parametrize("key", ["code", "signal", "outcome", "error", "started", "ended"])
def test_an_exit_record_that_lacks_a_key_or_has_another_kind_there_is_no_record(path: str, key: str) -> None:
    rundir.write_exit(path, {name: value for name, value in RECORD.items() if name != key}, sync=False)
    assert rundir.read_exit(path) is None
    # A job can write its own record: numbers that no kernel and no clock has must not reach the broker.
    for value in (["x"], True, float("nan"), 9e11, 10**30, -(10**12)):
        rundir.write_exit(path, RECORD | {key: value}, sync=False)
        assert rundir.read_exit(path) is None


@pytest.mark.parametrize("text", ["{", "1 ", "\udc80", "[" * 60 + "]" * 60])
def test_a_result_in_an_exit_record_that_the_broker_would_refuse_makes_it_no_record(path: str, text: str) -> None:
    rundir.write_exit(path, RECORD | {"result": "1"}, sync=False)
    assert rundir.read_exit(path) is not None
    rundir.write_exit(path, RECORD | {"result": text}, sync=False)
    assert rundir.read_exit(path) is None


@pytest.mark.parametrize("text", ["\ud800", "a \udce9 b", "\x1b[2J\n", "x" * 5000])
def test_the_error_of_a_job_is_a_printable_text_wherever_it_is_read(path: str, text: str) -> None:
    """A job can write it, and a text that is no Unicode could not be sent to the broker, for ever."""
    rundir.write_exit(path, RECORD | {"error": text}, sync=False)
    attempt_notes.write_fetched(path, text)
    for record in (rundir.read_exit(path), attempt_notes.read_fetched(path)):
        assert record is not None and record["error"].isprintable() and len(record["error"]) <= TEXT_CHARS_MAX
        assert record["error"].encode()


@pytest.mark.parametrize("pid", [0, -1, 2**31, 10**400])
def test_a_claim_with_a_pid_that_no_kernel_gives_names_no_process(path: str, pid: int) -> None:
    """A job can write it, and a report could not carry it to the broker, for ever."""
    write(path, "started", b'{"pid": 1, "ticks": 2}\n{"pid": %s, "ticks": 1}\n' % str(pid).encode())
    found = rundir.look(path, "boot")
    assert (found.shim, found.command) == ((1, 2), None)


def test_a_log_that_cannot_be_opened_is_named_in_a_text_that_can_be_sent(path: str) -> None:
    error = OSError(13, "Permission denied", os.fsdecode(b"/home/caf\xe9/log"))
    assert r"the log /home/caf\xe9/log cannot be opened" in spawn.reason(error, rundir.read_spec(path))


@given(st.binary(max_size=200))
def test_any_bytes_in_place_of_a_record_are_no_record_and_no_error(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as path:
        for name in ("exit", "started", "stop", "spec.json", "lease"):
            write(path, name, data)
        assert rundir.read_lease(path, "boot") is None
        found = rundir.look(path, "boot")
        assert (found.exit, found.shim_alive, found.command_alive) == (None, False, False)
        assert rundir.read_stop(path) is not None


def test_our_files_are_never_read_through_a_link_or_a_fifo(path: str, tmp_path: Path) -> None:
    rundir.write_exit(path, RECORD, sync=False)
    link = Path(path, "exit")
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    assert rundir.read_exit(path) is None
    link.unlink()
    os.mkfifo(link)
    assert rundir.read_exit(path) is None
    Path(path, "log").symlink_to(tmp_path / "target")
    with pytest.raises(OSError):
        rundir.open_log(path, "log")
    assert not (tmp_path / "target").exists()


def test_a_look_at_nothing_finds_nothing(tmp_path: Path) -> None:
    found = rundir.look(str(tmp_path / "none"), "boot")
    assert (found.job, found.claimed, found.exit, found.members) == (None, False, None, [])


def test_a_look_at_a_prepared_attempt_finds_its_spec_alone(path: str) -> None:
    found = rundir.look(path, processes.boot_id())
    assert (found.claimed, found.job, found.attempt, found.boot) == (False, 7, 1, processes.boot_id())


def test_a_claim_of_this_process_is_alive_and_that_of_another_boot_is_not(path: str) -> None:
    spec = rundir.read_spec(path)
    me = (os.getpid(), processes.start_ticks(os.getpid()) or 0)
    claim = rundir.claim(path, spec, *me)
    assert claim is not None
    rundir.note_spawn(claim, *me, 1)
    os.close(claim)
    found = rundir.look(path, spec.boot)
    assert (found.shim, found.shim_alive, found.command, found.command_alive) == (me, True, me, True)
    after = rundir.look(path, "another boot")
    assert (after.shim_alive, after.command_alive, after.members, after.boot) == (False, False, [], spec.boot)


def test_an_unfinished_second_line_of_a_claim_is_no_command(path: str) -> None:
    rundir.claim(path, rundir.read_spec(path), 1, 1)
    with Path(path, "started").open("ab") as file:
        file.write(b'{"pid": 12, "ticks": 1')
    assert rundir.look(path, "boot").command is None


def test_a_lease_is_read_back_in_its_boot_alone_and_private(path: str) -> None:
    assert rundir.read_lease(path, "boot") is None
    rundir.write_lease(path, rundir.Lease(12.5, 300.0), "boot")
    found = rundir.read_lease(path, "boot")
    assert found is not None and (found.until, found.length_s) == (12.5, 300.0)
    assert rundir.read_lease(path, "another boot") is None
    assert mode_of(f"{path}/lease") == 0o600
    assert names_in(path) == ["files", "lease", "spec.json"]


@pytest.mark.parametrize(
    "text",
    [
        '{"v": 2, "until": 1, "length_s": 1, "boot": "boot"}',
        '{"v": 1, "until": NaN, "length_s": 1, "boot": "boot"}',
        '{"v": 1, "until": 1, "length_s": Infinity, "boot": "boot"}',
        '{"v": 1, "until": -1, "length_s": 1, "boot": "boot"}',
        '{"v": 1, "until": "1", "length_s": 1, "boot": "boot"}',
        '{"v": 1, "until": 1, "boot": "boot"}',
        '{"v": 1, "until": 1%s, "length_s": 1, "boot": "boot"}' % ("0" * 400),
    ],
)
def test_a_lease_that_makes_no_sense_is_none(path: str, text: str) -> None:
    write(path, "lease", text.encode())
    assert rundir.read_lease(path, "boot") is None


def test_a_lease_of_a_later_release_that_says_more_is_read(path: str) -> None:
    write(path, "lease", b'{"v": 1, "until": 5, "length_s": 4, "boot": "boot", "more": [1]}\n')
    found = rundir.read_lease(path, "boot")
    assert found is not None and found.until == 5.0


def test_an_acknowledgement_is_an_empty_file_and_none_where_there_is_no_run_dir(path: str, tmp_path: Path) -> None:
    assert not rundir.is_marked(path, rundir.ACKED)
    rundir.mark(path, rundir.ACKED)
    rundir.mark(path, rundir.ACKED)
    assert rundir.is_marked(path, rundir.ACKED) and Path(path, "acked").read_bytes() == b""
    rundir.mark(str(tmp_path / "jobs/99/1"), rundir.ACKED)
    assert not (tmp_path / "jobs/99").exists()


def test_of_many_old_jobs_only_the_newest_are_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for job in range(1, 101):
        (tmp_path / "jobs" / str(job) / "1").mkdir(parents=True)
    read: list[str] = []
    numbers = atomic_files.numbers

    def noted(folder: str) -> list[int]:
        read.append(folder)
        return numbers(folder)

    monkeypatch.setattr(atomic_files, "numbers", noted)
    assert rundir.attempts(str(tmp_path), 3) == [(100, 1), (99, 1), (98, 1)]
    assert len(read) == 4
