"""Machine files of ml-scheduler: found where it looks for them, and each mistake is one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grassq.cli.inputs import machine_file
from grassq.errors import BadInput

GOOD = "username: ann\nip: gpu.example\nport: 2222\nssh_key_path: ~/key\n"


@pytest.fixture(autouse=True)
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a key, in a current directory of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "key").write_text("secret")
    (tmp_path / "key").chmod(0o600)
    (tmp_path / ".local/var").mkdir(parents=True)
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    return tmp_path


def test_a_file_says_the_way_to_a_machine(user: Path) -> None:
    Path("m.yaml").write_text(GOOD)
    assert machine_file.read("m.yaml") == ("m.yaml", "ann", "gpu.example", 2222, str(user / "key"))


def test_the_word_is_looked_for_in_the_order_of_ml_scheduler(user: Path) -> None:
    places = [Path("m"), Path("m.yaml"), user / ".local/var/m", user / ".local/var/m.yaml"]
    for place in places:
        place.write_text(GOOD)
    for place in places:
        assert machine_file.find("m") == str(place)
        place.unlink()


def test_a_word_that_no_file_has_names_both_places(user: Path) -> None:
    with pytest.raises(BadInput, match=r"no machine file m or m\.yaml, neither here nor in .*/\.local/var$"):
        machine_file.find("m")
    with pytest.raises(BadInput, match=r"no machine file m\.yaml, neither here nor in .*/\.local/var$"):
        machine_file.find("m.yaml")


@pytest.mark.parametrize("word", ["", ".", "..", "/", "/nowhere/m", "a\nb"])
def test_an_odd_word_is_not_found(word: str) -> None:
    with pytest.raises(BadInput):
        machine_file.find(word)


@pytest.mark.parametrize(
    ("content", "mistake"),
    [
        ("", "does not describe a machine"),
        ("- a\n", "does not describe a machine"),
        ("username: [\n", "line 2 is not YAML"),
        ("a: *b\n", "line 1 is not YAML"),
        ("\x00", "is not YAML"),
        ("[" * 30000, "is not YAML"),
        ("date: 2024-99-99\n", "is not YAML"),
        ("!!python/object/apply:os.system ['touch owned']", "line 1 is not YAML"),
        ("#" * 70000, "larger than 64 KiB"),
        (GOOD.replace("username: ann", ""), "username is missing"),
        (GOOD.replace("ip: gpu.example", "ip:"), "ip is missing"),
        (GOOD.replace("port: 2222\n", ""), "port is missing"),
        (GOOD.replace("ssh_key_path: ~/key", ""), "ssh_key_path is missing"),
        (GOOD.replace("ann", "17"), "username is 17, not text; put it into quotes"),
        (GOOD.replace("ann", "[a, b]"), "username is a list, not text"),
        (GOOD.replace("ann", '"a\\nb"'), "username is 'a\\\\nb', not a word"),
        (GOOD.replace("gpu.example", "10.1"), "ip is 10.1, not text"),
        (
            GOOD.replace("gpu.example", "-oProxyCommand=x"),
            "ip '-oProxyCommand=x' begins with '-': ssh would read it as an",
        ),
        (GOOD.replace("gpu.example", "gpu example"), "ip 'gpu example' has characters that ssh refuses"),
        (GOOD.replace("gpu.example", "gpu:1"), "ip 'gpu:1' has a colon and is not an IPv6 address"),
        (GOOD.replace("gpu.example", "a" * 254), "ip is longer than 253 characters"),
        (GOOD.replace("gpu.example", '"gpu\\x1b"'), "not a word"),
        (GOOD.replace("ann", "-l"), "username '-l' begins with '-'"),
        (GOOD.replace("ann", "ann smith"), "username 'ann smith' has characters that ssh refuses"),
        (GOOD.replace("2222", "ssh"), "port is 'ssh'; it is a number from 1 to 65535"),
        (GOOD.replace("2222", "0"), "port is 0;"),
        (GOOD.replace("2222", "65536"), "port is 65536;"),
        (GOOD.replace("2222", "yes"), "port is True;"),
        (GOOD.replace("2222", "22.0"), "port is 22.0;"),
        (GOOD.replace("~/key", "~/absent"), "ssh_key_path ~/absent cannot be read: No such file"),
        (GOOD.replace("~/key", "~/"), "ssh_key_path ~/ is not a file"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file(content: str, mistake: str) -> None:
    Path("m.yaml").write_text(content)
    with pytest.raises(BadInput, match=mistake) as raised:
        machine_file.read("m.yaml")
    assert str(raised.value).startswith("m.yaml")
    assert "\n" not in str(raised.value)
    assert not Path("owned").exists()


def test_a_port_in_quotes_is_a_port() -> None:
    Path("m.yaml").write_text(GOOD.replace("2222", '"2222"'))
    assert machine_file.read("m.yaml").port == 2222


def test_a_key_that_others_may_read_is_refused_as_ssh_refuses_it(user: Path) -> None:
    (user / "key").chmod(0o640)
    Path("m.yaml").write_text(GOOD)
    with pytest.raises(BadInput, match="others may read the key ~/key, so ssh does not use it; `chmod 600 ~/key`"):
        machine_file.read("m.yaml")


def test_a_file_that_cannot_be_read_says_why() -> None:
    with pytest.raises(BadInput, match=r"m\.yaml cannot be read: No such file"):
        machine_file.read("m.yaml")
    Path("d.yaml").mkdir()
    with pytest.raises(BadInput, match="cannot be read: Is a directory"):
        machine_file.read("d.yaml")


def test_a_fifo_is_no_machine_file() -> None:
    os.mkfifo("pipe.yaml")
    with pytest.raises(BadInput, match="no machine file"):
        machine_file.find("pipe")


@pytest.mark.parametrize(
    ("word", "is_file"),
    [("m.yaml", True), ("m.yml", True), ("lab/m", True), ("ann@m", False), ("gpu1", False), ("ssh://ann@m:22", False)],
)
def test_a_word_that_looks_like_a_file_is_meant_as_one(word: str, is_file: bool) -> None:
    assert machine_file.is_file_word(word) is is_file
