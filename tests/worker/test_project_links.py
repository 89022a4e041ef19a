"""The folder view of projects: links to the folders of jobs, and nothing of others touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from grassq.worker.local_files import project_links


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for job in (1, 2):
        (tmp_path / f"jobs/{job}/1").mkdir(parents=True)
    return tmp_path


def links(home: Path) -> dict[str, str]:
    found = [path for path in (home / "projects").rglob("*") if path.is_symlink()]
    return {str(path.relative_to(home)): str(path.resolve().relative_to(home)) for path in found}


def test_one_name_twice_in_a_project_is_two_folders(home: Path) -> None:
    for job in (1, 2, 2):
        project_links.make(str(home), job, "p", "lr")
    assert links(home) == {"projects/p/lr/1": "jobs/1", "projects/p/lr/2": "jobs/2"}
    project_links.remove(str(home), 1)
    assert links(home) == {"projects/p/lr/2": "jobs/2"}
    project_links.remove(str(home), 2)
    assert not (home / "projects/p").exists() and (home / "jobs/2").exists()


def test_a_new_name_moves_the_link_and_a_job_may_have_no_name(home: Path) -> None:
    project_links.make(str(home), 1, "p", "lr")
    project_links.make(str(home), 1, "q", None)
    assert links(home) == {"projects/q/-/1": "jobs/1"}


def test_a_link_of_somebody_else_is_neither_followed_nor_removed(home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (home / "projects").mkdir()
    (home / "projects/p").symlink_to(elsewhere)
    project_links.make(str(home), 1, "p", "lr")
    assert [*elsewhere.iterdir()] == [], "the job runs, and has no link"
    project_links.make(str(home), 2, "q", "lr")
    own = home / "projects/q/lr/2"
    own.unlink()
    own.symlink_to(elsewhere)
    project_links.remove(str(home), 2)
    assert own.is_symlink()


def test_a_note_that_is_no_place_of_ours_leads_nowhere(home: Path) -> None:
    (home / "projects").mkdir()
    (home / "1").symlink_to("../../../jobs/1")
    for note in (b"../..", b"p/..", b"p/../../x", b"", b"\xff/x", b"p"):
        (home / "jobs/1/project").write_bytes(note)
        project_links.remove(str(home), 1)
    assert (home / "1").is_symlink()
