"""The far side of a machine without Python: commands run, end and are stopped as on this computer."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from tests.machines.far_site import STORE, FarSite
from tests.run.harness import eventually

from grassq.machines.far import script
from grassq.machines.far_end import FarEnd, Uninstalled
from grassq.machines.far_greeting import FarUnusable
from grassq.machines.transport import LinkLost
from grassq.run import processes, rundir


def test_a_command_runs_and_its_end_and_log_are_known(far_site: FarSite) -> None:
    record = far_site.run(1, "echo", "one", b"it's\n\x81\xff")
    assert (record["outcome"], record["code"], record["signal"], record["error"]) == ("exited", 0, None, None)
    assert 0 < record["started"] <= record["ended"]
    assert far_site.log(1) == b"one it's\n\x81\xff\n"
    found = far_site.far.look((1, 1))
    assert found.claimed and not found.void and not found.command_alive


def test_every_exit_code_is_told_from_a_signal(far_site: FarSite) -> None:
    assert far_site.script(1, "exit 137")["code"] == 137
    killed = far_site.script(2, "kill -KILL $$")
    assert (killed["code"], killed["signal"]) == (None, 9)
    assert far_site.script(3, "exit 143")["code"] == 143
    ended = far_site.script(4, "kill -TERM $$")
    assert (ended["code"], ended["signal"]) == (None, 15)
    assert far_site.script(5, "exit 255")["code"] == 255


def test_a_signal_that_a_shell_cannot_tell_is_said(far_site: FarSite) -> None:
    record = far_site.script(1, "kill -INT $$")
    assert record["signal"] == 2 or (record["code"] == 130 and "signal 2" in record["error"])


def test_a_command_gets_exactly_its_words_environment_directory_and_umask(far_site: FarSite) -> None:
    (far_site.home / "a folder").mkdir()
    words = [bytes(range(1, 128)), bytes(range(128, 256)), b"", b"-n", b"'\"`$(x)\\", b"a\nb\n"]
    env = {b"A": bytes(range(1, 256)), b"no.name": b"1", b"-x": b"", b"EMPTY": b"", b"1": b"2"}
    code = "import os, sys; print(ascii((sys.argv[1:], dict(os.environb), os.getcwd(), os.umask(0))))"
    words_as_text = [os.fsdecode(word) for word in words]
    launched = far_site.launch(
        1, "/usr/bin/python3", "-Sc", code, *words, env=env, cwd=os.fsencode(far_site.home / "a folder"), umask=0o027
    )
    assert far_site.far.start((1, 1), launched, None)
    assert far_site.ended(1)["code"] == 0, far_site.log(1)
    argv, found_env, cwd, umask = eval(far_site.log(1))
    assert argv == words_as_text
    spec = rundir.RunSpec.unpacked(launched.spec)
    assert {name: value for name, value in found_env.items() if name != b"LC_CTYPE"} == spec.env
    assert (cwd, umask) == (str(far_site.home / "a folder"), 0o027)


def test_a_command_has_its_own_session_no_input_and_no_ignored_signals(far_site: FarSite) -> None:
    # Not SIGQUIT: busybox as a login shell starts every program with SIGQUIT ignored.
    code = """
