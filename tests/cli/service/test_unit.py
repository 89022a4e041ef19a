"""What a service starts, as systemd and cron read it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.service.fake_systemctl import read

from grassq.cli.service.unit import UNSTARTABLE, Starter, cron_line, cron_mark, python_of, unit_text

PRINTABLE = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20).map("/{}".format)


def starter(python: str = "/usr/bin/python3", home: str = "/home/ann/.local/state/grass") -> Starter:
    return Starter(python, home, None, is_usual=True)


@given(PRINTABLE, PRINTABLE)
def test_any_path_comes_back_from_the_unit_and_from_the_crontab(python: str, home: str) -> None:
    unit = unit_text(starter(python, home))
    assert python_of(unit) == python
    [line] = [line for line in unit.splitlines() if line.startswith("Environment=")]
    assert read(line.removeprefix('Environment="').removesuffix('"')) == f"GRASS_HOME={home}"
    typed, mark = cron_line(starter(python, home)), cron_mark(starter(python, home))
    assert "%" not in typed.replace(r"\%", "") and typed.endswith(mark)
    words = shlex.split(typed.removeprefix("@reboot ").removesuffix(mark).replace(r"\%", "%"))
    assert words[:2] == [f"GRASS_HOME={home}", python] and words[2:6] == ["-P", "-m", "grassq", "start"]


def test_each_home_has_a_unit_of_its_own() -> None:
    usual, one, other = (
        starter(),
        starter(home="/a")._replace(is_usual=False),
        starter(home="/b")._replace(is_usual=False),
    )
    assert usual.unit == "grass.service"
    assert len({usual.unit, one.unit, other.unit}) == 3 == len({cron_mark(each) for each in (usual, one, other)})


@pytest.mark.parametrize("folder", ["plain", "a b", "50% $HOME", "quo\"te's", "back\\slash", "größe"])
def test_systemd_reads_the_unit_without_a_complaint(tmp_path: Path, folder: str) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    python = tmp_path / ("plain" if UNSTARTABLE & {*folder} else folder) / "python"
    python.parent.mkdir()
    python.symlink_to("/bin/true")
    unit = tmp_path / "grass.service"
    unit.write_text(unit_text(starter(str(python), str(tmp_path / folder))))
    done = subprocess.run(
        ["systemd-analyze", "--user", "verify", "--man=no", str(unit)],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
