"""`grass machine`: what is typed reaches the daemon, what is wrong is one line, and words from afar stay harmless."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli import calls
from tests.cli.fake import Answer, FakeDaemon, Request, document, stream

from grassq.cli.main import main

Grass = Callable[..., calls.Done]
HOSTILE = "\x1b[2Jowned\x07\u202e\nline"
ROW = {
    "name": "gpu1",
    "host": "ann@gpu1.example",
    "state": "connected",
    "why": "",
    "boot": "5c1f0c52-6f0c-4b6f-a3c8-000000000000",
    "runs": "/usr/bin/python3",
    "jobs": 2,
    "labels": ["a100", "eu"],
    "offers": "cpu 64, mem 512000, gpu 8",
}


class Machines:
    """A daemon that keeps machines: it notes each request, and answers what the test says."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []
        self.rows: list[dict[str, object]] = [ROW]
        self.added: list[dict[str, object]] = [
            {"name": "gpu1", "status": "added", "found": ["16 cpu, 64G mem"], "ask": []}
        ]
        self.steps: list[dict[str, object]] = [
            {"step": "login", "ok": True, "words": "as ann"},
            {"step": "clock", "ok": None, "words": "2 s behind"},
            {"ended": True, "failed": 0},
        ]
        self.left: list[str] = []
        self.argv: list[str] = []
        self.error: tuple[int, str] | None = None

    def __call__(self, request: Request) -> Answer:
        self.asked.append((request.target, request.document if request.body else None))
        if self.error is not None:
            code, words = self.error
            return document({"error": {"exit": code, "message": words}}, status=409)
        match request.target.partition("?")[0]:
            case "/v1/machines":
                return document({"machines": self.rows})
            case "/v1/machines/add":
                return document(self.added.pop(0))
            case "/v1/machines/remove":
                return document({"name": "gpu1", "left": self.left})
            case "/v1/machines/retry":
                return document({"name": "gpu1"})
            case "/v1/machines/gpu1/about":
                return document({"argv": self.argv})
            case "/v1/machines/gpu1/test":
                return stream(b"".join(json.dumps(line).encode() + b"\n" for line in self.steps))
        return document({"error": {"exit": 3, "message": "not found"}}, status=404)


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.fixture
def daemon(home: Path, machines: Machines, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    with FakeDaemon(home, machines) as daemon:
        yield daemon


def added(machines: Machines, *words: str) -> dict[str, Any]:
    """What the daemon is told by `grass machine add WORDS`."""
    assert main(["machine", "add", *words]) == 0
    told = dict(machines.asked[-1][1])
    del told["key"]
    return told


def test_a_name_alone_is_a_host_of_the_ssh_configuration(daemon: FakeDaemon, machines: Machines) -> None:
    assert added(machines, "gpu1") == {"name": "gpu1", "target": "gpu1", "labels": []}


def test_a_file_that_is_called_like_a_host_does_not_hide_it(
    daemon: FakeDaemon, machines: Machines, tmp_path: Path
) -> None:
    (tmp_path / "gpu1").touch()
    assert added(machines, "gpu1")["target"] == "gpu1"


def test_every_option_reaches_the_daemon(daemon: FakeDaemon, machines: Machines, tmp_path: Path) -> None:
    (tmp_path / "id").touch()
    words = "gpu1 ann@host --label a100 --label eu --port 2222 --key ~/id --dir /scratch --no-python --accept-key"
    assert added(machines, *words.split(), "--capacity", "{gpu: 1}") == {
        "name": "gpu1",
        "target": "ann@host",
        "labels": ["a100", "eu"],
        "port": 2222,
        "identity": str(tmp_path / "id"),
        "dir": "/scratch",
        "no_python": True,
        "accept_key": True,
        "capacity": "{gpu: 1}",
    }


def test_the_agent_of_the_caller_travels_with_the_machine(
    daemon: FakeDaemon, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/run/user/1000/agent")
    assert added(machines, "gpu1")["agent"] == "/run/user/1000/agent"
    assert main(["machine", "test", "gpu1"]) == 0
    assert machines.asked[-1][0] == "/v1/machines/gpu1/test?agent=%2Frun%2Fuser%2F1000%2Fagent"
    assert main(["machine", "retry", "gpu1"]) == 0
    assert machines.asked[-1][1]["agent"] == "/run/user/1000/agent"
    monkeypatch.setenv("SSH_AUTH_SOCK", "relative")
    machines.added.append({"status": "unchanged"})
    assert "agent" not in added(machines, "gpu1")


@pytest.mark.parametrize("word", ["gpu.yaml", "~/gpu.yaml", "stored.yaml"])
def test_a_machine_file_says_the_way(daemon: FakeDaemon, machines: Machines, tmp_path: Path, word: str) -> None:
    (tmp_path / "id").touch(mode=0o600)
    content = "username: ann\nip: '::1'\nport: 2222\nssh_key_path: ~/id\n"
    (tmp_path / "gpu.yaml").write_text(content)
    (tmp_path / ".local/var").mkdir(parents=True)
    (tmp_path / ".local/var/stored.yaml").write_text(content)
    told = added(machines, "gpu1", word)
    assert (told["target"], told["port"], told["identity"]) == ("ann@[::1]", 2222, str(tmp_path / "id"))


def test_what_was_found_there_is_said(
    daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    machines.added.append({"status": "unchanged", "found": [HOSTILE]})
    assert main(["machine", "add", "gpu1"]) == 0
    assert capfd.readouterr().out == "added machine gpu1\n  16 cpu, 64G mem\n"
    assert main(["machine", "add", "gpu1"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("machine gpu1 is unchanged\n")
    assert "\x1b" not in out and out.count("\n") == 2


def test_a_failed_login_is_one_line_and_its_exit_code(
    daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    machines.error = (4, "ann@host refuses the login: Permission denied (publickey)")
    assert main(["machine", "add", "gpu1", "ann@host"]) == 4
    assert capfd.readouterr() == ("", "grass: ann@host refuses the login: Permission denied (publickey)\n")


UNKNOWN: dict[str, object] = {"status": "unknown_key", "found": ["the host key of host is not known"], "ask": ["false"]}


def test_a_script_is_not_asked_about_a_key(daemon: FakeDaemon, machines: Machines, home: Path, grass: Grass) -> None:
    machines.added = [UNKNOWN]
    done = grass("machine", "add", "gpu1")
    assert done.returncode == 5
    assert done.stderr == "grass: the host key of host is not known; nothing was added\n"
    assert len(machines.asked) == 1


def test_on_a_terminal_ssh_itself_asks_about_a_key(
    daemon: FakeDaemon, machines: Machines, home: Path, tmp_path: Path
) -> None:
    asks = tmp_path / "ssh"
    asks.write_text(f"#!/bin/sh\nprintf '%s ' \"$@\" >{tmp_path}/asked\nprintf 'continue (yes/no)? '\n")
    asks.chmod(0o755)
    machines.added.insert(0, {**UNKNOWN, "ask": [str(asks), "-t", "--", "host"]})
    drawn = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "machine", "add", "gpu1")
    assert b"(yes/no)? " in drawn and b"added machine gpu1" in drawn
    assert (tmp_path / "asked").read_text() == "-t -- host true "
    assert len(machines.asked) == 2


def test_a_key_that_the_user_does_not_accept_adds_nothing(daemon: FakeDaemon, machines: Machines, home: Path) -> None:
    machines.added = [UNKNOWN, UNKNOWN]
    drawn = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "machine", "add", "gpu1")
    assert b"nothing was added" in drawn


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("add", "name the machine: grass machine add NAME"),
        ("add -oProxyCommand=x", "there is no option '-oProxyCommand=x' of `grass machine add`; options of ssh belong"),
        ("add a --lable x", "there is no option '--lable' of `grass machine add`; did you mean '--label'?"),
        ("add a b c", "`grass machine add` takes no word 'c'; see `grass machine --help`"),
        ("add ann@host", "a machine needs a name first: grass machine add NAME ann@host"),
        ("add m.yaml", "a machine needs a name first: grass machine add NAME m.yaml"),
        ("add a m.yaml", "there is no machine file m.yaml"),
        ("add a m.yaml --port 22", "m.yaml says the port and the key"),
        ("add a --port 0", "argument --port: '0' is not a port from 1 to 65535"),
        ("add a --port 99999999999999999999", "argument --port: '99999999999999999999' is not a port"),
        ("add a --port", "argument --port: expected one argument"),
        ("add a --key nope", "--key nope: there is no such file"),
        ("list gpu1", "`grass machine list` takes no word 'gpu1'"),
        ("test", "name the machine: grass machine test NAME"),
        ("remove", "name the machine: grass machine remove NAME"),
        ("shell", "name the machine first: grass machine shell NAME [COMMAND...]"),
        ("shell -v gpu1", "name the machine first"),
        ("rm gpu1", "there is no `grass machine rm`; did you mean: grass machine remove gpu1"),
        ("ssh gpu1", "there is no `grass machine ssh`; did you mean: grass machine shell gpu1"),
        ("tets gpu1", "there is no `grass machine tets`; did you mean: grass machine test gpu1"),
        ("fly", "there is no `grass machine fly`; it is add, list, test, retry, remove, shell, upgrade"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_asked(
    words: str, said: str, daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["machine", *words.split()]) == 2
    out, err = capfd.readouterr()
    assert out == "" and err.startswith(f"grass: {said}") and err.count("\n") == 1
    assert machines.asked == []


@pytest.mark.parametrize("words", ["host add gpu1", "node", "worker list", "ssh gpu1"])
def test_a_word_of_another_tool_is_answered_with_ours(words: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 2
    rest = words.partition(" ")[2]
    assert capfd.readouterr().err.endswith(f"to use a machine over ssh: grass machine {rest}".rstrip() + "\n")


@pytest.mark.parametrize("words", [["machines"], ["machine"], ["machine", "list"]])
def test_machines_are_listed(words: list[str], daemon: FakeDaemon, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    head, row = capfd.readouterr().out.splitlines()
    assert head.split() == ["NAME", "HOST", "STATE", "JOBS", "RUNS", "HAS", "LABELS"]
    assert row.split()[:5] == ["gpu1", "ann@gpu1.example", "connected", "2", "python3"]
    assert row.endswith("a100,eu")


def test_a_machine_in_trouble_says_why_below_the_table(
    daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    machines.rows = [{**ROW, "state": "needs you", "why": f"Permission denied {HOSTILE}", "runs": None, "jobs": None}]
    assert main(["machine", "list"]) == 0
    out = capfd.readouterr().out
    assert out.splitlines()[1].split()[4] == "?", "nobody knows how many jobs run there"
    assert out.splitlines()[2].startswith("gpu1: Permission denied")
    assert "\x1b" not in out and "\u202e" not in out and out.count("\n") == 3


def test_the_list_fits_a_terminal_of_80_columns(daemon: FakeDaemon, machines: Machines, home: Path) -> None:
    name = "m-192.168.100.200-0123abcd"
    machines.rows = [{**ROW, "name": name, "host": "ann@" + "x" * 60, "labels": ["l" * 30] * 3}]
    drawn = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "machine", COLUMNS="80", NO_COLOR="1").decode()
    assert all(len(line) <= 80 for line in drawn.splitlines())
    assert f"{name} " in drawn, "people type it"


def test_the_list_as_data_has_everything(daemon: FakeDaemon, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", "list", "--json"]) == 0
    assert json.loads(capfd.readouterr().out) == {"machines": [ROW]}


def test_no_machines_says_how_to_add_one(
    daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    machines.rows = []
    assert main(["machine"]) == 0
    assert capfd.readouterr().out == "no machines; `grass machine add NAME user@host` adds one\n"


def test_a_test_prints_each_step(daemon: FakeDaemon, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", "test", "gpu1"]) == 0
    assert capfd.readouterr().out == "ok   login: as ann\n     clock: 2 s behind\n"


def test_a_step_that_fails_is_exit_code_1(
    daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    machines.steps.insert(1, {"step": f"space{HOSTILE}", "ok": False, "words": HOSTILE})
    assert main(["machine", "test", "gpu1"]) == 1
    out = capfd.readouterr().out
    assert "fail space" in out and "\x1b" not in out and out.count("\n") == 3
    assert main(["machine", "test", "gpu1", "--json"]) == 1
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [line["ok"] for line in lines] == [True, False, None]


def test_a_test_that_breaks_off_is_an_error(
    daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    machines.steps[-1] = {"error": {"exit": 5, "message": f"the connection ended {HOSTILE}"}}
    assert main(["machine", "test", "gpu1"]) == 5
    assert capfd.readouterr().err.startswith("grass: the connection ended")
    machines.steps.pop()
    assert main(["machine", "test", "gpu1"]) == 4
    assert "the daemon ended before the test did" in capfd.readouterr().err


@pytest.mark.parametrize("step", [{"error": "text"}, {}, {"step": ["x"], "ok": ["yes"], "words": 7}])
def test_a_step_of_another_shape_is_no_traceback(
    step: dict[str, object], daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]
) -> None:
    machines.steps.insert(0, step)
    assert main(["machine", "test", "gpu1"]) == 0


def test_remove_says_what_is_left(daemon: FakeDaemon, machines: Machines, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["machine", "remove", "gpu1"]) == 0
    assert capfd.readouterr().out == "removed machine gpu1; nothing is left there\n"
    assert "force" not in machines.asked[-1][1]
    machines.left = [".grass-ssh: it does not answer"]
    assert main(["machine", "remove", "--force", "gpu1"]) == 0
    assert capfd.readouterr() == ("removed machine gpu1\n", "grass: left there: .grass-ssh: it does not answer\n")
    assert machines.asked[-1][1]["force"] is True


def test_a_shell_is_the_users_own_ssh_with_the_words_as_typed(
    daemon: FakeDaemon, machines: Machines, grass: Grass, home: Path, tmp_path: Path
) -> None:
    fake = tmp_path / "ssh"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 7\n')
    fake.chmod(0o755)
    machines.argv = [str(fake), "-t", "-p", "22", "--", "host"]
    done = grass("machine", "shell", "gpu1", "ls", "-la", "--help")
    assert (done.returncode, done.stdout.split()) == (7, ["-p", "22", "--", "host", "ls", "-la", "--help"])
    drawn = calls.on_terminal(home, calls.ROOT / "bin" / "grass", "machine", "shell", "gpu1", "--", "htop")
    assert drawn.split() == b"-t -p 22 -- host htop".split()


def test_a_missing_ssh_is_one_line(daemon: FakeDaemon, machines: Machines, grass: Grass) -> None:
    machines.argv = ["/nowhere/ssh", "host"]
    done = grass("machine", "shell", "gpu1")
    assert (done.returncode, done.stderr) == (
        5,
        "grass: /nowhere/ssh cannot be run: No such file or directory; the setting `ssh` names the program\n",
    )


def test_commands_that_go_to_a_broker_say_where_machines_are_kept(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRASS_BROKER", "lab.example:7001")
    assert main(["machine", "list"]) == 5
    assert capfd.readouterr().err == (
        "grass: machines are kept on the machine of the broker, with the keys there: lab.example:7001 (GRASS_BROKER);"
        " for this machine's own queue add `--broker local`\n"
    )
    with FakeDaemon(home, Machines()):
        assert main(["machine", "list", "--broker", "local"]) == 0


@pytest.mark.parametrize("words", [["machine", "--help"], ["machine", "add", "--help"], ["help", "machine"]])
def test_help_names_every_action(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 0
    out = capfd.readouterr().out
    assert all(f"  {action} " in out for action in ("add", "list", "test", "retry", "remove", "shell", "upgrade"))
