"""GPUPeasy's batches: what is a job, what is wrong, and on which line; and names for whatever people call a job."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.core.batches.batch_text import BATCH_JOBS_MAX, PROBLEMS_MAX, BatchJob, read_batch
from grassq.core.batches.job_names import job_name
from grassq.core.names import is_name
from grassq.errors import BadInput


def test_newlines_are_blanks_and_the_line_of_each_job_is_known() -> None:
    batch = read_batch(
        "\n a ;; out/a.txt ;;python -u\r\n  a.py\n--lr 1;;;b;;b.txt;;ls -l | wc > n;;;\n\nc;;c.txt;;true"
    )
    assert batch.problems == []
    assert batch.jobs == [
        BatchJob(2, "a", "out/a.txt", "python -u   a.py --lr 1"),
        BatchJob(4, "b", "b.txt", "ls -l | wc > n"),
        BatchJob(6, "c", "c.txt", "true"),
    ]


@pytest.mark.parametrize(
    ("part", "why"),
    [
        ("just a name", "has no OUTFILE"),
        ("a;;b", "has no COMMAND"),
        (";;b;;c", "NAME is empty"),
        ("a;; ;;c", "OUTFILE is empty"),
        ("a;;b;; ", "COMMAND is empty"),
        ("a;;b;;case x in y) z;; esac", "more than three parts"),
        ("a;;b\0;;c", "NUL"),
        ("x;;good.txt;;c", "line 1 too"),
    ],
)
def test_a_malformed_job_is_told_by_its_line_and_the_others_are_read(part: str, why: str) -> None:
    batch = read_batch(f"good;;good.txt;;true;;;\n\n{part};;;\nlast;;last.txt;;true;;;")
    [problem] = batch.problems
    assert problem.line == 3 and why in problem.why and "\n" not in problem.why
    assert {"good", "last"} <= {job.name for job in batch.jobs}


def test_a_batch_has_bounds() -> None:
    with pytest.raises(BadInput, match="no job"):
        read_batch(" \n;;;\n;;; ")
    with pytest.raises(BadInput, match="at most"):
        read_batch("a;;b;;c;;;" * (BATCH_JOBS_MAX + 1))
    with pytest.raises(BadInput, match="bytes"):
        read_batch("a" * (5 << 20))
    assert len(read_batch("x;;;" * 1000).problems) == PROBLEMS_MAX


@given(st.text())
def test_any_text_is_a_batch_or_is_refused_in_words(text: str) -> None:
    try:
        batch = read_batch(text)
    except BadInput:
        return
    lines = text.replace("\r\n", "\n").count("\n") + 1
    found = [job.line for job in batch.jobs] + [problem.line for problem in batch.problems]
    assert all(1 <= line <= lines for line in found)


@given(st.text())
def test_every_text_has_a_name(text: str) -> None:
    assert is_name(job_name(text))


def test_a_name_stays_as_it_is_if_it_can() -> None:
    assert [job_name(each) for each in ("lr-0.1_s3", "my job", "lr=0.1/b", "7", "running", "  ", "Größe")] == [
        "lr-0.1_s3",
        "my-job",
        "lr-0.1-b",
        "job-7",
        "job-running",
        "job",
        "Größe",
    ]
