"""The project of a working tree: the nearest `grass.toml` of the user's own decides, and a mistake in it is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from grassq import home
from grassq.errors import BadInput


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home directory, and the current directory two below it."""
    below = tmp_path / "user" / "tree" / "sub"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("GRASS_HOME", str(tmp_path / "user" / "grass"))
    monkeypatch.delenv("GRASS_PROJECT", raising=False)
    return tmp_path / "user"


def test_the_nearest_file_up_to_the_home_directory_names_the_project(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home.tree_project() == ""
    (tree.parent / "grass.toml").write_text('project = "above"\n')
    assert home.tree_project() == ""
    (tree / "grass.toml").write_text('project = "home"\n')
    assert home.tree_project() == "home"
    (tree / "tree" / "grass.toml").write_text('project = "near"\n')
    assert home.tree_project() == "near"
    assert home.tree_project(os.fsencode(tree)) == "home"
    (tree / "tree" / "sub" / "grass.toml").write_text("# nothing\n")
    assert home.tree_project() == ""
    monkeypatch.setenv("GRASS_PROJECT", "stated")
    assert home.tree_project(os.fsencode(tree)) == ""


@pytest.mark.parametrize(
    "text",
    [
        'projct = "x"',
        'project = "x"\nlimit = 3',
        "project = 3",
        "project = ",
        f"project = 0x{'f' * 5000}",
        f"project = {'9' * 5000}",
        'project = "a\\nb"',
        "[project]",
    ],
)
def test_a_mistake_is_one_line_with_the_file(tree: Path, text: str) -> None:
    path = tree / "tree" / "grass.toml"
    path.write_text(text)
    with pytest.raises(BadInput, match=str(path)) as error:
        home.tree_project()
    assert "\n" not in str(error.value)


def test_a_long_file_is_refused(tree: Path) -> None:
    (tree / "grass.toml").write_text("#" * (home.TREE_FILE_MAX + 1))
    with pytest.raises(BadInput, match="longer than"):
        home.tree_project()


def test_the_settings_in_the_home_of_grass_are_no_file_of_a_tree(tree: Path) -> None:
    run_dir = tree / "grass" / "jobs" / "1"
    run_dir.mkdir(parents=True)
    (tree / "grass" / "grass.toml").write_text("keep_jobs = 5\n")
    assert home.tree_project(os.fsencode(run_dir)) == ""
    (tree / "grass.toml").write_text('project = "home"\n')
    assert home.tree_project(os.fsencode(run_dir)) == "home"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_or_link_of_another_user_decides_nothing(tree: Path) -> None:
    path, mine = tree / "tree" / "grass.toml", tree / "mine.toml"
    path.write_text('project = "theirs"\n')
    os.chown(path, 12345, 12345)
    mine.write_text('project = "mine"\n')
    assert home.tree_project() == ""
    path.unlink()
    path.symlink_to(mine)
    assert home.tree_project() == "mine"
    os.chown(path, 12345, 12345, follow_symlinks=False)
    assert home.tree_project() == ""
    os.chown(path, 0, 0, follow_symlinks=False)
    os.chown(mine, 12345, 12345)
    assert home.tree_project() == ""


def test_a_directory_of_that_name_and_a_pipe_are_passed_by(tree: Path) -> None:
    (tree / "tree" / "grass.toml").mkdir()
    assert home.tree_project() == ""
    (tree / "tree" / "grass.toml").rmdir()
    os.mkfifo(tree / "tree" / "grass.toml")
    assert home.tree_project() == ""
