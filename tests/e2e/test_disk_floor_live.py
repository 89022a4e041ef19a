"""Little free space on the disk: running jobs go on, no new job starts, and everything says why until there is room."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.small_disk import needs_root
from tests.e2e.world import Grass, eventually


@needs_root
def test_below_the_floor_no_job_starts_until_there_is_room(grass: Grass, disk: Path) -> None:
    grass.env["GRASS_DISK_FLOOR"] = "60%"
    running = grass.gated("go")
    grass.until(running, "running")
    ballast = disk / "ballast"
    ballast.write_bytes(b"x" * (10 << 20))
    eventually(lambda: grass.json("show")["workers"][0]["disk_short"], "the worker notices")
    waiting = grass.enqueue("true")
    said = grass.ok("why", str(waiting))
    assert "starts no job: the disk of " in said and "`grass clean`" in said, said
    assert "disk full" in grass.ok("show")
    checks = grass.json_of(1, "doctor")["checks"]
    [found] = [check for check in checks if "starts no job" in check["found"]]
    assert "`grass clean`" in found["advice"]
    grass.open_gate("go")
    grass.until(running, "succeeded")
    assert grass.job(waiting)["state"] == "queued" and grass.job(waiting)["attempt"] == 0
    ballast.unlink()
    grass.until(waiting, "succeeded")
