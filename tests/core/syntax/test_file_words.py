"""Folders, files and patterns of a job, as they are typed."""

from __future__ import annotations

import pytest

from grassq.core.job_options import JOB_OPTIONS, JobOptions, uses_files
from grassq.core.syntax.file_words import PATH_BYTES_MAX, SentTree, check_manifest, parts_of, read_send
from grassq.errors import BadInput

OPTIONS = {option.name: option for option in JOB_OPTIONS}


@pytest.mark.parametrize(
    ("typed", "folder", "dest"),
    [
        (b"code", b"code", b""),
        (b"code:", b"code", b""),
        (b"code:.", b"code", b""),
        (b"code:in/data/", b"code", b"in/data"),
        (b"code:./in//data", b"code", b"in/data"),
        (b"a:b:c", b"a:b", b"c"),
        (b"a:b:.", b"a:b", b""),
        (b"\xff:x", b"\xff", b"x"),
    ],
)
def test_a_folder_has_a_place_behind_its_last_colon(typed: bytes, folder: bytes, dest: bytes) -> None:
    assert read_send(typed, "--send") == SentTree("", dest, folder)


@pytest.mark.parametrize(
    "typed", [b"", b":x", b"a:/x", b"a:..", b"a:x/../y", b"a:x\0", b"a\0", b"a" * (PATH_BYTES_MAX + 1)]
)
def test_a_place_outside_of_the_jobs_directory_is_refused(typed: bytes) -> None:
    with pytest.raises(BadInput, match="--send"):
        read_send(typed, "--send")


def test_patterns_stay_inside_and_a_dot_is_everything() -> None:
    fetch = OPTIONS["fetch"]
    assert fetch.parse(fetch, [b"./out//*.pt", b".", b"./", b"**/x"]) == (b"out/*.pt", b".", b"./", b"**/x")
    for wrong in (b"/x", b"../x", b"x/..", b""):
        with pytest.raises(BadInput, match="--fetch"):
            fetch.parse(fetch, [wrong])
    with pytest.raises(BadInput, match="100 times is the most"):
        fetch.parse(fetch, [b"x"] * 101)


def test_a_manifest_has_an_id_of_64_digits() -> None:
    assert check_manifest("0a" * 32) == "0a" * 32
    for wrong in ("", "0A" * 32, "0" * 63, "../" + "0" * 61, "0" * 64 + "\n"):
        with pytest.raises(BadInput):
            check_manifest(wrong)


def test_each_option_about_files_needs_a_worker_that_takes_files() -> None:
    assert not uses_files(JobOptions())
    given = [
        JobOptions(send=(SentTree("x"),)),
        JobOptions(fetch=(b"x",)),
        JobOptions(env_from="there"),
        JobOptions(env_from="here"),
        JobOptions(python=b"x"),
        JobOptions(setup=b"x"),
    ]
    assert all(map(uses_files, given))
    assert not uses_files(JobOptions(cwd=b"/x", env=((b"A", b"1"),), split=True))


def test_a_place_has_parts() -> None:
    assert (parts_of(b""), parts_of(b"a/b")) == ((), (b"a", b"b"))
