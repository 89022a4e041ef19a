"""`--wrap` and `--project` through every door: command line, API, SDK, queue, edit, rerun, sweep, removal."""

from __future__ import annotations

import json

from tests.e2e.world import Grass

import grassq


def show(grass: Grass, selector: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(grass("show", "--json", selector).out)["jobs"]
    return found


def logged(job: grassq.Job) -> str:
    job.result(timeout=30)
    return str(job.log())


def test_a_wrapper_is_put_before_the_command_by_every_door(grass: Grass, client: grassq.Client) -> None:
    with client:
        put_before(grass, client)


def put_before(grass: Grass, client: grassq.Client) -> None:
    assert grass("run", "-q", "--wrap", "nice -n 7", "nice").out == "7\n"
    assert grass("run", "-q", "--wrap", "env A='x y'", "--shell", 'echo "$A"').out == "x y\n"
    assert logged(client.submit(["nice"], wrap=["nice", "-n", "3"])) == "3\n"
    assert client.create_queue("low", wrap="nice -n 4") == "created"
    assert grass("run", "-q", "low", "--wrap=nice -n 2", "nice").out == "6\n", "the queue's comes first"
    assert logged(client.submit_many([["nice"]], queue="low")[0]) == "4\n"
    (job,) = show(grass, "1")
    assert job["wrap"] == "nice -n 7" and "wrapped   nice -n 7" in grass("show", "1").out
    queues = {queue["name"]: queue["wrap"] for queue in json.loads(grass("show", "--json").out)["queues"]}
    assert queues == {"default": None, "low": "nice -n 4"}
    held = grass.enqueue("--hold", "nice")
    assert grass("edit", str(held), "--set", "wrap=nice -n 9").code == 0
    assert grass("release", str(held)).code == 0 and grass("wait", str(held)).code == 0
    assert grass("log", str(held)).out == "9\n"


def test_a_wrapper_is_checked_before_the_job_is_stored(grass: Grass) -> None:
    for words, why in (
        (["--wrap", "no-such-box -x", "true"], "there is no program 'no-such-box'"),
        (["--wrap", "nice 'x", "true"], "cannot be split into words: no closing quotation"),
        (["--wrap", " ", "true"], "--wrap begins with a program"),
        (["--wrap", "--rm", "true"], "--wrap begins with a program, such as --wrap \"nice -n 10\", not with '--rm'"),
        (["--wrap", "echo {cpu}", "--mem=1", "true"], "{cpu} is used but no cpu is asked for"),
        (["--wrap", "echo", "only-inside"], "put -- before the command"),
    ):
        done = grass("enqueue", *words)
        assert done.code in (2, 3) and why in done.err, (words, done)
    assert grass("run", "-q", "--wrap", "echo", "--", "only-inside", "-x").out == "only-inside -x\n"


def test_a_project_follows_its_jobs(grass: Grass, client: grassq.Client) -> None:
    with client:
        followed(grass, client)


def followed(grass: Grass, client: grassq.Client) -> None:
    assert grass("run", "-q", "--project", "vision", "--name", "lr", "--", "sh", "-c", "echo $GRASS_PROJECT").out == (
        "vision\n"
    )
    assert grass("run", "-q", "--project=vision", "--name", "lr", "true").code == 0
    grass("run", "-q", "true", env={"GRASS_PROJECT": "speech"})
    client.submit(["true"], project="speech", name="tts").result()
    assert grass("sweep", "true {x}", "-p", "x", "1", "2", "--project", "vision", "--name", "grid").code == 0
    grass("wait", "project:vision")
    assert [job["id"] for job in show(grass, "project:vision")] == [1, 2, 5, 6]
    assert [job["id"] for job in show(grass, "vision/lr")] == [1, 2]
    assert [(job["id"], job["project"]) for job in show(grass, "project:speech")] == [(3, "speech"), (4, "speech")]
    assert "vision" in grass("show", "-o", "id,project", "1").out and "project   vision" in grass("show", "1").out
    folder = grass.home / "projects"
    assert sorted(str(path.relative_to(folder)) for path in folder.glob("*/*/*")) == [
        "speech/-/3", "speech/tts/4", "vision/grid/5", "vision/grid/6", "vision/lr/1", "vision/lr/2",
    ]  # fmt: skip
    assert (folder / "vision/lr/1/1/log").read_text() == "vision\n"
    grass("rerun", "vision/lr/2")
    grass("wait", "@")
    assert show(grass, "@")[0]["project"] == "vision" and (folder / "vision/lr/7").exists()
    assert grass("clean", "project:vision").code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["speech"]
    (grass.home / "grass.toml").write_text('project = "usual"\n')
    grass("restart")
    assert grass("run", "-q", "--", "sh", "-c", "echo $GRASS_PROJECT").out == "usual\n"
    bad = grass("enqueue", "true", env={"GRASS_PROJECT": "a/b"})
    assert bad.code == 2 and "cannot be a project name" in bad.err
