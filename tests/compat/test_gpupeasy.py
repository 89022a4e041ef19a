"""GPUPeasy word for word: its API, its lists, its outfiles and batches, and every wish of its README."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path
from typing import Any

import pytest
from tests.compat.peasy import PYTHON, Peasy
from tests.e2e.world import eventually, is_alive

ALTERNATING = """
import os
for number in range(500):
    os.write(1, b"out %d\\n" % number)
    os.write(2, b"err %d\\n" % number)
"""


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_the_two_scripts_of_the_readme(peasy: Peasy) -> None:
    if not (is_free(8888) and is_free(4004)):
        pytest.skip("another program has port 8888 or 4004")
    server = peasy.serve(port=0)
    peasy.port = 8888
    assert peasy.ask("availabledevices").document == {"status": "successful", "value": ["0", "1", "2", "3"]}
    ids = []
    for number in range(5):
        # One after the other: of jobs that run together, any one may end first and free its device for the last.
        ids.append(peasy.add(f"job{number}", f"{number}.out", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"))
        peasy.reaches(ids[-1], "Succeeded")
    assert [(peasy.cwd / f"{number}.out").read_text() for number in range(5)] == ["0\n", "1\n", "2\n", "3\n", "0\n"]

    gui = peasy.serve(script="startgui.py", port=0)
    assert gui.stdout is not None
    link = gui.stdout.readline().strip()
    address, _, code = link.partition("#code=")
    assert address == "http://127.0.0.1:4004/" and code
    peasy.port = 4004
    assert is_free(4004) is False
    second = peasy.serve(port=8888)
    assert "port 8888 of 127.0.0.1 is taken" in peasy.said and second.wait(10) == 5
    assert peasy.end(gui) == 130 and eventually(lambda: is_free(4004), "the page is closed")
    assert peasy.end(server, signal.SIGTERM) == 143 and is_free(8888)


def test_a_job_is_in_one_list_at_a_time_and_its_outfile_has_all_of_its_output(peasy: Peasy) -> None:
    peasy.serve("--devices", "0,1", "")
    assert "devices 0,1 -" in peasy.said
    assert peasy.ask("availabledevices").value == ["0,1", ""]
    pair, cpu, waiting = (peasy.add_gated(name) for name in ("pair", "cpu", "waiting"))
    first = peasy.reaches(pair, "Running")
    assert (first["gpu"], first["jobName"], first["outFile"]) == ("0,1", "pair", str(peasy.cwd / "pair.out"))
    assert is_alive(first["pid"]) and first["returnCode"] is None
    assert peasy.reaches(cpu, "Running")["gpu"] == ""
    environment = Path(f"/proc/{peasy.info(cpu)['pid']}/environ").read_bytes().split(b"\0")
    assert b"CUDA_VISIBLE_DEVICES=" in environment, "'' is a job without a GPU"
    peasy.reaches(waiting, "Scheduled")
    peasy.open_gate("pair")
    peasy.reaches(pair, "Succeeded")
    peasy.reaches(waiting, "Running")
    peasy.open_gate("cpu")

    both = peasy.add("both", "new/folder/both.out", PYTHON, "-c", ALTERNATING)
    peasy.reaches(both, "Succeeded")
    lines = (peasy.cwd / "new/folder/both.out").read_text().splitlines()
    assert lines == [f"{stream} {number}" for number in range(500) for stream in ("out", "err")]
    fails = peasy.add("fails", "fails.out", "sh", "-c", "exit 7")
    assert peasy.reaches(fails, "Failed")["returnCode"] == 7
    words = peasy.add("words", "words.out", "printf", "%s|", "a b", ">", "$HOME")
    peasy.reaches(words, "Succeeded")
    assert (peasy.cwd / "words.out").read_text() == "a b|>|$HOME|", "jobCommand is words, without a shell"
    named = peasy.ask("addnewjob", {"job": {"jobName": "my lr=0.1", "outFile": "n", "jobCommand": ["true"]}})
    assert "my-lr-0.1" in named.document["message"]
    scoped = peasy.add("vision/net", "scoped.out", "true")
    assert peasy.reaches(scoped, "Succeeded")["jobName"] == "vision/net" and peasy.job(scoped)["project"] == "vision"

    text = f"a;;{peasy.cwd}/a.out;;echo one\n| tr o 0;;;\nb;;b.out;;echo two;;;"
    ids = peasy.ask("batchaddjobs", {"batch": text}).document["jobIDs"]
    for id_ in ids:
        peasy.reaches(id_, "Succeeded")
    assert [(peasy.cwd / name).read_text() for name in ("a.out", "b.out")] == ["0ne\n", "two\n"]
    bad = peasy.ask("batchaddjobs", {"batch": "c;;c.out;;true;;;\nd;;true;;;\ne;;b.out;;true;;;"})
    assert bad.code == 400 and "line 2: " in bad.why and "line 3: " in bad.why and "exists" in bad.why
    assert not (peasy.cwd / "c.out").exists(), "one malformed job, and none is added"
    assert peasy.ask("testCommandParser", {"command": "python -u a.py 'b c'"}).value == ["python", "-u", "a.py", "b c"]
    parsed = peasy.ask("testCommandParser", {"command": "a > b"}).document
    assert parsed["shell"] is True and parsed["line"] == "a > b"
    assert peasy.ask("testCommandParser", {"command": "a 'b"}).code == 400

    tail = {"fileName": "new/folder/both.out", "lastN": 3}
    assert peasy.ask("loadlogfile", tail).value == "err 498\nout 499\nerr 499\n"
    assert len(peasy.ask("loadlogfile", {"jobID": both}).value.splitlines()) == 20


def test_what_cannot_be_a_job_is_refused_in_words(peasy: Peasy) -> None:
    peasy.serve()
    (peasy.cwd / "old.out").write_text("mine")
    good: dict[str, Any] = {"jobName": "a", "outFile": "a.out", "jobCommand": ["true"]}
    refused: list[tuple[object, int, str]] = [
        (b"no json", 400, "not JSON"),
        ([1], 400, "JSON object"),
        ({}, 400, '"job"'),
        ({"job": {**good, "jobName": None}}, 400, '"jobName"'),
        ({"job": {**good, "jobName": " "}}, 400, '"jobName"'),
        ({"job": {**good, "outFile": ""}}, 400, '"outFile"'),
        ({"job": {**good, "outFile": None}}, 400, '"outFile"'),
        ({"job": {**good, "outFile": "old.out"}}, 409, "exists"),
        ({"job": {**good, "outFile": "old.out/x"}}, 400, "cannot be made"),
        ({"job": {**good, "jobCommand": []}}, 400, "empty"),
        ({"job": {**good, "jobCommand": "true"}}, 400, "list of words"),
        ({"job": {**good, "jobCommand": [""]}}, 400, "empty"),
        ({"job": {**good, "jobCommand": ["/no/such/program"]}}, 400, "no program"),
        ({"job": {**good, "jobCommand": ["a\0b"]}}, 400, "NUL"),
    ]
    for body, code, words in refused:
        said = peasy.ask("addnewjob", body)
        assert (said.code, words in said.why) == (code, True), (body, said)
    assert peasy.ask("addnewjob", b"{}", headers={"Content-Type": "text/plain"}).code == 400
    assert [peasy.ask(path).code for path in ("jobinfo/99", "jobinfo/x", "jobinfo/", "jobinfo")] == [404, 400, 400, 400]
    peasy.nothing_was_stored()
    assert sorted(path.name for path in peasy.cwd.iterdir()) == ["old.out"]
    foreign = peasy.enqueue("--", "true")
    assert peasy.ask(f"jobinfo/{foreign}").code == 404, "a job of another queue"


def test_the_queue_outlives_its_server_and_its_daemon(peasy: Peasy) -> None:
    server = peasy.serve("--devices", "0", "--project", "night")
    running, waiting = peasy.add_gated("one"), peasy.add_gated("two")
    peasy.reaches(running, "Running")
    peasy.end(server, signal.SIGKILL)
    peasy.crash()
    peasy.serve()
    assert peasy.ask("availabledevices").value == ["0"], "a queue keeps its devices unless others are given"
    assert peasy.reaches(running, "Running")["jobName"] == "night/one"
    peasy.reaches(waiting, "Scheduled")
    peasy.open_gate("one")
    peasy.open_gate("two")
    peasy.reaches(waiting, "Succeeded")


def test_every_wish_of_the_readme_is_granted(peasy: Peasy) -> None:
    peasy.serve("--devices", "0")
    # Kill a rogue job with its children, though it ignores SIGTERM: its device is free again.
    script = "trap '' TERM; sleep 1000 & echo $! > child; while :; do sleep 0.1; done"
    rogue = peasy.add("rogue", "rogue.out", "sh", "-c", script)
    peasy.reaches(rogue, "Running")
    file = peasy.cwd / "child"
    child = int(eventually(lambda: file.exists() and file.read_text().endswith("\n") and file.read_text(), "the child"))
    peasy.ok("kill", str(rogue), "--grace", "0")
    assert peasy.reaches(rogue, "Killed")["returnCode"] == -signal.SIGKILL and not is_alive(child)
    # A job that something else kills leaves the list of running jobs, and the next job gets its device.
    victim, after = peasy.add_gated("victim"), peasy.add("after", "after.out", "true")
    os.kill(peasy.reaches(victim, "Running")["pid"], signal.SIGKILL)
    assert peasy.reaches(victim, "Failed")["returnCode"] == -signal.SIGKILL
    peasy.reaches(after, "Succeeded")
    # Pause: what runs goes on, and nothing starts. Priorities: 30 is neutral, 40 overtakes, equal ones keep order.
    running = peasy.add_gated("running")
    peasy.reaches(running, "Running")
    peasy.ok("pause", "gpupeasy")
    first, second, urgent = (peasy.add(name, f"{name}.out", "true") for name in ("first", "second", "urgent"))
    assert peasy.info(first)["priority"] == 30
    peasy.ok("priority", str(urgent), "40")
    peasy.open_gate("running")
    peasy.reaches(running, "Succeeded")
    peasy.reaches(first, "Scheduled")
    peasy.ok("resume", "gpupeasy")
    for id_ in (first, second, urgent):
        peasy.reaches(id_, "Succeeded")
    started = [peasy.job(id_)["started"] for id_ in (urgent, first, second)]
    assert started == sorted(started)
    # Change the devices while a job runs: it finishes on its own, and the next job gets a new one.
    busy = peasy.add_gated("busy")
    peasy.reaches(busy, "Running")
    peasy.ok("create-queue", "gpupeasy", "--slots", "7", "--order", "rotate")
    on_seven = peasy.add("seven", "seven.out", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
    assert peasy.ask("availabledevices").value == ["7"]
    peasy.reaches(on_seven, "Succeeded")
    assert (peasy.cwd / "seven.out").read_text() == "7\n" and peasy.reaches(busy, "Running")["gpu"] == "0"
    # A device that is taken out of the machine is taken out of the list; only --slots adds one to the list.
    for words, left in (("drain 7", []), ("undrain 7", ["7"]), ("remove 7", []), ("add 8", []), ("add 7", ["7"])):
        peasy.ok("device", *words.split())
        assert peasy.ask("availabledevices").value == left, words
    peasy.open_gate("busy")
    peasy.reaches(busy, "Succeeded")
    # Rerun: a new id and a new outfile, the same command, the old record kept; and checkpoints are the same folder.
    count = "f=$GRASS_CHECKPOINT_DIR/n; n=$(cat $f 2>/dev/null || echo 0); echo $((n+1)) | tee $f; [ $n -gt 0 ]"
    tried = peasy.add("count", "count.out", "sh", "-c", count)
    peasy.reaches(tried, "Failed")
    [again] = peasy.json("rerun", str(tried))["ids"]
    found = peasy.reaches(again, "Succeeded")
    assert found["outFile"] == str(peasy.cwd / f"count.{again}.out") and Path(found["outFile"]).read_text() == "2\n"
    assert (peasy.cwd / "count.out").read_text() == "1\n" and peasy.info(tried)["status"] == "Failed"
    # Clear the lists: the outfiles stay.
    peasy.ok("clean", "queue:gpupeasy")
    eventually(lambda: not peasy.ask("failedjobs").value + peasy.ask("successfuljobs").value, "the lists are empty")
    assert (peasy.cwd / "count.out").read_text() == "1\n"


def test_waiting_jobs_cost_no_descriptors(peasy: Peasy) -> None:
    server = peasy.serve("--devices", "0")
    peasy.ok("pause", "gpupeasy")
    text = "".join(f"job-{number};;out/{number}.out;;true;;;\n" for number in range(5000))
    said = peasy.ask("batchaddjobs", {"batch": text})
    assert len(said.document["jobIDs"]) == 5000, said
    for pid in (server.pid, peasy.daemon_pid()):
        assert len(list(Path(f"/proc/{pid}/fd").iterdir())) < 100
    assert len(peasy.ask("scheduledjobs").value) == 5000
    assert len(list((peasy.cwd / "out").iterdir())) == 5000
    peasy.ok("kill", "queue:gpupeasy")
