"""Editing with a real daemon: in an editor, with --set, from Python, and while jobs start."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path

from tests.e2e.world import Grass, eventually

import grassq
from grassq.errors import Refused


def a_queue(grass: Grass) -> None:
    """A queue for one job at a time, which is taken until the gate `go` is opened."""
    grass.ok("create-queue", "one", "--cpu=1")
    grass.until(grass.gated("go", "--queue", "one"), "running")


def editor(grass: Grass, script: str) -> dict[str, str]:
    """An editor that is a script; the text is $1."""
    path = grass.write("editor", f"#!/bin/sh\n{script}\n", 0o755)
    (grass.cwd / "tmp").mkdir(exist_ok=True)
    return {"VISUAL": "", "EDITOR": str(path), "TMPDIR": str(grass.cwd / "tmp")}


def test_a_job_is_edited_in_an_editor_and_runs_as_it_was_edited(grass: Grass) -> None:
    a_queue(grass)
    id_ = grass.enqueue("--queue", "one", "-e", "A=old", "--", "printf", "%s", b"\xff\xfe", "a\tb'\"c", "é")
    assert "nothing changed" in grass.ok("edit", str(id_), env=editor(grass, "cp $1 seen.toml"))
    seen = (grass.cwd / "seen.toml").read_text()
    assert "b64" in seen and 'queue = "one"' in seen and "A=old" in seen
    change = """sed -i -e 's/^priority = .*/priority = 40/' -e 's/"é"/"new", "é"/' $1"""
    said = grass.ok("edit", str(id_), env=editor(grass, change))
    assert said.startswith(f"job {id_}: command printf %s ") and said.endswith("priority 30 -> 40\n")
    story = grass.json("why", str(id_))["jobs"][0]["story"]
    assert [line["kind"] for line in story] == ["submitted", "edited"] and story[1]["detail"].endswith(", by owner")
    grass.open_gate("go")
    grass.until(id_, "succeeded")
    assert grass.log(id_).encode("utf-8", "surrogateescape") == b"\xff\xfea\tb'\"cnew\xc3\xa9"
    assert grass.refuses(5, "edit", str(id_), "--set", "priority=1").startswith(f"grass: job {id_} has ended")


def test_what_was_typed_is_kept_when_it_is_refused(grass: Grass) -> None:
    a_queue(grass)
    id_ = grass.enqueue("--queue", "one", "--", "true")
    tries = {
        "sed -i 's/^priority.*/priority = [/' $1": (2, "this is not TOML"),
        "sed -i 's/^command.*/command = [\"nosuch\"]/' $1": (2, "there is no program 'nosuch'"),
        "echo 'cwd = \"/nosuch\"' >> $1": (2, "there is no directory '/nosuch'"),
        "sed -i 's/cpu = 1/cpu = 99/' $1": (5, "this can never run: 99 cpu asked"),
        "echo 'gpus = 1' >> $1": (2, "unknown option 'gpus'; did you mean gpu?"),
        "echo '# typed' >> $1; exit 3": (1, "the editor failed with exit code 3; nothing was changed"),
        "echo '# typed' >> $1; kill -9 $$": (1, "the editor was killed by signal 9; nothing was changed"),
    }
    for script, (code, words) in tries.items():
        told = grass.refuses(code, "edit", str(id_), env=editor(grass, script))
        path = Path(told.strip().rpartition("your text is in ")[2])
        assert words in told and "command = " in path.read_text() and path.stat().st_mode & 0o777 == 0o600, told
        path.unlink()
    for script, words in (("rm $1", "the editor removed the text"), (": > $1", "the text is empty")):
        assert words in grass.refuses(1, "edit", str(id_), env=editor(grass, script))
    assert "cannot start the editor 'nosuch -x' (No such file" in grass.refuses(
        1, "edit", str(id_), env={"EDITOR": "nosuch -x"}
    )
    assert "there is no terminal" in grass.refuses(2, "edit", str(id_), env={"EDITOR": "", "VISUAL": ""})
    assert not [*(grass.cwd / "tmp").iterdir()]
    job = grass.job(id_)
    assert (job["priority"], job["command"], job["request"]) == (30, ["true"], {"cpu": 1})


def test_an_edit_whose_job_started_while_the_editor_was_open_changes_nothing(grass: Grass) -> None:
    a_queue(grass)
    id_ = grass.gated("end", "--queue", "one")
    wait = "sed -i 's/^priority.*/priority = 7/' $1; touch opened; until [ -e closed ]; do sleep 0.02; done"
    command = grass.start("edit", str(id_), env={**grass.env, **editor(grass, wait)}, stderr=-1)
    eventually((grass.cwd / "opened").exists, "the editor is open")
    command.send_signal(signal.SIGINT)  # the user's control-C is for the editor
    grass.open_gate("go")
    grass.until(id_, "running")
    (grass.cwd / "closed").touch()
    _, err = command.communicate(timeout=30)
    assert command.returncode == 5 and f"job {id_} has started (running)" in err.decode(), err
    Path(err.decode().strip().rpartition(" ")[2]).unlink()
    assert grass.job(id_)["priority"] == 30
    grass.open_gate("end")


def test_each_job_runs_as_its_story_says_while_edits_and_starts_race(grass: Grass) -> None:
    lines = "\n".join(['sleep 0.03; printf "$V"'] * 150)
    grass.program("sh", "-c", f"printf '%s' '{lines}' | grass enqueue --stdin --name race -e V=old")
    with grass.client() as client, contextlib.suppress(Refused):  # all have started
        for number in range(6):
            client.change("jobs/edit", selectors=["race"], set={"env": {"V": f"new{number}"}})
    grass.ok("wait", "race", "--timeout=60s")
    stories = {each["id"]: each["story"] for each in grass.json("why", "race")["jobs"]}
    for id_, story in stories.items():
        kinds = [line["kind"] for line in story]
        before = kinds[: kinds.index("placed")].count("edited")
        assert before == kinds.count("edited"), "no job is edited after its start"
        assert grass.log(id_) == (f"new{before - 1}" if before else "old") if id_ % 10 == 0 else True


def test_a_selection_is_edited_with_set_and_from_python(grass: Grass, client: grassq.Client) -> None:
    a_queue(grass)
    with client:
        _edit_many(grass, client)


def _edit_many(grass: Grass, client: grassq.Client) -> None:
    jobs = client.submit_many([["true"]] * 12, queue="one", name="many")
    assert grass.ok("edit", "one", "--set", "tries=2", "--set", "grace=5s") == "edited 12 jobs\n"
    assert grass.json("edit", str(jobs[0].id), "--set", "cpu=0.5")["jobs"][0]["request"] == {"cpu": 0.5}
    assert jobs[0].edit(cpu=1, name="first", env={"A": 1}, labels=None).name == "first"
    assert len(client.edit("many", command=["echo", b"\xff"], priority=31)) == 11
    grass.ok("delete-queue", "one")
    assert "there is no queue 'none' yet" in grass("edit", "first", "--set", "queue=none").err
    assert grass.job(jobs[0].id)["state"] == "waiting"
    first, second = (str(job.id) for job in jobs[:2])
    assert f"after none -> {first}" in grass.ok("edit", second, "--set", f"after={first}", "--set", "at=2099-01-01")
    waits = grass.json("show", second)["jobs"][0]
    assert waits["after"] == {"ok": [first]} and waits["not_before"].startswith("20")
    cycle = f"grass: job {second} itself starts after one of these jobs; nothing was changed\n"
    assert grass.refuses(5, "edit", first, "--set", f"after-any={second}") == cycle
    assert "two start times" in grass.refuses(2, "edit", first, "--set", "in=1h", "--set", "at=18:00")
    assert jobs[1].edit(after=None, after_fail=[jobs[0]], in_s=3600, tries=2, retry_on=[3, "oom"]).id == jobs[1].id
    assert grass.json("show", second)["jobs"][0]["after"] == {"fail": [first]}
    grass.ok("edit", second, "--set", "after-fail=", "--set", "in=", "--set", "retry-on=")
    waits = grass.json("show", second)["jobs"][0]
    assert (waits["after"], waits["not_before"]) == (None, None)
    document = json.loads(grass.ok("edit", "first", "--set", "queue=default", "--json"))
    assert document["changed"] == {str(jobs[0].id): "queue none -> default"}
    grass.until(jobs[0].id, "succeeded")
    grass.open_gate("go")


def test_moved_jobs_start_in_their_new_order_also_after_a_crash(grass: Grass) -> None:
    a_queue(grass)
    ids = [grass.enqueue("--queue", "one", "--", "true") for _ in range(4)]
    first, second, third, fourth = map(str, ids)
    assert grass.ok("move", fourth, "--first") == f"job {fourth} is now first among jobs of equal priority\n"
    assert grass.ok("move", second, first, "--after", third) == f"2 jobs are now after job {third}\n"
    assert grass.ok("move", fourth, "--first").startswith("nothing changed")
    assert "in one way" in grass.refuses(2, "move", first)
    assert "in one way" in grass.refuses(2, "move", first, "--first", "--last")
    assert "no job matches 99" in grass.refuses(3, "move", first, "--before", "99")
    grass.crash()
    assert "jobs that come first: 1 earlier" in grass.ok("why", third)
    grass.open_gate("go")
    ended = [grass.until(id_, "succeeded") for id_ in ids]
    order = sorted(ended, key=lambda job: job["started"])
    assert [str(job["id"]) for job in order] == [fourth, third, first, second]
