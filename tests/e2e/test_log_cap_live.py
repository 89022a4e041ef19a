"""Logs with an end, as people see them: head, mark and tail, also while the log grows and over a killed daemon."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.e2e.world import DEADLINE_S, Grass, eventually

#: Writes numbered lines for ever, as fast as it can; `go` ends it.
FLOOD = """
import os, pathlib
number = 0
while not pathlib.Path("go").exists():
    os.write(1, b"".join(b"line %010d\\n" % each for each in range(number, number + 2000)))
    number += 2000
"""
MARK = re.compile(
    r"^\[grass: ([\d,]+) bytes \((?:about )?([\d,]+) lines\) of the log were cut here; the limit is 256.0 KiB "
    r"\(--log-max\)\]$",
    re.MULTILINE,
)


def numbers(text: str) -> list[int]:
    return [int(line.removeprefix("line ")) for line in text.splitlines() if line.startswith("line ")]


def test_a_log_above_its_limit_is_shown_with_one_mark_and_followed_over_a_killed_daemon(grass: Grass) -> None:
    id_ = grass.enqueue("--log-max", "256K", "--", sys.executable, "-c", FLOOD)
    grass.until(id_, "running")
    log = grass.home / f"jobs/{id_}/1/log"
    eventually(lambda: Path(f"{log}.cut").exists(), "a cut")
    follower = grass.start("follow", str(id_), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    grass.crash()
    grass.ok("show")
    grass.open_gate("go")
    followed = follower.communicate(timeout=DEADLINE_S)[0].decode()
    grass.until(id_, "succeeded")
    seen = numbers(followed)
    assert seen == sorted(set(seen)) and MARK.search(followed), "nothing is repeated, and what is missing is marked"
    assert log.stat().st_blocks * 512 <= (256 << 10) + 8192

    text = grass.log(id_)
    [mark] = MARK.finditer(text)
    head, tail = numbers(text[: mark.start()]), numbers(text[mark.end() :])
    assert head[0] == 0 and head == list(range(len(head)))
    assert tail == list(range(tail[0], tail[-1] + 1)) and followed.splitlines()[-1] == f"line {tail[-1]:010d}"
    cut = tail[0] - len(head)
    assert mark[1] == f"{16 * cut:,}" and (mark[2] == f"{cut:,}" or "about" in mark[0])
    assert text == "".join(f"line {n:010d}\n" for n in head) + mark[0] + "\n" + "".join(
        f"line {n:010d}\n" for n in tail
    )


def test_limits_that_make_no_sense_are_refused_in_one_line(grass: Grass) -> None:
    for words in (["1K"], ["-5G"], ["lots"], ["9000000T"], ["nan"]):
        assert "--log-max" in grass.refuses(2, "enqueue", "--log-max", *words, "--", "true")
    for words in (["0"], ["none"], ["1.5G"], ["100"]):
        grass.enqueue("--hold", "--log-max", *words, "--", "true")
