"""What `grass daemon` is told, and what it tells the daemon."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict
from tests.cli.fake_broker import let_in

from grassq import daemon
from grassq.cli.main import main
from grassq.core.syntax.addresses import Address


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the daemon was called with."""
    heard: dict[str, Any] = {}

    def run(home: str, mode: daemon.SavedMode, **others: object) -> int:
        heard.update(asdict(mode), home=home, **others)
        return 0

    monkeypatch.setattr(daemon, "run", run)
    return heard


def test_a_plain_daemon_is_told_nothing_of_other_machines(home: Path, told: dict[str, Any]) -> None:
    assert main(["daemon"]) == 0
    assert told == {
        "home": str(home), "capacity": None, "store": None, "bind": None, "connect": None, "no_worker": False,
        "no_broker": False, "cert": None, "cert_pass": None, "labels": (), "name": None, "ready_fd": None,
        "own_key": False, "saved": False,
    }  # fmt: skip


def test_the_readmes_broker_line(
    home: Path, told: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["daemon", "--bind", "0.0.0.0:7500", "--no-worker", "--cert", "my_cert.p12"]) == 0
    assert (told["bind"], told["no_worker"], told["cert"]) == ("0.0.0.0:7500", True, str(tmp_path / "my_cert.p12"))


def test_the_readmes_worker_line(home: Path, told: dict[str, Any]) -> None:
    assert main(["daemon", "--no-broker", "--connect", "my.server.com:7500", "--label", "a", "--label", "b"]) == 0
    assert (told["connect"], told["labels"], told["no_broker"]) == ("my.server.com:7500", ("a", "b"), True)


def test_several_brokers_may_be_named_and_ports_left_out(home: Path, told: dict[str, Any]) -> None:
    assert main(["daemon", "--no-broker", "--connect", "one,[::1]:7", "--name", "box"]) == 0
    assert (told["connect"], told["name"]) == ("one:7500,[::1]:7", "box")


def test_the_one_broker_that_was_joined_need_not_be_named(
    home: Path, told: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["daemon", "--no-broker"]) == 2
    assert "grass join" in capfd.readouterr().err
    let_in(home, b"x" * 32, Address("one"), Address("alias"), worker="w.s")
    let_in(home, b"y" * 32, Address("not-joined"))
    assert main(["daemon", "--no-broker"]) == 0
    assert told["connect"] == "one:7500,alias:7500"
    let_in(home, b"z" * 32, Address("two"), worker="w.s")
    assert main(["daemon", "--no-broker"]) == 2
    assert "one:7500, two:7500" in capfd.readouterr().err


def test_machines_over_ssh_are_workers_enough(
    home: Path, told: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["daemon", "--no-worker"]) == 2
    err = capfd.readouterr().err
    assert "--bind ADDRESS" in err and "`grass machine add`" in err and told == {}
    home.mkdir(exist_ok=True)
    (home / "machines.json").write_text('[{"name": "alpha", "target": {"host": "alpha"}}]')
    assert main(["daemon", "--no-worker"]) == 0
    assert (told["bind"], told["no_worker"]) == (None, True)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--bind", "0.0.0.0:7500", "--no-broker"], "--bind"),
        (["--connect", "a"], "--no-broker"),
        (["--connect", "a b", "--no-broker"], "--connect"),
        (["--connect", "a", "--no-worker"], "--no-worker"),
        (["--no-broker", "--no-worker"], "nothing to run"),
        (["--cert", "x.p12"], "--bind"),
        (["--no-broker", "--connect", "a", "--store", "sqlite:x"], "--store"),
        (["--bind", "a", "--cert-pass", "x"], "--cert"),
        (["--bind", "a", "--cert-pass-file", "x"], "--cert"),
        (["--bind", "a", "--cert", "x", "--cert-pass", "y", "--cert-pass-file", "z"], "not both"),
        (["--bind", "a", "--cert", "x", "--cert-pass-file", "/nowhere/z"], "/nowhere/z"),
        (["--store", "oracle"], "--store"),
    ],
)
def test_what_makes_no_sense_together_is_exit_2(
    home: Path, told: dict[str, Any], words: list[str], names: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["daemon", *words]) == 2
    err = capfd.readouterr().err
    assert (names in err, err.count("\n")) == (True, 1)
    assert told == {}


def test_the_password_comes_from_an_option_a_file_or_the_environment(
    home: Path, told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    words = ["daemon", "--bind", "a", "--cert", "x"]
    monkeypatch.setenv("GRASS_CERT_PASS", "of the environment")
    assert main(words) == 0
    assert told["cert_pass"] == "of the environment"
    assert "GRASS_CERT_PASS" not in os.environ, "jobs and helpers must not inherit it"
    monkeypatch.setenv("GRASS_CERT_PASS", "of the environment")
    assert main([*words, "--cert-pass", ""]) == 0
    assert told["cert_pass"] == ""
    (tmp_path / "pass").write_text(" in a file \nsecond line\n")
    assert main([*words, "--cert-pass-file", str(tmp_path / "pass")]) == 0
    assert told["cert_pass"] == " in a file "


@pytest.mark.parametrize("url", ["postgresql://grass:secret@db.server.com/grass", "postgres://db/grass", "memory"])
def test_stores_of_other_kinds_are_passed_on(home: Path, told: dict[str, Any], url: str) -> None:
    assert main(["daemon", "--store", url]) == 0
    assert told["store"] == url


def test_a_path_is_made_absolute_for_a_daemon_that_stands_elsewhere(
    home: Path, told: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["daemon", "--store", "sqlite:a.db"]) == 0
    assert told["store"] == f"sqlite:{tmp_path}/a.db"


def test_a_store_is_copied_and_its_password_not_shown(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    copied: list[tuple[str, str]] = []

    def copy(source: str, target: str, progress: Callable[[int, int], None]) -> int:
        progress(1, 2)
        copied.append((source, target))
        return 2

    monkeypatch.setattr(daemon, "copy_store", copy)
    monkeypatch.chdir(tmp_path)
    assert main(["store", "copy", "sqlite:a.db", "postgresql://me:secret@db/x"]) == 0
    assert copied == [(f"sqlite:{tmp_path}/a.db", "postgresql://me:secret@db/x")]
    out, err = capfd.readouterr()
    assert out == "copied 2 jobs; `grass daemon --store postgresql://me:***@db/x` serves them\n"
    assert "secret" not in out + err
