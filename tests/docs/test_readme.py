"""Every command of the README, of docs/howto and of the page about the API is run here, as it is typed.

The blocks below one heading run in order, in bash, in one directory with a stand-in train.py and a fresh GRASS_HOME.
What a `console` block shows is compared with what Grass says; times and blanks aside. The exceptions:

- `make demo`: its script is run with shorter trainings.
- `make test`: is this very run, so it is only checked that the target exists and is what .ci/run calls.
- `pip install .` and `pip uninstall` run in a virtual environment of their own, and are skipped where no package index
  answers.
- `/data/` is replaced by a directory of the test.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.blocks import ROOT, RUN, SHELL, Block, PageRunner, sections

README = ROOT / "README.md"
HOWTO = ROOT / "docs" / "howto"
#: These need hosts of their own: tests/hosts/test_page.py and tests/machines/test_ssh_page.py.
HOSTS = {HOWTO / "several-machines.md", HOWTO / "machines-over-ssh.md"}
PAGES = [README, ROOT / "docs" / "reference" / "http.md", *sorted(set(HOWTO.glob("*.md")) - HOSTS)]
#: Sections with a test of their own.
OWN = {"Two commands", "Install", "Uninstall"}
SECTIONS = [
    pytest.param(blocks, id=f"{page.stem}: {title}" if title else page.stem)
    for page in PAGES
    for title, blocks in sections(page).items()
    if page != README or title not in OWN
]
INSTALL_TIMEOUT_S = 100.0


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[PageRunner]:
    desk = PageRunner(tmp_path / "desk", Path(sys.executable).parent)
    yield desk
    desk.close()


@pytest.mark.parametrize("blocks", SECTIONS)
def test_every_command_of_a_section_works_as_typed(desk: PageRunner, blocks: list[Block]) -> None:
    for block in blocks:
        assert block.kind in RUN, f"a block of kind {block.kind!r} would be run by nobody"
        desk.run(block)


def test_every_fence_of_the_readme_says_what_it_is() -> None:
    text = README.read_text()
    assert text.count("\n```") == 2 * sum(len(blocks) for blocks in sections(README).values())


def test_the_two_commands_are_make_demo_and_make_test() -> None:
    assert sections(README)["Two commands"] == [Block("sh", "make demo\n"), Block("sh", "make test\n")]


def test_make_demo_runs_the_demo(desk: PageRunner) -> None:
    assert "$(BIN)/python examples/demo.py" in _recipe("demo")
    said = desk.shell(f"'{sys.executable}' '{ROOT}/examples/demo.py' --seconds 0.5")
    assert said.count(" succeeded ") >= 8
    assert "best" in said


def test_make_test_is_what_ci_calls() -> None:
    assert "pytest" in _recipe("test")
    assert "make test" in (ROOT / ".ci" / "run").read_text().splitlines()


@pytest.mark.timeout(3 * INSTALL_TIMEOUT_S)
def test_the_lines_that_install_and_uninstall_work(tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    desk = PageRunner(tmp_path / "desk", tmp_path / "env" / "bin")
    [install], [uninstall] = sections(README)["Install"], sections(README)["Uninstall"]
    assert {install.kind, uninstall.kind} <= set(SHELL)
    try:
        said = desk.shell(f"cd '{ROOT}'\n" + _needs_index(desk, install.text))
        assert said.splitlines()[-1].startswith("grass ")
        installed = {path.name for path in (tmp_path / "env" / "bin").iterdir()}
        assert {path.name for path in (ROOT / "bin").iterdir()} <= installed
        desk.shell("grass enqueue sleep 60")
        desk.shell(uninstall.text)
        assert not desk.home.exists()
        assert not (tmp_path / "env" / "bin" / "grass").exists()
    finally:
        desk.close()


def _needs_index(desk: PageRunner, script: str) -> str:
    """The script, or a skipped test where its build requirements cannot be had."""
    asked = subprocess.run(
        ["python3", "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(desk.folder / "asked"), "hatchling"],
        env=desk.env,
        capture_output=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    if asked.returncode:
        pytest.skip("no package index answers")
    return script


def _recipe(target: str) -> str:
    lines = (ROOT / "Makefile").read_text().splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith(f"{target}:"))
    end = next((at for at in range(start + 1, len(lines)) if not lines[at].startswith("\t")), len(lines))
    return "\n".join(lines[start:end])
