"""The page is built when the package is made, by the content of its sources; a machine without npm gets the rest."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatch_build import MARK, SOURCES, STATIC, build_page, built_from, source_digest

ROOT = Path(__file__).parent.parent.parent
#: Bytes of the page, its scripts and its styles, compressed, that a browser needs before it draws.
FIRST_PAINT_MAX = 60_000


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose page needs nothing of npm but its call."""
    sources = tmp_path / "webui"
    for name in SOURCES:
        if "." in name:
            sources.mkdir(exist_ok=True)
            (sources / name).write_text("{}")
        else:
            (sources / name).mkdir(parents=True)
            (sources / name / "file").write_text(name)
    return tmp_path


def fake_npm(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an `npm` of ours on the path."""
    program = folder / "bin" / "npm"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


BUILDS = f'[ "$1" = ci ] || {{ mkdir -p ../{STATIC} && echo page > ../{STATIC}/index.html && echo run >> ../runs; }}'


def test_without_npm_the_package_has_no_page_and_one_line_says_so(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project))
    words = build_page(project)
    assert words is not None
    assert "no npm here" in words
    assert "\n" not in words
    with pytest.raises(RuntimeError, match="no npm here"):
        build_page(project, "require")
    assert build_page(project, "skip") is None


def test_the_page_is_built_once_until_its_sources_change(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(project, BUILDS, monkeypatch)
    assert build_page(project) is None
    assert build_page(project) is None
    assert (project / "runs").read_text().count("run") == 1
    # Another time of a file is no change; another content is.
    (project / "webui" / "src" / "file").touch()
    assert build_page(project) is None
    assert (project / "runs").read_text().count("run") == 1
    (project / "webui" / "src" / "file").write_text("changed")
    assert build_page(project) is None
    assert (project / "runs").read_text().count("run") == 2
    assert built_from(project / STATIC) == source_digest(project / "webui")


def test_a_failed_build_keeps_the_earlier_page_and_says_why(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_npm(project, BUILDS, monkeypatch)
    assert build_page(project) is None
    (project / "webui" / "src" / "file").write_text("changed")
    fake_npm(project, "echo 'no space left' >&2; exit 1", monkeypatch)
    words = build_page(project)
    assert words is not None
    assert "no space left" in words
    assert "earlier build" in words
    assert (project / STATIC / "index.html").read_text() == "page\n"
    assert (project / STATIC / MARK).is_file()


def test_little_is_loaded_before_the_first_paint(built_page: None) -> None:
    static = ROOT / STATIC
    names = re.findall(r'(?:src|href)="/(assets/[^"]+)"', (static / "index.html").read_text())
    assert any(name.endswith(".js") for name in names) and any(name.endswith(".css") for name in names), names
    files = [static / "index.html", *(static / name for name in names)]
    # Compressed as the daemon does it.
    assert sum(len(gzip.compress(path.read_bytes(), 9)) for path in files) <= FIRST_PAINT_MAX


def files_below(folder: Path) -> dict[str, bytes]:
    """Return the contents of all files below a folder, by their paths there."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_wheel_and_the_sdist_carry_the_same_built_page(
    tmp_path: Path, built_page: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    required = {**os.environ, "GRASS_WEB": "require"}
    done = subprocess.run(build, cwd=ROOT, env=required, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "sdist", filter="data")
    (source,) = (tmp_path / "sdist").iterdir()
    page = files_below(ROOT / STATIC)
    assert {"index.html", MARK} < set(page) and any(name.startswith("assets/") for name in page)
    assert files_below(tmp_path / "wheel" / "grassq" / "web" / "static") == page
    assert files_below(source / STATIC) == page
    # A machine without npm that has the sdist makes the same wheel: the page is that of the sources beside it.
    monkeypatch.setenv("PATH", str(tmp_path))
    assert build_page(source, "require") is None
    assert files_below(source / STATIC) == page
