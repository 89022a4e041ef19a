"""Lines of a log and the search in it, by the API of a real daemon."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.e2e.world import Grass, eventually

from grassq.errors import BadInput, NotFound
from grassq.net.http import Connection

SCRIPT = """
import sys
for at in range(1, 5001):
    print(f"\\x1b[32mline\\x1b[0m {at} says {'even' if at % 2 == 0 else 'odd'}")
for at in range(101):
    print(f"\\r{at}%", end="")
print("\\ndone \\x1b]0;title\\x07\\u202e!")
"""


def lines(grass: Grass, job: int, **asked: object) -> dict[str, Any]:
    with grass.client() as client:
        return client.get(f"jobs/{job}/log/lines?{urlencode(asked)}")


def search(grass: Grass, job: int, **asked: object) -> list[dict[str, Any]]:
    with grass.client() as client:
        parts, connection = client.stream(f"/v1/jobs/{job}/log/search?{urlencode(asked)}", 30.0)
        try:
            found = [json.loads(line) for line in b"".join(parts).splitlines()]
            return [each for each in found if "n" in each or "end" in each]
        finally:
            connection.close()


@pytest.fixture
def job(grass: Grass) -> int:
    id_ = grass.enqueue("--", "python3", "-c", SCRIPT)
    grass.until(id_, "succeeded")
    return id_


def test_any_lines_of_a_log_are_had_by_number_byte_or_from_the_end(grass: Grass, job: int) -> None:
    answer = lines(grass, job, line=4000, count=2)
    assert [line["n"] for line in answer["lines"]] == [4000, 4001]
    assert answer["lines"][0]["spans"] == [["fg2", "line"], ["", " 4000 says even"]]
    assert (answer["total"], answer["is_whole"], answer["is_final"]) == (5002, True, True)
    at = answer["lines"][1]["begin"]
    assert lines(grass, job, byte=at + 3, count=1)["lines"][0]["n"] == 4001
    bar, done = lines(grass, job, line=-2)["lines"]
    assert (bar["n"], bar["spans"], bar["updates"]) == (5001, [["", "100%"]], 100)
    assert done["spans"] == [["", "done \\u202e!"]]
    assert lines(grass, job, line=9999)["lines"] == []
    assert len(lines(grass, job, line=1, count=999_999)["lines"]) == 5000


def test_the_index_survives_the_daemon_and_is_removed_with_the_job(grass: Grass, job: int) -> None:
    lines(grass, job, line=-1)
    grass.crash()
    assert lines(grass, job, line=-1)["lines"][0]["n"] == 5002
    grass.ok("clean", str(job))
    folder = grass.home / "log-index"
    assert not folder.exists() or not list(folder.glob(f"{job}.*"))


def test_a_search_tells_hits_a_total_and_its_end(grass: Grass, job: int) -> None:
    *hits, end = search(grass, job, q="says even", limit=3)
    assert [hit["n"] for hit in hits] == [2, 4, 6] and hits[0]["text"] == "line 2 says even"
    assert hits[0]["at"] == [7, 16]
    assert (end["end"], end["total"]) == (True, 2500)
    *hits, end = search(grass, job, q=r"^LINE 49\d\d .*ODD$", regex=1, i=1, after=4980)
    assert [hit["n"] for hit in hits] == [4981, 4983, 4985, 4987, 4989, 4991, 4993, 4995, 4997, 4999]
    assert search(grass, job, q="100%")[0]["n"] == 5001
    assert search(grass, job, q="37%")[-1]["total"] == 0, "what a bar has written over is not shown to anybody"


def test_bad_questions_are_exit_2_and_an_unknown_job_is_exit_3(grass: Grass, job: int) -> None:
    bad_searches: list[tuple[dict[str, object], str]] = [
        ({"q": "(", "regex": 1}, "is not a regular expression"),
        ({"q": "(" * 500, "regex": 1}, "is not a regular expression"),
        ({"q": ""}, "q= is what to search for"),
        ({"q": "x" * 2000}, "q= is what to search for"),
        ({"q": "x", "after": "-1"}, "after="),
    ]
    for asked, words in bad_searches:
        with pytest.raises(BadInput, match=words):
            search(grass, job, **asked)
    bad: list[dict[str, object]]
    bad = [{"line": "0"}, {"line": "x"}, {"line": 1, "byte": 2}, {"count": -1}, {"stream": "out"}, {"since": "soon"}]
    for asked in bad:
        with pytest.raises(BadInput):
            lines(grass, job, **asked)
    with pytest.raises(NotFound):
        lines(grass, 77)


def test_an_expression_that_explodes_is_ended_and_its_process_too(grass: Grass) -> None:
    id_ = grass.enqueue(
        "--", "sh", "-c", "echo before; printf %s aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"
    )
    grass.until(id_, "succeeded")
    begun = time.monotonic()
    end = search(grass, id_, q="(a+)+$", regex=1)[-1]
    assert "use a simpler one" in end["error"]["message"] and end["error"]["exit"] == 2
    assert time.monotonic() - begun < 20
    eventually(lambda: not searching(grass.home), "the process of the search ends")


def test_a_search_ends_when_its_client_hangs_up(grass: Grass) -> None:
    id_ = grass.enqueue("--", "sh", "-c", "yes aaaaaaaaaaaaaaaaaaaaaaaaaab | head -c 3000000")
    grass.until(id_, "succeeded")
    with grass.client() as client:
        query = urlencode({"q": "(a+)+$", "regex": 1})
        _, connection = client.stream(f"/v1/jobs/{id_}/log/search?{query}", 30.0)
        assert isinstance(connection, Connection)
        eventually(lambda: searching(grass.home), "the search begins")
        connection.close()
    eventually(lambda: not searching(grass.home), "the search ends", 4.0)


def searching(home: Path) -> list[int]:
    """The processes of searches, which are children of the daemon."""
    daemon = int((home / "daemon.lock").read_text())
    children = Path(f"/proc/{daemon}/task/{daemon}/children")
    found = []
    for pid in children.read_text().split():
        words = Path(f"/proc/{pid}/cmdline")
        if words.exists() and b"search_process" in words.read_bytes():
            found.append(int(pid))
    return found


def test_a_log_can_be_read_up_to_a_limit(grass: Grass, job: int) -> None:
    with grass.client() as client:
        parts, connection = client.stream(f"/v1/jobs/{job}/log?offset=5&limit=7", 30.0)
        data = b"".join(parts)
        connection.close()
    assert data == b"line\x1b[0"


def test_following_several_jobs_loses_and_repeats_nothing_over_killed_daemons(grass: Grass) -> None:
    script = "for i in $(seq 1 60); do echo $0 $i; sleep 0.05; done"
    ids = [grass.enqueue("--name", name, "--", "sh", "-c", script, name) for name in ("a", "b", "c")]
    process = grass.start("log", "-f", f"{ids[0]}-{ids[-1]}", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for _ in range(2):
        time.sleep(0.5)  # somewhere in the middle
        grass.crash()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    written = out.decode().splitlines()
    for id_, name in zip(ids, "abc", strict=True):
        own = [line.removeprefix(f"[{id_} {name}] ") for line in written if line.startswith(f"[{id_} {name}] ")]
        assert own == [f"{name} {at}" for at in range(1, 61)]
    assert len(written) == 180


def test_chosen_lines_of_a_real_log_by_the_command_line(grass: Grass, job: int) -> None:
    assert grass.ok("log", str(job), "--lines", "10-11") == "line 10 says even\nline 11 says odd\n"
    assert grass.ok("log", str(job), "--tail", "2").splitlines()[0] == "100%"
    assert (
        grass.ok("log", str(job), "--grep", "line 499[0-2]", "--numbers").splitlines()[0] == "4990:line 4990 says even"
    )
    assert grass("log", str(job), "--grep", "no such line") == (1, "", "")
    assert "is not a regular expression" in grass.refuses(2, "log", str(job), "--grep", "(")
    path = grass.ok("log", str(job), "--path").strip()
    assert Path(path).read_bytes().startswith(b"\x1b[32mline\x1b[0m 1 says odd\n")
    assert len(grass.json("log", str(job), "--head", "3")["lines"]) == 3
    assert grass.ok("log", str(job), "--tail", "5002").count("\n") == 5002
