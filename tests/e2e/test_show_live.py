"""`grass show` with a real daemon: bars of real libraries, hostile output, a token that may only read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.cli.calls import on_terminal
from tests.e2e.world import BIN, DEADLINE_S, Grass, eventually, free_port

#: Programs that stop in the middle of their work, with what a bar shows then.
BARS = {
    "tqdm.py": """
from tqdm import tqdm
bar = tqdm(total=200, desc="train", mininterval=0)
bar.update(100)
""",
    "nested.py": """
from tqdm import tqdm
outer = tqdm(total=4, desc="epochs", mininterval=0)
outer.update(1)
inner = tqdm(total=200, desc="train", mininterval=0, position=1, leave=False)
inner.update(100)
for _ in range(300):
    inner.refresh()
""",
    "rich.py": """
from rich.console import Console
from rich.progress import Progress
bar = Progress(console=Console(force_terminal=True, width=80))
bar.start()
bar.update(bar.add_task("training", total=200), advance=100)
bar.refresh()
""",
    "keras.py": """
import sys
sys.stdout.write("Epoch 1/1\\n")
for step in range(1, 51):
    sys.stdout.write("\\r%d/100 [%s>%s] - ETA: 3s - loss: 0.5" % (step, "=" * (step // 4), "." * (25 - step // 4)))
sys.stdout.flush()
""",
    "words.py": "print('2026-01-02 INFO step 100/200 loss 0.3', flush=True)",
}
STAY = "\nimport sys, time\nsys.stdout.flush()\ntime.sleep(600)\n"


def looked(grass: Grass, *selectors: str) -> dict[int, dict[str, Any]]:
    lines = grass.ok("show", *selectors, "-l", "--json-lines").splitlines()
    return {job["id"]: job for job in map(json.loads, lines)}


def test_bars_of_real_libraries_are_read(grass: Grass) -> None:
    ids = {}
    for name, program in BARS.items():
        path = grass.write(f"bar_{name}", program + STAY)
        ids[name] = grass.enqueue("--cpu=1", "--", sys.executable, str(path))

    def fractions() -> dict[str, float | None]:
        jobs = looked(grass, "all")
        told = {name: jobs[id_].get("progress") for name, id_ in ids.items()}
        return {name: each and each["fraction"] for name, each in told.items()}

    # A quarter of the epochs is done, and half of the next one.
    expected = dict.fromkeys(BARS, 0.5) | {"nested.py": 0.375}
    eventually(lambda: fractions() == expected, "every bar is read")
    table = grass.ok("show", "running", "-o", "id,progress")
    assert f"{ids['tqdm.py']}   50%" in table


def screen(grass: Grass, *words: str, **environ: str) -> list[str]:
    """The lines of `grass show` at a terminal."""
    env = {"PATH": grass.env["PATH"], "NO_COLOR": "1", "COLUMNS": "80", **environ}
    return on_terminal(grass.home, BIN / "grass", "show", *words, **env).decode().splitlines()


def test_failures_tell_their_cause_and_hostile_output_stays_in_its_line(grass: Grass) -> None:
    grass.ok("enqueue", "--", "sh", "-c", "echo start; cat /nowhere/data.csv")
    grass.ok("enqueue", "--", "sh", "-c", "kill -9 $$")
    hostile = r"printf '\033[2J\033[8m\033]0;x\007\342\200\256oops %s\n'; head -c 1000000 /dev/zero | tr '\0' A; exit 3"
    grass.ok("enqueue", "--name", "grid", "--", "sh", "-c", hostile)
    for _ in range(2):
        grass.ok("enqueue", "--name", "grid", "--", "true")
    grass("wait", "all")
    eventually(lambda: grass.states().count("failed") == 3, "all have ended")
    for width in ("80", "40", "200"):
        lines = screen(grass, COLUMNS=width)
        assert lines[0] == "FAILED 3" and all(len(line) <= int(width) for line in lines)
        assert not any(set(line) & set("\x1b\x07\u202e") for line in lines)
    text = "\n".join(screen(grass))
    assert (
        "probably a file not found: /nowhere/data.csv" in text and "killed by signal 9, perhaps out of memory" in text
    )
    assert " grid  ████████████████████  100%  3/3  1 failed, 2 succeeded" in text
    assert "2 succeeded, the last" in text
    piped = grass.ok("show")
    assert piped.startswith("ID ") and "probably a file not found: /nowhere/data.csv" in piped


def test_a_token_that_may_only_read_sees_the_screen_of_a_broker(grass: Grass, tmp_path: Path) -> None:
    where = f"127.0.0.1:{free_port()}"
    daemon = grass.start("daemon", "--bind", where)
    try:
        eventually(lambda: (grass.home / "grass.sock").exists(), "the daemon listens")
        grass.ok("enqueue", "--", "sh", "-c", "echo epoch 3/4; sleep 600")
        eventually(lambda: looked(grass, "1")[1].get("progress"), "it has written its line")
        reader = Grass(tmp_path / "reader", tmp_path)
        try:
            reader.ok("login", grass.json("token", "create", "--scope", "read", "--name", "ann")["code"])
            lines = screen(reader, "--broker", where)
            assert lines[0] == "RUNNING 1" and " 75%" in lines[1], lines
            assert reader.refuses(5, "kill", "--broker", where, "1")
        finally:
            reader.close()
    finally:
        daemon.terminate()
        daemon.wait(DEADLINE_S)
