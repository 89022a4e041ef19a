"""What TAB offers with a real daemon: jobs with their commands, names, queues and resources, and no word more."""

from __future__ import annotations

from tests.e2e.world import Grass, eventually


def offered(grass: Grass, *words: str) -> dict[str, str]:
    """The words with their descriptions; asked again while the daemon is too slow for a shell."""

    def ask() -> dict[str, str]:
        done = grass("__complete", *words)
        assert (done.code, done.err) == (0, "")
        return dict(line.split("\t") for line in done.out.splitlines()[1:])

    return eventually(ask, f"words for {words}")


def test_jobs_names_queues_and_resources_are_offered_with_what_they_are(grass: Grass) -> None:
    grass.ok("create-queue", "prints", "--printer=2")
    hostile = "echo $(id) `id`\x1b[2J\x07\n'\"; \t é"
    grass.enqueue("--hold", "--name", "mine", "--", "sh", "-c", hostile)
    done = grass.enqueue("--name", "over", "true")
    grass.ended(done)
    assert offered(grass, "release", "1") == {"1": "held sh -c echo $(id) `id`\\x1b[2J\\x07\\n'\"; \\t é"}
    kill = offered(grass, "kill", "")
    assert "1" in kill and str(done) not in kill and {"mine", "over", "prints", "all", "held"} <= kill.keys()
    assert offered(grass, "show", "name:o") == {"over": "succeeded true"}
    assert offered(grass, "log", str(done)) == {str(done): "succeeded true"}
    grass.ok(
        "sweep", "true {x}", "-p", "x", "1..2", "--name", "grid", "--tag", "team=a", "--hold", "--sampling-mode=grid"
    )
    assert offered(grass, "kill", "held+sweep:") == {"3": "sweep grid"}
    assert offered(grass, "enqueue", "--after", "1,tag:te") == {"team=": ""} != offered(grass, "show", "tag:team=")
    assert "--printer=" in offered(grass, "enqueue", "--pr")
    assert grass("__complete", "enqueue", "prints", "--printer=1", "gi").out == "command 4\n"
