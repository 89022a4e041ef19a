"""Tags, joined selectors, unique keys, limits, the project of a tree and options in scripts, by every door."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.e2e.world import DEADLINE_S, Grass, eventually, free_port

import grassq


def ids(grass: Grass, selector: str) -> list[int]:
    return [job["id"] for job in grass.jobs(selector)]


def test_groups_on_one_machine(grass: Grass, client: grassq.Client) -> None:
    with client:
        tagged(grass, client)
        kept_unique(grass, client)
        limited(grass, client)
        read_from_files(grass, client)


def tagged(grass: Grass, client: grassq.Client) -> None:
    assert grass.enqueue("--hold", "--tag", "team=a", "--tag", "run=1", "--tag", "team=b", "true") == 1
    assert client.submit(["true"], tags={"team": "a"}, project="p", hold=True).id == 2
    assert [job["tags"] for job in grass.jobs("1-2")] == [{"run": "1", "team": "b"}, {"team": "a"}]
    assert "tags      run=1 team=b" in grass.ok("show", "1")
    assert grass.ok("show", "tag:team", "-o", "id,tags").split() == [
        "ID",
        "TAGS",
        "1",
        "run=1",
        "team=b",
        "2",
        "team=a",
    ]
    assert ids(grass, "project:p+held,tag:run=1") == [1, 2] and ids(grass, "held+since:1h+tag:team=a") == [2]
    assert "no job matches tag:team=c+held" in grass.refuses(3, "kill", "tag:team=c+held")
    assert "no job matches 'hold'; did you mean 'held'?" in grass.refuses(3, "show", "1,hold")
    assert "'a=b,c' cannot be a tag" in grass.refuses(2, "enqueue", "--tag", "a=b,c", "true")
    too_many = [word for number in range(33) for word in ("--tag", f"k{number}=v")]
    assert "32 tags at most" in grass.refuses(2, "enqueue", *too_many, "true")
    grass.ok("edit", "tag:run", "--set", "tag=team=c")
    assert client.edit(2, tags={"team": "c", "x": "y"})
    assert ids(grass, "tag:team=c") == [1, 2] and ids(grass, "tag:x=y") == [2]
    for verb, *more in (["why"], ["eta"], ["release"], ["wait"], ["log"]):
        grass.ok(verb, "tag:team=c+tag:x", *more)
    assert ids(grass, "succeeded+tag:x") == [2]
    assert grass.ok("rerun", "-q", "tag:x") == "3\n" and grass.job(3)["tags"] == {"team": "c", "x": "y"}
    grass.ok("wait", "3")
    grass.ok("clean", "tag:x+succeeded")
    assert ids(grass, "all") == [1]


def kept_unique(grass: Grass, client: grassq.Client) -> None:
    live = grass.gated("gate", "--unique", "x y")
    said = f"job {live} with unique key 'x y' is not finished; nothing was queued\n"
    assert grass.ok("enqueue", "--unique", "x y", "true") == said
    assert grass.ok("enqueue", "-q", "--unique", "x y", "true") == f"{live}\n"
    assert '"existing":true' in grass.ok("enqueue", "--json", "--unique", "x y", "true")
    assert client.submit(["true"], unique="x y").id == live
    out = grass.cwd / "out.txt"
    assert grass.enqueue("--unique", "x y", "--output", out, "true") == live and not out.exists()
    assert (
        "--unique is for one job, and these are 2"
        in grass.bash("printf 'true\\ntrue\\n' | grass enqueue --stdin --unique z").err
    )
    with pytest.raises(grassq.BadInput, match="--unique is for one job"):
        client.submit_many([["true"], ["true"]], unique="z")
    assert "unique cannot be edited" in grass.refuses(2, "edit", "1", "--set", "unique=z")
    grass.ok("restart")
    assert grass.enqueue("--unique", "x y", "true") == live
    grass.open_gate("gate")
    grass.ended(live)
    assert grass.enqueue("--unique", "x y", "true") == live + 1


def limited(grass: Grass, client: grassq.Client) -> None:
    assert grass.ok("limit").startswith("no group has a limit")
    assert grass.ok("limit", "project:p", "cpu=1.5", "jobs=10") == "project:p holds at most cpu 1.5, jobs 10\n"
    client.limit("tag:team=a", {"mem": "64G"}, jobs=2)
    assert [(each["group"], each["jobs"]) for each in client.limits()] == [("project:p", 10), ("tag:team=a", 2)]
    running = grass.gated("held", "--project", "p", "--tag", "team=a")
    grass.until(running, "running")
    assert "project:p   cpu 1 of 1.5, jobs 1 of 10\n" in grass.ok("limit")
    assert grass.json("limit", "tag:team=a")["limits"][0]["held"] == {"mem": 0}
    assert "limit project:p cpu=1.5 jobs=10: job asks for 2" in grass.refuses(
        5, "enqueue", "--project=p", "--cpu=2", "true"
    )
    assert "jobs is a number from 1" in grass.refuses(2, "limit", "project:p", "jobs=0")
    assert grass.ok("limit", "project:p", "--remove") == "removed the limit of project:p\n"
    grass.refuses(3, "limit", "project:p", "--remove")
    client.limit("tag:team=a", remove=True)
    grass.open_gate("held")
    grass.ended(running)


def read_from_files(grass: Grass, client: grassq.Client) -> None:
    grass.write("grass.toml", 'project = "tree"\n')
    below = grass.cwd / "below"
    below.mkdir()
    assert grass.job(grass.enqueue("true", cwd=below))["project"] == "tree"
    assert grass.job(grass.enqueue("--project", "typed", "true", cwd=below))["project"] == "typed"
    assert grass.job(grass.enqueue("true", env={"GRASS_PROJECT": "stated"}))["project"] == "stated"
    assert grass.job(client.submit(["true"]).id)["project"] == "tree"
    assert "no-such-program" in grass.refuses(3, "enqueue", "no-such-program", "x")
    script = grass.write("job.sh", "#!/bin/sh\n#GRASS --name fromfile --tag a=1 --cpu 0.5\necho $GRASS_CPU\n", 0o755)
    job = grass.job(grass.enqueue("--tag", "b=2", "--cpu=0.25", script))
    assert (job["name"], job["tags"], job["request"]) == ("fromfile", {"a": "1", "b": "2"}, {"cpu": 0.25})
    assert grass.ok("run", "-q", "sh", "job.sh") == "0.5\n"
    said = grass.refuses(3, "enqueue", "hs", "job.sh")
    assert said.startswith("grass: no queue and no program is called 'hs'"), "the options of a script name no queue"
    submitted = client.submit(["sh", "job.sh"], tags={"b": "2"})
    assert (submitted.name, submitted.info["tags"], submitted.info["request"]) == (
        "fromfile",
        {"a": "1", "b": "2"},
        {"cpu": 0.5},
    )
    swept = grass.ok("sweep", "-q", "sh job.sh {x}", "-p", "x", "1..2", "--cpu=0.25").strip()
    assert {(job["name"], job["request"]["cpu"]) for job in grass.jobs(swept)} == {("fromfile", 0.25)}
    grass.write("job.sh", "#GRASS --naem x\n")
    assert grass.refuses(2, "enqueue", "sh", "job.sh").startswith("grass: job.sh, line 1: unknown option '--naem'")
    grass.write("grass.toml", 'projct = "tree"\n')
    assert "grass.toml has the key 'projct'" in grass.refuses(2, "enqueue", "true")
    grass.write("grass.toml", "")


def test_groups_from_elsewhere(grass: Grass, tmp_path: Path) -> None:
    where = f"127.0.0.1:{free_port()}"
    daemon = grass.start("daemon", "--bind", where)
    people = [Grass(tmp_path / name, tmp_path) for name in ("ann", "bob")]
    try:
        eventually(lambda: (grass.home / "grass.sock").exists(), "the daemon listens")
        grass.ok("create-queue", "q", "sleep")
        own = grass.enqueue("--unique", "x", "sleep", "60")
        for one in people:
            one.ok("login", grass.json("token", "create", "--name", one.home.name)["code"])
            one.env["GRASS_BROKER"] = where
        ann, bob = people
        (tmp_path / "grass.toml").write_text('project = "tree"\n')
        first = ann.enqueue("--unique", "x", "--tag", "team=a", "q", "60")
        assert own < first < bob.enqueue("--unique", "x", "q", "60"), "keys of others are neither seen nor in the way"
        assert ann.enqueue("--unique", "x", "q", "60") == first
        assert grass.job(first)["project"] == "tree"
        assert [job["id"] for job in bob.json("show", "tag:team=a+project:tree")["jobs"]] == [first]
        assert "admin" in ann.refuses(5, "limit", "project:tree", "jobs=1")
        grass.ok("limit", "project:tree", "jobs=1")
        assert "project:tree" in bob.ok("limit")
        assert "no job matches" in bob.refuses(3, "kill", "tag:team=a"), "a token changes its own jobs only"
        ann.ok("kill", "tag:team=a+project:tree")
    finally:
        for one in people:
            one.close()
        daemon.terminate()
        daemon.wait(DEADLINE_S)
