"""Dependencies, start times and retries through every door: command line, API, SDK, restart and kill."""

from __future__ import annotations

import datetime
import json
import time

from tests.e2e.world import Grass

import grassq


def job_of(grass: Grass, id_: int | str) -> dict[str, object]:
    found: list[dict[str, object]] = json.loads(grass("show", "--json", str(id_)).out)["jobs"]
    return found[0]


def test_jobs_start_after_others_and_fail_with_them_also_when_the_daemon_was_killed(grass: Grass) -> None:
    gate = grass.home.parent / "gate"
    first = grass.enqueue("--name", "prepare", "--", "sh", "-c", f"until [ -e {gate} ]; do sleep 0.05; done; echo made")
    train = grass.enqueue("--after", "prepare", "--", "sh", "-c", "echo trained")
    report = grass.enqueue("--after", f"{first},{train}", "--", "echo", "reported")
    mop = grass.enqueue("--after-fail", str(train), "--", "echo", "mopped")
    last = grass.enqueue("--after-any", f"{mop}", "--", "echo", "last")
    assert job_of(grass, report)["after"] == {"ok": [f"{first}-{train}"]}
    assert "waits to start after jobs" in grass("why", str(report)).out
    tree = grass("show", "--tree", "all").out.splitlines()
    assert any(f"─ {train} " in line for line in tree), tree
    grass.crash()
    gate.touch()
    assert grass("wait", str(report)).code == 0
    assert grass("wait", str(last)).code == 0
    ended = [job_of(grass, id_) for id_ in (first, train, report, mop, last)]
    assert [job["state"] for job in ended] == ["succeeded"] * 3 + ["failed", "succeeded"]
    assert (ended[3]["outcome"], ended[3]["error"]) == ("dependency_failed", f"job {train} succeeded")
    for before, after in ((0, 1), (1, 2)):
        assert str(ended[before]["finished"]) <= str(ended[after]["started"])
    failing = grass.enqueue("--", "sh", "-c", "exit 3")
    never = grass.enqueue("--after", str(failing), "--", "true")
    done = grass("wait", str(never))
    assert done.code == 1 and f"job {failing} failed (exit code 3)" in grass("why", str(never)).out
    assert f"{failing},{never}" in grass("rerun", "--dry-run", "--with-dependents", str(failing)).out.replace("-", ",")
    again = [int(id_) for id_ in grass("rerun", "-q", "--with-dependents", str(failing)).out.split()]
    assert job_of(grass, again[1])["after"] == {"ok": [str(again[0])]}
    for words, code, why in (
        (["--after", "999"], 3, "--after: no job matches 999"),
        (["--after", "@~999"], 3, "--after: no job matches @~999"),
        (["--after", "5-1"], 2, "--after: the range '5-1' is backwards"),
        (["--at", "noon"], 2, "--at needs a time such as 18:00"),
        (["--in", "-1"], 2, "--in needs a number and its unit"),
        (["--at", "18:00", "--in", "1h"], 2, "two start times"),
        (["--retry-on", "3"], 2, "--retry-on needs --retries N"),
        (["--retries", "1", "--retry-on", "soon"], 2, "--retry-on needs exit codes"),
        (["--retries", "1", "--retry-delay", "10m..1s"], 2, "the shorter delay first"),
    ):
        refused = grass("enqueue", *words, "--", "true")
        assert refused.code == code and why in refused.err and len(refused.err.splitlines()) == 1, (words, refused)
    assert job_of(grass, "@")["id"] == again[1], "nothing of this was queued"


def test_start_times_and_retries_by_command_line_and_sdk(grass: Grass, client: grassq.Client) -> None:
    with client:
        soon = client.submit(["echo", "soon"], in_s=0.5)
        behind = client.submit(["echo", "behind"], after=soon)
        far = client.submit(["true"], at=datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1))
        count = 'echo x >> "$GRASS_CHECKPOINT_DIR/n"; test $(wc -l < "$GRASS_CHECKPOINT_DIR/n") = 3 && exit 0; exit 9'
        tried = client.submit(count, tries=5, retry_delay_s=(0.01, 0.02), retry_on=[9])
        given_up = client.submit("exit 2", tries=5, retry_delay_s=0.01, no_retry_on=[2])
        assert behind.result(timeout=30) is None and behind.log() == "behind\n"
        shown = job_of(grass, soon.id)
        assert str(shown["started"]) >= str(shown["created"])
        waiting = job_of(grass, far.id)
        assert waiting["state"] == "waiting" and str(waiting["not_before"]) > str(waiting["created"])
        assert tried.wait(timeout=30) and given_up.wait(timeout=30)
        ended = job_of(grass, tried.id)
        assert (ended["state"], ended["attempt"], len(ended["attempts"])) == ("succeeded", 3, 3)  # type: ignore[arg-type]
        assert job_of(grass, given_up.id)["attempt"] == 1
        assert "3 of 5 (1: exit code 9; 2: exit code 9;" in grass("show", str(tried.id)).out
        past = grass("enqueue", "--at", "2020-01-01T08:00", "--", "true")
        assert past.code == 0 and "the start time is past" in past.err
        later = (datetime.datetime.now() - datetime.timedelta(minutes=2)).strftime("%H:%M")
        tomorrow = grass.enqueue("--at", later, "--", "true")
        at = datetime.datetime.fromisoformat(str(job_of(grass, tomorrow)["not_before"])).timestamp()
        assert time.time() < at <= time.time() + 86_400
        killed = client.kill(far, with_dependents=True)
        assert [job.id for job in killed] == [far.id]
    would = grass("enqueue", "--dry-run", "--after", "@", "--", "true")
    assert would.code == 0 and "1 job would be waiting in default" in would.out and "nothing was queued" in would.out
