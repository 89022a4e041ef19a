"""`grass install-service` and what `doctor` says of it, with stand-ins for systemd and cron."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli import calls
from tests.cli.calls import Done
from tests.cli.fake import FakeDaemon, Request, document
from tests.cli.service.system_tools import SystemTools

PID = 4242
Call = Callable[..., Done]


@pytest.fixture
def system(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SystemTools:
    tools = SystemTools(tmp_path / "system")
    for name, value in tools.env.items():
        monkeypatch.setenv(name, value)
    return tools


def answered(request: Request) -> bytes:
    return document({"pid": PID, "python": sys.executable, "version": "0", "store": "x"})


def reboot(grass: Call) -> dict[str, str]:
    """The finding of doctor."""
    checks = json.loads(grass("doctor", "--json").stdout)["checks"]
    [found] = [check for check in checks if check["check"] == "reboot"]
    return {str(name): str(value) for name, value in found.items()}


def test_a_dry_run_prints_the_unit_and_the_calls_and_does_nothing(system: SystemTools, grass: Call) -> None:
    done = grass("install-service", "--dry-run")
    assert done.returncode == 0
    for part in ("KillMode=process", "WantedBy=default.target", "systemctl --user enable", sys.executable):
        assert part in done.stdout
    assert not system.config.exists() and system.calls() == ["show-environment"]
    assert "no service" in grass("install-service", "--remove", "--dry-run").stdout


def test_without_lingering_the_one_command_is_told(system: SystemTools, grass: Call) -> None:
    system.lingers(False)
    assert "loginctl enable-linger" in grass("install-service", "--dry-run").stdout


def test_where_nothing_starts_programs_one_line_says_so(system: SystemTools, grass: Call) -> None:
    system.without_systemd()
    system.without_crontab()
    for words in (("install-service",), ("install-service", "--dry-run")):
        done = grass(*words)
        assert done.returncode == 5 and done.stderr.count("\n") == 1 and "grass" in done.stderr
    found = reboot(grass)
    assert found["status"] == "warn" and found["advice"]


def test_the_line_of_cron_comes_and_goes_and_other_lines_stay(system: SystemTools, home: Path, grass: Call) -> None:
    system.without_systemd()
    others = b"# \xff mine\n@daily true 50\\%\n@reboot /usr/bin/grass start # mine too"
    system.crontab.write_bytes(others)
    with FakeDaemon(home, answered):
        done = grass("install-service")
        assert done.returncode == 0, done.stderr
        first = system.crontab.read_bytes()
        again = grass("install-service", "--json")
        assert json.loads(again.stdout)["changed"] is False and system.crontab.read_bytes() == first
        assert first.startswith(others + b"\n@reboot ") and first.count(b"\n") == 4
        assert f"GRASS_HOME={home}".encode() in first and sys.executable.encode() in first
        assert reboot(grass)["found"].startswith("your crontab starts the daemon")
        assert grass("install-service", "--remove").returncode == 0
        assert system.crontab.read_bytes() == others + b"\n"
        assert "no service is installed" in grass("install-service", "--remove").stdout


def test_a_crontab_with_our_line_alone_is_removed(system: SystemTools, home: Path, grass: Call) -> None:
    system.without_systemd()
    with FakeDaemon(home, answered):
        grass("install-service")
        assert system.crontab.exists()
        grass("install-service", "--remove")
        assert not system.crontab.exists()


def test_doctor_tells_why_the_queue_would_not_go_on(system: SystemTools, home: Path, grass: Call) -> None:
    assert "nothing starts the daemon" in reboot(grass)["found"]
    from grassq.cli.service.unit import Starter, unit_text

    ours = Starter(sys.executable, str(home), str(calls.ROOT / "src"), is_usual=False)
    place = system.config / "systemd" / "user" / ours.unit
    place.parent.mkdir(parents=True)
    for text, said in (
        (unit_text(ours._replace(python="/gone/bin/python")), "which is gone"),
        (unit_text(ours._replace(python="/bin/true")), "another Python"),
        (unit_text(ours._replace(home="/elsewhere")), "not as this version writes it"),
        (unit_text(ours), "is not enabled"),
    ):
        place.write_text(text)
        found = reboot(grass)
        assert found["status"] == "warn" and said in found["found"] and found["advice"], found
    (place.parent / "default.target.wants").mkdir()
    (place.parent / "default.target.wants" / ours.unit).symlink_to(place)
    assert reboot(grass)["status"] == "ok"
    system.lingers(False)
    assert "loginctl enable-linger" in reboot(grass)["advice"]
    system.without_systemd()
    assert "no systemd" in reboot(grass)["found"]
