from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.run import log_files


@given(st.binary(max_size=300).map(lambda data: data.replace(b"\r", b"\n")), st.integers(0, 20))
def test_the_tail_starts_where_the_last_lines_do(data: bytes, lines: int) -> None:
    whole = data.split(b"\n")
    if whole[-1] == b"":
        whole.pop()
    expected = len(data) - len(b"\n".join(whole[-lines:])) - data.endswith(b"\n") if lines and data else len(data)
    with tempfile.TemporaryDirectory() as path:
        Path(path, "log").write_bytes(data)
        assert log_files.tail_offset(path, "log", lines) == expected


def test_the_tail_of_a_long_log_is_found_across_blocks(tmp_path: Path) -> None:
    line = b"x" * (log_files.TAIL_BLOCK - 1) + b"\n"
    (tmp_path / "log").write_bytes(line * 5 + b"end")
    assert log_files.tail_offset(str(tmp_path), "log", 1) == len(line) * 5
    assert log_files.tail_offset(str(tmp_path), "log", 3) == len(line) * 3
    assert log_files.tail_offset(str(tmp_path), "log", 99) == 0


def test_a_read_is_bounded_and_starts_where_asked(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"0123456789" * (log_files.READ_LIMIT // 5))
    path = str(tmp_path)
    assert log_files.read(path, "out", 3, 4) == b"3456"
    assert len(log_files.read(path, "out", 0, 1 << 40)) == log_files.READ_LIMIT
    assert log_files.size(path, "out") == log_files.READ_LIMIT // 5 * 10
    assert log_files.read(path, "out", log_files.size(path, "out"), 10) == b""


def test_a_log_that_is_not_there_or_not_a_file_is_empty(tmp_path: Path) -> None:
    path = str(tmp_path)
    os.mkfifo(tmp_path / "out")
    (tmp_path / "err").symlink_to("/etc/passwd")
    for stream in ("log", "out", "err"):
        assert (
            log_files.read(path, stream, 0),
            log_files.size(path, stream),
            log_files.tail_offset(path, stream, 5),
        ) == (b"", 0, 0)


def test_an_unknown_stream_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no stream"):
        log_files.read(str(tmp_path), "../../spec.json", 0)
