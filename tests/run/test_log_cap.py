"""A log has an end: above its limit the middle is cut out, marked and counted, while the command writes on."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest
from tests.e2e.small_disk import fill, mounted, needs_root
from tests.run.harness import Harness, eventually

from grassq.run import attempt_notes, log_cap, log_files, rundir

LIMIT = 64 << 10
#: Writes numbered lines of 16 bytes: how many, and how many at a time.
LINES = """
import os, sys
count, step = int(sys.argv[1]), int(sys.argv[2])
for first in range(0, count, step):
    os.write(1, b"".join(b"line %010d\\n" % number for number in range(first, min(first + step, count))))
"""


def disk_use(path: str, stream: str = "log") -> int:
    return Path(rundir.log_path(path, stream)).stat().st_blocks * 512


def text_of(path: str, stream: str = "log") -> bytes:
    """Read a log as every reader does: up to the cut, the mark, and on after the cut."""
    data, offset = b"", 0
    while True:
        piece = log_files.read(path, stream, offset)
        data, offset = data + piece, offset + len(piece)
        if piece:
            continue
        cut = log_files.cut(path, stream)
        if cut is None or offset >= cut.end:
            return data
        data, offset = data + cut.mark, cut.end


def lines_with_mark(path: str, stream: str = "log") -> tuple[list[int], bytes, list[int]]:
    """Return the numbers before the mark, the mark, and the numbers after it; all lines must be whole."""
    lines = text_of(path, stream).split(b"\n")
    [at] = [place for place, line in enumerate(lines) if line.startswith(b"[grass: ")]
    numbers = [int(line.removeprefix(b"line ")) for line in [*lines[:at], *lines[at + 1 : -1]]]
    return numbers[:at], lines[at], numbers[at:]


def written(tmp_path: Path, data: bytes) -> str:
    path = str(tmp_path)
    Path(rundir.log_path(path, "log")).write_bytes(data)
    return path


def numbered(count: int, first: int = 0) -> bytes:
    return b"".join(b"line %010d\n" % number for number in range(first, first + count))


def test_a_log_above_its_limit_keeps_its_head_and_its_tail_and_counts_what_is_cut(harness: Harness) -> None:
    count = 200_000
    path, _ = harness.start(sys.executable, "-c", LINES, str(count), "500", log_max=LIMIT)
    record = harness.ended(path)
    assert (record["code"], record["error"]) == (0, None)
    head, mark, tail = lines_with_mark(path)
    assert head == list(range(len(head))) and tail == list(range(tail[0], count))
    cut = tail[0] - len(head)
    assert mark == (
        b"[grass: %s bytes (%s lines) of the log were cut here; the limit is 64.0 KiB (--log-max)]"
        % (f"{16 * cut:,}".encode(), f"{cut:,}".encode())
    )
    assert LIMIT * 7 // 16 <= 16 * len(head) <= LIMIT // 2
    assert disk_use(path) <= LIMIT + 8192 and log_files.size(path, "log") == 16 * count


def test_a_command_that_ends_at_once_has_its_log_cut_too(harness: Harness) -> None:
    path, _ = harness.start("/bin/sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' 'x'", log_max=LIMIT)
    harness.ended(path)
    assert disk_use(path) <= LIMIT + 8192
    cut = log_files.cut(path, "log")
    assert cut is not None and cut.mark.startswith(b"\n[grass: ") and cut.lines == 0


def test_out_and_err_have_the_limit_each(harness: Harness) -> None:
    script = f"{sys.executable} -c '{LINES}' 20000 500; {sys.executable} -c '{LINES}' 20000 500 >&2"
    path, _ = harness.start("/bin/sh", "-c", script, log_max=LIMIT, split=True)
    harness.ended(path)
    for stream in ("out", "err"):
        head, _, tail = lines_with_mark(path, stream)
        assert head[0] == 0 and tail[-1] == 19_999
        assert disk_use(path, stream) <= LIMIT + 8192


def test_a_spec_of_an_earlier_release_has_no_limit(harness: Harness) -> None:
    path, _ = harness.start(sys.executable, "-c", LINES, "20000", "500")
    harness.ended(path)
    assert text_of(path) == numbered(20_000) and log_files.cut(path, "log") is None


def test_the_command_never_waits_for_the_cut_and_cannot_outrun_it(harness: Harness) -> None:
    flood = "import os\nblock = b'x' * 65535 + b'\\n'\nfor _ in range(8000): os.write(1, block)\n"
    path, _ = harness.start(sys.executable, "-c", flood, log_max=1 << 20)
    most = 0
    while rundir.read_exit(path) is None:
        most = max(most, disk_use(path))
    harness.ended(path)
    assert disk_use(path) <= (1 << 20) + 8192
    assert most < 400 << 20, "half a gigabyte was written, and a busy machine cuts late"
    cut = log_files.cut(path, "log")
    assert cut is not None and cut.end - cut.begin > 490 << 20


def test_a_log_that_its_job_truncates_begins_again_without_a_cut(tmp_path: Path) -> None:
    path = written(tmp_path, numbered(20_000))
    cap = log_cap.LogCap(path, "log", LIMIT)
    cap.look()
    assert log_files.cut(path, "log") is not None
    os.truncate(rundir.log_path(path, "log"), 0)
    assert log_files.cut(path, "log") is None, "a reader does not believe a note that is longer than the log"
    cap.look()
    with Path(rundir.log_path(path, "log")).open("ab") as file:
        file.write(numbered(100))
    cap.look()
    assert text_of(path) == numbered(100)
    # Truncated, and longer than the old cut before the shim looks again.
    with Path(rundir.log_path(path, "log")).open("ab") as file:
        file.write(numbered(20_000))
    cap.look()
    Path(rundir.log_path(path, "log")).write_bytes(numbered(30_000, 7))
    cap.look()
    head, _, tail = lines_with_mark(path)
    assert head[0] == 7 and tail[-1] == 30_006
    cap.close()


@pytest.mark.parametrize("kind", ["link", "hard link", "replaced", "fifo"])
def test_only_the_log_itself_is_cut(tmp_path: Path, kind: str) -> None:
    path, precious = str(tmp_path), tmp_path / "precious"
    log = Path(rundir.log_path(path, "log"))
    precious.write_bytes(numbered(20_000))
    cap = log_cap.LogCap(path, "log", LIMIT)
    match kind:
        case "link":
            log.symlink_to(precious)
        case "hard link":
            os.link(precious, log)
        case "fifo":
            os.mkfifo(log)
        case "replaced":
            log.write_bytes(numbered(20_000))
            cap.close()
            cap = log_cap.LogCap(path, "log", LIMIT)
            log.unlink()
            log.symlink_to(precious)
    if kind != "replaced":
        cap.close()
        cap = log_cap.LogCap(path, "log", LIMIT)
    cap.look()
    cap.last_look()
    assert precious.read_bytes() == numbered(20_000) and not Path(f"{log}.cut").exists()


def test_a_file_system_that_cannot_cut_is_named_in_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int, _begin: int, _size: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(log_cap, "_punch", refuse)
    path = written(tmp_path, numbered(20_000))
    cap = log_cap.LogCap(path, "log", LIMIT)
    cap.look()
    assert cap.failure == "its log is above the limit, and the file system cannot cut it: Operation not supported"
    assert text_of(path) == numbered(20_000)


def test_a_huge_log_that_is_one_hole_is_cut_in_few_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    punched: list[int] = []
    monkeypatch.setattr(log_cap, "_punch", lambda _fd, begin, size: punched.append(begin + size))
    path = written(tmp_path, numbered(20_000))
    os.truncate(rundir.log_path(path, "log"), 8 << 40)
    cap = log_cap.LogCap(path, "log", LIMIT)
    for _ in range(20):
        if cap.look():
            break
    cap.close()
    assert punched[-1] > (8 << 40) - LIMIT and len(punched) < 200
    note = log_files.cut(path, "log")
    assert note is not None and note.end == punched[-1]


def test_a_quiet_log_is_looked_at_once_a_second(tmp_path: Path) -> None:
    cap = log_cap.LogCap(written(tmp_path, b"one line\n"), "log", 1 << 30)
    pauses = [cap.look() for _ in range(8)]
    assert pauses == sorted(pauses) and pauses[-1] == log_cap.PAUSE_MAX_S
    cap.close()


@pytest.mark.parametrize(
    "note",
    [
        b"", b"[]", b'{"v": 1}', b'{"v": 1, "from": 9, "to": 3, "lines": 1, "limit": 1}',
        b'{"v": 1, "from": -1, "to": 3000, "lines": 1, "limit": 1}',
        b'{"v": 1, "from": 0, "to": 99999999, "lines": 1, "limit": 1}',
        b'{"v": 2, "from": 0, "to": 3000, "lines": 1, "limit": 1}',
        b'{"v": 1, "from": 0, "to": 3000, "lines": 1e9, "limit": 1}',
        b'{"v": 1, "from": true, "to": 3000, "lines": 1, "limit": 1}',
        b'{"v": 1, "from": 0, "to": 50, "lines": 1, "limit": 1}',
        b"{" * 9000,
    ],
)  # fmt: skip
def test_a_note_that_cannot_be_right_is_none(tmp_path: Path, note: bytes) -> None:
    path = written(tmp_path, b"x" * 4000)
    (tmp_path / "log.cut").write_bytes(note)
    assert log_files.cut(path, "log") is None and text_of(path) == b"x" * 4000


def test_the_format_of_the_note_is_frozen(tmp_path: Path) -> None:
    attempt_notes.note_cut(str(tmp_path), "log", attempt_notes.CutNote(10, 2000, 3, True, 1 << 31, True))
    assert json.loads((tmp_path / "log.cut").read_bytes()) == {
        "v": 1, "from": 10, "to": 2000, "lines": 3, "exact": True, "limit": 1 << 31, "begins_line": True,
    }  # fmt: skip
    found = attempt_notes.read_cut(str(tmp_path), "log", 2000)
    assert found is not None and found.mark == (
        b"[grass: 1,990 bytes (3 lines) of the log were cut here; the limit is 2.0 GiB (--log-max)]\n"
    )


@pytest.mark.parametrize("lines", [0, 1, 2, 1000, 1535, 1536, 1537, 1538, 2000, 99_999])
def test_the_last_lines_are_found_around_a_cut(tmp_path: Path, lines: int) -> None:
    path = written(tmp_path, numbered(20_000))
    cap = log_cap.LogCap(path, "log", LIMIT)
    cap.last_look()
    whole = text_of(path).splitlines(keepends=True)
    at, data = log_files.tail_offset(path, "log", lines), b""
    cut = log_files.cut(path, "log")
    assert cut is not None
    if at < cut.begin:
        data, at = log_files.read(path, "log", at) + cut.mark, cut.end
    elif at < cut.end:
        data, at = cut.mark[at - cut.end :], cut.end
    data += log_files.read(path, "log", at)
    assert data == b"".join(whole[-lines:] if lines else [])


def test_a_killed_shim_leaves_a_log_that_can_be_read(harness: Harness) -> None:
    flood = "import os, time\nfor n in range(10**9): os.write(1, b'line %010d\\n' % n * 500)\n"
    path, _ = harness.start(sys.executable, "-c", flood, log_max=LIMIT)
    eventually(lambda: log_files.cut(path, "log"), "a cut")
    found = rundir.look(path, harness.boot)
    assert found.shim is not None and found.command is not None
    os.kill(found.shim[0], signal.SIGKILL)
    os.kill(found.command[0], signal.SIGKILL)
    eventually(lambda: not rundir.look(path, harness.boot).members, "the end of the command")
    cut = log_files.cut(path, "log")
    assert cut is not None and b"\0" not in log_files.read(path, "log", 0)
    assert b"\0" not in log_files.read(path, "log", cut.end)


@needs_root
def test_a_log_is_cut_on_a_full_disk_and_the_note_follows(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=4m") as disk:
        path = written(disk, numbered(150_000))
        fill(disk)
        cap = log_cap.LogCap(path, "log", 1 << 20)
        cap.last_look()
        head, mark, tail = lines_with_mark(path)
        assert head[0] == 0 and tail[-1] == 149_999 and mark
        assert disk_use(path) <= (1 << 20) + 8192
