"""`grass config`: what is set, where, and what a running daemon has not read yet."""

from __future__ import annotations

from typing import Any

from tests.e2e.world import Grass


def described(grass: Grass) -> dict[str, Any]:
    return {each["name"]: each for each in grass.json("config", "show")["settings"]}


def test_settings_are_listed_with_their_origin_and_what_a_restart_changes(grass: Grass) -> None:
    grass.home.mkdir(mode=0o700)
    file = grass.home / "grass.toml"
    assert grass.ok("config", "path") == f"{file}\n"
    file.write_text('patience_s = 60\n[[notify]]\non = ["failed"]\nto = "https://hook.example/s3cr3t"\n')
    assert not grass.json("config")["daemon_runs"], "no daemon is started to tell settings"
    grass.ok("start")
    found = described(grass)
    assert found["patience_s"] == {
        "name": "patience_s", "value": 60.0, "default": 600.0, "origin": {"kind": "file", "where": f"{file}:1"},
        "running": None, "running_origin": None, "restart": False,
    }  # fmt: skip
    assert found["capacity"]["origin"] == {"kind": "environment", "where": "GRASS_CAPACITY"}
    assert not any(each["restart"] for each in found.values())
    file.write_text("patience_s = 90\n")
    done = grass("config", "show", "--origin")
    assert "s3cr3t" not in done.out + done.err
    assert f"{file}:1" in done.out and "environment GRASS_CAPACITY" in done.out
    assert f"patience_s: the daemon still uses 60 ({file}:1); `grass restart` to apply\n" in done.err
    assert "notify: the daemon still uses failed -> https://hook.example/..." in done.err
    grass.ok("restart")
    assert described(grass)["patience_s"]["restart"] is False


def test_the_password_of_a_store_is_not_shown(grass: Grass) -> None:
    env = {"GRASS_STORE": "postgresql://me:s3cr3t@box/jobs?password=s3cr3t"}
    for words in (("config",), ("config", "--json"), ("config", "show", "--origin")):
        done = grass(*words, env=env)
        assert done.code == 0 and "s3cr3t" not in done.out + done.err and "postgresql://me:***@box/jobs" in done.out


def test_mistakes_are_one_line(grass: Grass) -> None:
    assert "there are `config show` and `config path`" in grass.refuses(2, "config", "list")
    grass.home.mkdir(mode=0o700)
    (grass.home / "grass.toml").write_text("patinece_s = 3\n")
    for words in (("config", "show"), ("start",), ("enqueue", "true")):
        assert "did you mean patience_s?" in grass.refuses(2, *words)
    (grass.home / "grass.toml").unlink()
