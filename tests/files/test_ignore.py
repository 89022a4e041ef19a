"""Rules of .grassignore mean what they mean to git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grassq.errors import BadInput
from grassq.files import ignore


def ignored(path: str, *lines: str, is_folder: bool = False) -> bool:
    return ignore.is_ignored(path.encode(), is_folder, [ignore.parse(b"", "\n".join(lines).encode())])


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("a.pyc", ["*.pyc"]),
        ("deep/er/a.pyc", ["*.pyc"]),
        ("deep/a", ["deep/a"]),
        ("x", ["/x"]),
        ("a/b/c", ["a/**/c"]),
        ("a/c", ["a/**/c"]),
        ("a/b", ["a/**"]),
        ("b/data", ["**/data"]),
        ("#file", [r"\#file"]),
        ("!file", [r"\!file"]),
        ("a b", ["a b"]),
        ("a ", [r"a\ "]),
        ("a", ["a   "]),
        ("a", ["a\r"]),
        ("ax", ["!ax", "a?"]),
        ("file1", ["file[0-9]"]),
        ("filex", ["file[!0-9]"]),
        (".git", []),
        ("sub/.git", ["!.git"]),
        ("job_results", ["!job_results"]),
        (".grass-fetch-00ff", []),
    ],
)
def test_a_path_is_left_out(path: str, lines: list[str]) -> None:
    assert ignored(path, *lines)


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("a", []),
        ("a", ["# a", "", "   "]),
        ("deep/x", ["/x"]),
        ("deep/er/a", ["er/a"]),
        ("data", ["data/"]),
        ("a", ["a/**"]),
        ("ab/c", ["a*c"]),
        ("keep.log", ["*.log", "!keep.log"]),
        (".gitignore", []),
        ("my_job_results", []),
        ("__pycache__", []),
    ],
)
def test_a_path_is_sent(path: str, lines: list[str]) -> None:
    assert not ignored(path, *lines)


def test_a_rule_with_a_slash_at_its_end_is_for_folders() -> None:
    assert ignored("deep/data", "data/", is_folder=True)
    assert not ignored("deep/data", "data/", is_folder=False)


def test_a_rule_of_a_deeper_file_wins() -> None:
    files = [ignore.parse(b"", b"*.log\n"), ignore.parse(b"sub", b"!/keep.log\n")]
    assert ignore.is_ignored(b"sub/other.log", False, files)
    assert not ignore.is_ignored(b"sub/keep.log", False, files)
    assert ignore.is_ignored(b"sub/deep/keep.log", False, files)


def test_rules_have_bounds() -> None:
    with pytest.raises(BadInput, match="rules"):
        ignore.parse(b"sub", b"a\n" * 10_001)


words = st.text(alphabet="ab*?/[]!.", min_size=1, max_size=7)
paths = st.lists(st.sampled_from(["a", "b", "ab", "aab", ".b", "a.b"]), min_size=1, max_size=3).map("/".join)


@settings(max_examples=60)
@given(st.lists(words, min_size=1, max_size=3), st.lists(paths, min_size=1, max_size=6))
def test_git_says_the_same(tmp_path_factory: pytest.TempPathFactory, rules: list[str], asked: list[str]) -> None:
    if any("[" in rule or "]" in rule or "//" in rule for rule in rules):
        return  # git refuses or reads unfinished classes in ways that nobody expects
    repo = tmp_path_factory.mktemp("repo")
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / ".gitignore").write_text("\n".join(rules) + "\n")
    done = subprocess.run(
        ["git", "-C", str(repo), "check-ignore", "--no-index", "--stdin"],
        input="\n".join(asked),
        capture_output=True,
        text=True,
        check=False,
    )
    files = [ignore.parse(b"", "\n".join(rules).encode())]

    def says(path: str) -> bool:
        parts = path.split("/")
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        return any(ignore.is_ignored(each.encode(), True, files) for each in above) or ignore.is_ignored(
            path.encode(), False, files
        )

    assert {path for path in asked if says(path)} == set(done.stdout.splitlines()), (rules, Path(repo))