import os, signal
print(os.getsid(0) == os.getpid(), os.read(0, 1), sorted(os.listdir("/proc/self/fd")))
print([n for n in (1, 2, 10, 15) if signal.getsignal(n) == signal.SIG_IGN])
"""
    far_site.run(1, "/usr/bin/python3", "-c", code)
    assert far_site.log(1) == b"True b'' ['0', '1', '2', '3']\n[]\n"


def test_the_streams_are_kept_apart_when_asked(far_site: FarSite) -> None:
    far_site.script(1, "echo to out; echo to err >&2", split=True)
    assert (far_site.log(1, "out"), far_site.log(1, "err"), far_site.log(1)) == (b"to out\n", b"to err\n", b"")


@pytest.mark.parametrize(
    ("argv", "changes", "words"),
    [
        (["nosuchprogram"], {}, "there is no program nosuchprogram on the job's PATH"),
        (["/no/such/program"], {}, "the program /no/such/program does not exist"),
        (["/etc"], {}, "is a directory"),
        (["/etc/passwd"], {}, "is not executable"),
        ([], {}, "the command is empty"),
        (["true"], {"cwd": b"/no/such/folder"}, "the working directory /no/such/folder does not exist"),
        (["true"], {"cwd": b"/etc/passwd"}, "is not a directory"),
        (["true", "x" * 200_000], {}, "larger than the system allows"),
    ],
    ids=lambda value: None,
)
def test_a_command_that_cannot_start_says_why(
    far_site: FarSite, argv: list[str], changes: dict[str, bytes], words: str
) -> None:
    record = far_site.run(1, *argv, **changes)
    assert (record["outcome"], record["code"], record["signal"]) == ("spawn_failed", None, None)
    assert record["error"].startswith("cannot start: ") and words in record["error"]


def test_a_wrapper_that_says_why_it_did_not_start_its_command_was_not_spawned(far_site: FarSite) -> None:
    record = far_site.script(1, """echo 'it is "broken" \\' >"${GRASS_RUN_DIR%/files}/unstarted"; exit 127""")
    assert (record["outcome"], record["code"], record["signal"]) == ("spawn_failed", None, None)
    assert record["error"].startswith("it is ") and "broken" in record["error"]
    record = far_site.script(2, 'echo no >"${GRASS_RUN_DIR%/files}/unstarted"; exit 126')
    assert (record["outcome"], record["code"]) == ("exited", 126), "any other code is that of the command"
    assert far_site.script(3, "exit 127")["code"] == 127


def test_a_script_whose_interpreter_is_missing_says_so(far_site: FarSite) -> None:
    file = far_site.home / "script"
    file.write_text("#!/no/such/interpreter -x\n")
    file.chmod(0o755)
    assert "does not exist" in far_site.run(1, "./script")["error"]
    file.write_text("echo this would run by chance\n")
    assert "has no #! line" in far_site.run(2, "./script")["error"]


def test_a_program_of_the_directory_and_a_python_script_are_found(far_site: FarSite) -> None:
    program = far_site.home / "near"
    program.write_text("#!/bin/sh\necho $0\n")
    program.chmod(0o755)
    assert far_site.run(1, "near")["code"] == 0 and far_site.log(1) == os.fsencode(program) + b"\n"
    (far_site.home / "near.py").write_text("print('python')")
    assert far_site.run(2, "near.py")["code"] == 0 and far_site.log(2) == b"python\n"
    strange = far_site.home / "a=b"
    strange.symlink_to("/bin/true")
    assert far_site.run(3, "./a=b")["code"] == 0


def test_the_result_of_a_job_is_in_its_record(far_site: FarSite) -> None:
    record = far_site.script(1, "echo '{\"loss\": 0.5}' >$GRASS_RESULT_FILE")
    assert record["result"] == '{"loss":0.5}'
    assert "unusable" in far_site.script(2, "echo nonsense >$GRASS_RESULT_FILE")["error"]
    assert "larger than" in far_site.script(3, "head -c 100000 /dev/zero >$GRASS_RESULT_FILE")["error"]


def test_a_second_order_changes_nothing(far_site: FarSite) -> None:
    far_site.script(1, "echo once")
    assert not far_site.start(1, "echo", "twice")
    assert far_site.log(1) == b"once\n"


def test_many_orders_at_once_run_once(far_site: FarSite) -> None:
    ends = [far_site.connect() for _ in range(6)]
    launch = far_site.launch(1, "/bin/sh", "-c", "echo ran; sleep 0.2")
    threads = [threading.Thread(target=far.start, args=((1, 1), launch, None)) for far in ends for _ in range(1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert far_site.ended(1)["code"] == 0
    assert far_site.log(1) == b"ran\n"
    eventually(lambda: not list(far_site.folder(1).glob(".*")), "the losers leave nothing behind")


def test_what_was_given_up_never_starts(far_site: FarSite) -> None:
    boot = far_site.far.greeting.boot
    assert far_site.far.void((1, 1), boot) and not far_site.far.void((1, 1), boot)
    assert not far_site.start(1, "echo", "late")
    found = far_site.far.look((1, 1))
    assert found.void and found.exit is None and not found.command_alive
    far_site.script(2, "true")
    assert not far_site.far.void((2, 1), boot)


def test_a_stopped_command_is_cancelled_with_its_children(far_site: FarSite) -> None:
    far_site.begin(1, "/bin/sh", "-c", "sleep 600 & setsid sleep 600 & echo ready; while :; do sleep 600; done")
    eventually(lambda: far_site.log(1) == b"ready\n", "the command runs")
    far_site.far.stop((1, 1), 5.0)
    record = far_site.ended(1)
    assert (record["outcome"], record["signal"]) == ("cancelled", 15)
    assert far_site.left() == []


def test_a_command_that_ignores_term_is_killed_after_the_grace(far_site: FarSite) -> None:
    far_site.begin(1, "/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
    eventually(lambda: far_site.log(1) == b"ready\n", "the command runs")
    far_site.far.stop((1, 1), 0.3)
    record = far_site.ended(1)
    assert (record["outcome"], record["signal"]) == ("cancelled", 9)
    assert far_site.left() == []


def test_a_stop_before_the_start_cancels(far_site: FarSite) -> None:
    (far_site.folder(1) / "files").mkdir(parents=True)
    far_site.far.stop((1, 1), 5.0)
    record = far_site.run(1, "echo", "late")
    assert (record["outcome"], record["code"], record["signal"]) == ("cancelled", None, None)
    assert far_site.log(1) == b""


def test_what_a_command_leaves_behind_is_ended_unless_it_is_to_be_kept(far_site: FarSite) -> None:
    record = far_site.script(1, "setsid sleep 600 & sleep 600 & exit 3")
    assert record["code"] == 3 and far_site.left() == []
    record = far_site.script(2, "setsid sleep 600 >/dev/null & exit 0", keep_children=True)
    assert record["code"] == 0 and len(far_site.left()) == 1


def test_a_command_outlives_the_connection_that_started_it(far_site: FarSite) -> None:
    found = far_site.begin(1, "sleep", "600")
    far_site.far.close()
    far_site.far = far_site.connect()
    again = far_site.far.look((1, 1))
    assert again.shim_alive and again.command_alive and again.command == found.command
    far_site.far.stop((1, 1), 5.0)
    assert far_site.ended(1)["outcome"] == "cancelled"


def test_a_killed_supervisor_leaves_a_command_that_can_be_seen_and_stopped(far_site: FarSite) -> None:
    found = far_site.begin(1, "sleep", "600")
    assert found.shim is not None and processes.signal_verified(*found.shim, signal.SIGKILL)
    found = far_site.look_until(1, lambda found: not found.shim_alive)
    assert found.command_alive and found.command in found.members and found.exit is None
    far_site.far.stop((1, 1), 5.0)
    found = far_site.look_until(1, lambda found: not found.command_alive)
    assert found.members == [] and found.exit is None


def test_a_killed_command_is_recorded(far_site: FarSite) -> None:
    found = far_site.begin(1, "sleep", "600")
    assert found.command is not None and processes.signal_verified(*found.command, signal.SIGKILL)
    record = far_site.ended(1)
    assert (record["outcome"], record["signal"]) == ("exited", 9)


def test_a_claim_of_another_boot_is_dead_whatever_the_processes_say(far_site: FarSite) -> None:
    far_site.begin(1, "sleep", "600")
    claim = far_site.folder(1) / "started"
    claim.write_text(claim.read_text().replace(far_site.far.greeting.boot, "another-boot"))
    found = far_site.far.look((1, 1))
    assert found.claimed and not found.shim_alive and not found.command_alive and found.members == []


def test_the_run_dir_is_as_this_computer_reads_it(far_site: FarSite) -> None:
    far_site.begin(1, "sleep", "600")
    path = str(far_site.folder(1))
    boot = processes.boot_id()
    here, there = rundir.look(path, boot), far_site.far.look((1, 1))
    assert vars(here) == vars(there)
    far_site.far.stop((1, 1), 5.0)
    far_site.ended(1)
    here = rundir.look(path, boot)
    assert here.exit is not None and here.exit["outcome"] == "cancelled"
    eventually(lambda: not far_site.far.look((1, 1)).shim_alive, "the supervisor has left")
    assert {entry.name for entry in Path(path).iterdir()} == {"spec.json", "started", "stop", "log", "exit", "files"}
    assert all(entry.stat().st_mode & 0o077 == 0 for entry in Path(path).iterdir())


def test_attempts_folders_and_markers_are_listed_newest_first(far_site: FarSite) -> None:
    for job in (2, 10, 9):
        far_site.script(job, "true")
    far_site.far.mark((9, 1), rundir.ACKED)
    far_site.far.mark((2, 1), rundir.UNRECORDED)
    far_site.far.mark((77, 1), rundir.ACKED)
    found = far_site.far.inventory(10)
    assert found == [
        ((10, 1), frozenset()),
        ((9, 1), frozenset({rundir.ACKED})),
        ((2, 1), frozenset({rundir.UNRECORDED})),
    ]
    assert [attempt for attempt, _ in far_site.far.inventory(1)] == [(10, 1)]
    assert far_site.far.folders(10) == [10, 9, 2] and far_site.far.folders(2) == [10, 9]


def test_logs_are_read_in_pieces_and_from_their_end(far_site: FarSite) -> None:
    far_site.script(1, "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); done")
    whole = far_site.folder(1).joinpath("log").read_bytes()
    assert far_site.far.read(1, 1, "log", 0, 1 << 20) == (whole, len(whole))
    assert far_site.far.read(1, 1, "log", 5000, 100) == (whole[5000:5100], len(whole))
    assert far_site.far.read(1, 1, "log", len(whole), 100) == (b"", len(whole))
    assert far_site.far.read(1, 1, "log", 10**9, 100) == (b"", len(whole))
    assert far_site.far.read(9, 1, "log", 0, 100) == (b"", 0)
    assert whole[far_site.far.tail_offset(1, 1, "log", 2) :] == b"line 2998\nline 2999\n"
    assert far_site.far.tail_offset(1, 1, "log", 5000) == 0


def test_changes_are_told_once(far_site: FarSite) -> None:
    far_site.script(1, "true")
    eventually(lambda: ((1, 1), "exited") in far_site.far.changed(), "its end is in the journal")
    assert far_site.far.changed() == []


def test_events_are_told_while_they_happen(far_site: FarSite) -> None:
    events = far_site.far.events()
    try:
        found = far_site.begin(1, "sleep", "600")
        assert found.command is not None
        assert events.read_line(100, 20.0) == b"1 1 started %d" % found.command[0]
        far_site.far.stop((1, 1), 5.0)
        assert events.read_line(100, 20.0) == b"1 1 exited"
    finally:
        events.close()


def test_folders_are_removed_but_never_of_something_that_runs(far_site: FarSite) -> None:
    far_site.begin(1, "sleep", "600")
    far_site.script(2, "true")
    far_site.script(3, "true")
    assert far_site.far.size([1, 2, 3]) > 0
    left = far_site.far.remove([1, 2, 3, 99], [3])
    assert [(each.job, each.why) for each in left] == [(1, "something of it still runs")]
    assert far_site.far.folders(10) == [3, 1]
    assert (far_site.far_home / "jobs/3/checkpoint").is_dir() and not far_site.folder(3).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that root cannot remove")
def test_a_folder_that_cannot_be_removed_is_named_with_the_reason(far_site: FarSite) -> None:
    far_site.script(1, "true")
    far_site.script(2, "true")
    held = far_site.folder(1) / "files/held"
    held.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", held], check=True)
    try:
        (left,) = far_site.far.remove([1, 2], [])
    finally:
        subprocess.run(["umount", held], check=True)
    assert left.job == 1 and "held" in left.why
    assert far_site.far.folders(10) == [1]
    assert far_site.far.remove([1], []) == []


def test_uninstall_deletes_everything_unless_something_runs(far_site: FarSite) -> None:
    far_site.begin(1, "sleep", "600")
    assert far_site.far.uninstall().running == ("1/1",) and far_site.far_home.is_dir()
    far_site.far.stop((1, 1), 5.0)
    far_site.ended(1)
    eventually(lambda: not far_site.far.look((1, 1)).shim_alive, "the supervisor has left")
    assert far_site.far.uninstall() == Uninstalled()
    assert list(far_site.home.iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a folder that root cannot remove")
@pytest.mark.parametrize(("left", "is_open_only"), [(".nfs0000000000a1", True), ("held", False)])
def test_uninstall_tells_open_files_of_nfs_from_what_cannot_be_removed(
    far_site: FarSite, left: str, is_open_only: bool
) -> None:
    far_site.script(1, "true")
    held = far_site.far_home / "bin" / left
    held.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", held], check=True)
    try:
        rest = far_site.far.uninstall()
    finally:
        subprocess.run(["umount", held], check=True)
    assert (rest.running, rest.is_open_only) == ((), is_open_only) and left in rest.why
    assert [each.name for each in far_site.far_home.rglob("*")] == ["bin", left]


def test_a_warm_connection_is_one_session(far_site: FarSite) -> None:
    opened: list[str] = []

    class Counting:
        def open(self, command: str) -> object:
            opened.append(command)
            return far_site.transport.open(command)

    again = FarEnd(Counting(), far_site.far._store, python=False)  # type: ignore[arg-type]
    again.open()
    again.close()
    assert len(opened) == 1


def test_no_two_parts_of_the_script_define_the_same_function() -> None:
    defined = re.findall(r"^([a-z_]+)\(\)", script.text().decode(), re.MULTILINE)
    assert len(defined) == len(set(defined)), sorted(name for name in set(defined) if defined.count(name) > 1)


def test_a_command_that_is_too_large_to_be_sent_is_refused_in_its_record(far_site: FarSite) -> None:
    record = far_site.run(1, "true", *(["x" * 100_000] * 40))
    assert record["outcome"] == "spawn_failed" and "larger than the system allows" in record["error"]


def test_a_journal_that_has_grown_large_is_emptied(far_site: FarSite) -> None:
    journal = far_site.far_home / "journal"
    journal.write_bytes(b"1 1 started 77\n" * 100_000)
    found = []
    while events := far_site.far.changed():
        found += events
    assert len(found) == 100_000 and journal.stat().st_size == 0
    far_site.script(2, "true")
    eventually(lambda: ((2, 1), "exited") in far_site.far.changed(), "later events are told")


def test_an_order_of_an_earlier_connection_starts_nothing(far_site: FarSite) -> None:
    far_site.far.lead()
    later = far_site.connect()
    later.lead()
    with pytest.raises(LinkLost, match="another connection has taken over"):
        far_site.start(1, "true")
    assert not (far_site.far_home / "jobs/1").exists()
    assert later.start((1, 1), far_site.launch(1, "true"), None)


def test_a_late_word_of_an_earlier_connection_ends_the_present_one_which_comes_back(far_site: FarSite) -> None:
    later = far_site.connect()
    later.lead()
    far_site.far.lead()
    launch = far_site.launch(1, "true")
    with pytest.raises(LinkLost):
        later.start((1, 1), launch, None)
    assert later.lost == "another connection has taken over"
    again = far_site.connect()
    again.lead()
    assert again.start((1, 1), launch, None)


def test_a_far_home_belongs_to_one_computer_whatever_its_boot_or_its_name(far_site: FarSite) -> None:
    far_site.far.lead()
    note = far_site.far_home / "computer"
    name, boot = note.read_text().split()
    assert (name, boot) == (os.uname().nodename, far_site.far.greeting.boot)
    for same in (f"{name} earlier-boot", f"earlier-name {boot}"):
        note.write_text(same)
        assert far_site.connect().greeting.other is None
    note.write_text("login1 another-boot")
    with pytest.raises(FarUnusable, match=f"several computers .*, login1 and {name}:"):
        far_site.connect()
    anyway = FarEnd(far_site.transport, STORE, python=far_site.with_python)
    assert anyway.open(on_any=True).other == "login1"
    anyway.close()


def test_a_log_above_its_limit_is_cut_there_and_read_around_the_cut(far_site: FarSite) -> None:
    record = far_site.script(1, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo line $i; done", log_max=64 << 10)
    assert record["code"] == 0
    cut, size = far_site.far.cut(1, 1, "log"), far_site.far.read(1, 1, "log", 0, 0)[1]
    if not far_site.with_python:
        assert cut is None, "the supervisor of sh keeps no limit"
        return
    assert cut is not None and cut.exact
    head, _ = far_site.far.read(1, 1, "log", 0, 1 << 20)
    tail, _ = far_site.far.read(1, 1, "log", cut.end, 1 << 20)
    assert head.startswith(b"line 1\n") and tail.endswith(b"line 20000\n") and len(head) + len(tail) <= 64 << 10
    assert far_site.far.read(1, 1, "log", cut.begin, 100) == (b"", size)
    assert len(head.splitlines()) + cut.lines + len(tail.splitlines()) == 20_000
    assert far_site.far.tail_offset(1, 1, "log", 1) == size - len(b"line 20000\n")
    assert far_site.far.tail_offset(1, 1, "log", 20_000) == 0
