"""How the words of enqueue and run are read."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.core.syntax.enqueue_lines import CONTEXT, cases, enqueue, job, words_of

from grassq.core.syntax.enqueue import Enqueue, KnownQueue, SubmitContext, split_enqueue
from grassq.errors import BadInput, GrassError, NotFound

CUDA = ((b"CUDA_VISIBLE_DEVICES", b"{gpu}"),)
JOB2 = "there is no queue 'job2' yet (there is one called 'job1'); the job waits until it is created"

README_ENQUEUE = {
    "grass enqueue exp1 --gpu=1 -- CUDA_VISIBLE_DEVICES={gpu} python train.py": job(
        "python train.py", queue="exp1", amounts=(("gpu", "1"),), env=CUDA
    ),
    "grass enqueue exp2 --gpu=0.5 -- CUDA_VISIBLE_DEVICES={gpu} python train_exp2.py --lr=$lr": job(
        "python train_exp2.py --lr=$lr", queue="exp2", amounts=(("gpu", "0.5"),), env=CUDA
    ),
    "grass enqueue exp1 --gpu=1 --cwd=/data/ -- CUDA_VISIBLE_DEVICES={gpu} python train.py": job(
        "python train.py", queue="exp1", amounts=(("gpu", "1"),), env=CUDA, cwd=b"/data/"
    ),
    'grass enqueue --require "{gpu:1}" --env "CUDA_VISIBLE_DEVICES={gpu}" job1 arg2 arg3': job(
        "arg2 arg3", queue="job1", request="{gpu:1}", env=CUDA
    ),
    'grass enqueue --require "{gpu:0.5}" --env "CUDA_VISIBLE_DEVICES={gpu}" job2 arg2 arg3': job(
        "arg2 arg3", queue="job2", request="{gpu:0.5}", env=CUDA, warnings=(JOB2,)
    ),
    "grass enqueue  python train.py": job("python train.py"),
    "grass enqueue --require '{gpu:0.5}' --cwd=/data/ --env='CUDA_VISIBLE_DEVICES={gpu}' "
    "-- python train.py lr=0.01 batch_size=8": job(
        "python train.py lr=0.01 batch_size=8", request="{gpu:0.5}", cwd=b"/data/", env=CUDA
    ),
    'grass enqueue --broker 1.2.3.4:7500 --require "{printer:1}" print paper.pdf': job(
        "paper.pdf", queue="print", request="{printer:1}", broker="1.2.3.4:7500"
    ),
    'grass enqueue --broker 1.2.3.4:7500 --require "{gpu:1}" cifar100 --lr=0.01': job(
        "--lr=0.01", queue="cifar100", request="{gpu:1}", broker="1.2.3.4:7500"
    ),
}


@pytest.mark.parametrize("line", README_ENQUEUE)
def test_every_enqueue_line_of_the_readmes_is_read_as_meant(line: str) -> None:
    assert enqueue(line.removeprefix("grass enqueue")) == README_ENQUEUE[line]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-- python train.py", job("python train.py")),
        ("exp1 -- ls -l -- x", job("ls -l -- x", queue="exp1")),
        (
            "--gpu 0.5 --name a exp1 --hold -- ls",
            job("ls", queue="exp1", amounts=(("gpu", "0.5"),), name="a", hold=True),
        ),
        ("job1 --lr=1 -- x", job("x", queue="job1", amounts=(("lr", "1"),))),
        ("job1 --", job("", queue="job1")),
        ("exp1 -- --help", None),
        ("cifar100 -- --lr=0.01", job("--lr=0.01", queue="cifar100")),
        ("exp1 --verbose -- ls", None),
        ("exp1 -u -- ls", None),
        ("--", None),
        ("exp1 --", None),
        ("all -- ls", None),
        ("run -- ls", None),
        ("./train.sh -- ls", None),
        ("exp1 -- A=1", None),
        ("exp1 -- ''", None),
        ("--cwd -- ls", None),
        ("--gpu -- ls", None),
        ("exp1 --grass_x=1 -- ls", None),
    ],
)
def test_rule_1_two_dashes_part_our_words_from_the_jobs(line: str, expected: Enqueue | None) -> None:
    if expected is None:
        with pytest.raises(BadInput):
            enqueue(line)
    else:
        assert enqueue(line) == expected


def test_rule_1_takes_a_queue_that_is_not_there_yet_with_a_warning() -> None:
    read = enqueue("later --printer=1 -- CUDA={gpu} -x")
    assert (read.options.queue, read.words) == ("later", (b"-x",))
    assert read.warnings == ("there is no queue 'later' yet; the job waits until it is created",)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("exp1 ls -l", job("ls -l", queue="exp1")),
        ("default ls", job("ls")),
        ("exp1 --gpu=1 ls --gpu=2", job("ls --gpu=2", queue="exp1", amounts=(("gpu", "1"),))),
        ("exp1 --GPU 1 ls", job("ls", queue="exp1", amounts=(("gpu", "1"),))),
        ("print --printer=1 a.pdf", job("a.pdf", queue="print", amounts=(("printer", "1"),))),
        ("--printer=1 print a.pdf", job("a.pdf", queue="print", amounts=(("printer", "1"),))),
        ("print --printer 1 a.pdf", job("--printer 1 a.pdf", queue="print")),
        ("job1 --license=1 x", job("x", queue="job1", amounts=(("license", "1"),))),
        ("job1 --printer=1 x", job("--printer=1 x", queue="job1")),
        ("job1 --batch-size=8 --gpu=1", job("--batch-size=8 --gpu=1", queue="job1")),
        ("job1 --name n --lr 1", job("--lr 1", queue="job1", name="n")),
        ("job1 --json=out.json", job("--json=out.json", queue="job1")),
        ("job1 --js", job("--js", queue="job1")),
        ("job1 x -- y", job("x -- y", queue="job1")),
        ("job1 -", job("-", queue="job1")),
        ("job1", job("", queue="job1")),
        ("job1 --gpu=1", job("", queue="job1", amounts=(("gpu", "1"),))),
        ("job1 a A=1", job("a A=1", queue="job1")),
    ],
)
def test_rule_2_options_after_a_queue_are_ours_until_the_first_we_do_not_know(line: str, expected: Enqueue) -> None:
    assert replace(enqueue(line), notes=()) == expected


def test_resources_everybody_knows_are_ours_also_where_the_machine_has_none() -> None:
    bare = SubmitContext(
        queues={"q": KnownQueue(has_prefix=True)}, resources=frozenset(), shared=frozenset(), is_program=lambda _: False
    )
    read = enqueue("q --gpu=1 --vram 8G --lr=1", bare)
    assert (read.options.request, read.words) == ({"gpu": "1", "vram": "8G"}, (b"--lr=1",))


@pytest.mark.parametrize(
    "line",
    cases(
        "exp1 ; exp1 --lr=0.01 ; exp1 --gpu=1 ; exp1 -x ls ; exp1 - ls ; --lr=0.01 exp1 ls ; job1 --gpu ; "
        "job1 --gpu= ; job1 --gpu --fast ; job1 --name ; job1 --priority=high"
    ),
)
def test_rule_2_refuses_what_cannot_be_meant(line: str) -> None:
    with pytest.raises(BadInput):
        enqueue(line)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("python --gpu=1 train.py", job("python --gpu=1 train.py")),
        ("./train.sh -- x y", None),
        ("--gpu=1 ./train.sh x -- y", job("./train.sh x -- y", amounts=(("gpu", "1"),))),
        ("git log -- file", job("git log -- file")),
        ("python --queue exp1", job("python --queue exp1")),
        ("A=1 B= python A=2", job("python A=2", env=((b"A", b"1"), (b"B", b"")))),
        ("-e A=0 A=1 python", job("python", env=((b"A", b"0"), (b"A", b"1")))),
        ("--lr=1 python train.py", None),
        ("--lr 1 python train.py", None),
        ("A=1", None),
    ],
)
def test_rule_3_a_program_starts_the_job_in_the_default_queue(line: str, expected: Enqueue | None) -> None:
    if expected is None:
        with pytest.raises(BadInput):
            enqueue(line)
    else:
        assert replace(enqueue(line), notes=()) == expected


def test_an_existing_queue_wins_over_a_program_of_that_name() -> None:
    assert enqueue("exp1 ls").options.queue == "exp1"


@pytest.mark.parametrize(
    ("line", "words"),
    [("--gpu=1 later arg", "arg"), ("later --gpu=1 arg", "arg"), ("later --hold arg --gpu=1", "arg --gpu=1")],
)
def test_rule_4_a_job_may_wait_for_a_queue_that_is_not_there_yet(line: str, words: str) -> None:
    read = enqueue(line)
    assert (read.options.queue, list(read.words)) == ("later", words_of(words))
    assert len(read.warnings) == 1


def test_rule_4_says_which_options_it_leaves_to_the_job() -> None:
    read = enqueue("--gpu=1 later --printer=1 x")
    assert read.words == (b"--printer=1", b"x")
    assert read.warnings[1].startswith("'--printer=1' is left to the job")


@pytest.mark.parametrize(
    "line",
    cases(
        "pyhton train.py ; pyhton ; --gpu=1 later ; later --gpu=1 ; --foo=1 pyhton x ; pyhton --lr=1 x ; "
        "--gpu=1 ./no.sh x ; --gpu=1 all x ; A=1 pyhton ; '' ; -"
    ),
)
def test_rule_5_a_misspelt_command_never_becomes_a_job(line: str) -> None:
    with pytest.raises(NotFound):
        enqueue(line)


def test_rule_5_says_how_to_wait_for_a_queue_and_which_was_meant() -> None:
    with pytest.raises(NotFound) as caught:
        enqueue("pyhton train.py")
    assert str(caught.value) == (
        "no queue and no program is called 'pyhton'; to wait for a queue of that name: grass enqueue --queue pyhton ..."
    )
    with pytest.raises(NotFound, match=r"did you mean the queue 'cifar100'\?"):
        enqueue("cifar10 x")
    with pytest.raises(NotFound, match=r"^no program is called '\\xff'$"):
        split_enqueue([b"\xff"], CONTEXT)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--queue exp1 exp2 x", job("exp2 x", queue="exp1")),
        ("--queue=exp1 --gpu=1 -- ls", job("ls", queue="exp1", amounts=(("gpu", "1"),))),
        ("--queue exp1 ls -- x", job("ls -- x", queue="exp1")),
        ("--queue cifar100 --lr=0.01", job("--lr=0.01", queue="cifar100")),
        ("--printer=1 --queue print x", job("x", queue="print", amounts=(("printer", "1"),))),
        ("--queue job1", job("", queue="job1")),
    ],
)
def test_a_queue_named_by_option_always_wins(line: str, expected: Enqueue) -> None:
    assert enqueue(line) == expected


def test_a_queue_named_by_option_need_not_exist() -> None:
    read = enqueue("--queue pyhton train.py")
    assert (read.options.queue, read.words) == ("pyhton", (b"train.py",))


@pytest.mark.parametrize(
    "line",
    cases(
        "exp1 --queue exp2 ls ; exp1 --queue exp2 -- ls ; later --queue exp2 ls ; --queue 17 ls ; "
        "--queue all ls ; --queue running ls ; --queue exp1 ; --queue later ; --queue exp1 --lr=1 ls ; "
        "--lr=1 --queue job1 x"
    ),
)
def test_a_queue_named_badly_or_twice_is_refused(line: str) -> None:
    with pytest.raises(BadInput):
        enqueue(line)


@pytest.mark.parametrize(
    ("line", "queue", "shell"),
    [
        ("--shell 'A=1 ls | wc'", "default", b""),
        ("--shell=/bin/bash 'ls | wc'", "default", b"/bin/bash"),
        ("exp1 --shell 'ls | wc'", "exp1", b""),
        ("--shell exp1 'ls | wc'", "exp1", b""),
        ("--shell --queue exp1 'ls | wc'", "exp1", b""),
        ("--shell -- 'ls | wc'", "default", b""),
        ("--shell later 'ls | wc'", "later", b""),
        ("--shell true", "default", b""),
    ],
)
def test_a_shell_line_is_one_word_kept_whole(line: str, queue: str, shell: bytes) -> None:
    read = enqueue(line)
    assert (read.options.queue, read.options.shell, read.options.env) == (queue, shell, ())
    assert read.words == (words_of(line)[-1],)


@pytest.mark.parametrize(
    "line",
    cases(
        "--shell echo a b ; --shell 'ls | wc' --gpu=1 ; --shell ; --shell exp1 ; exp1 --shell a b ; "
        "job1 --shell a ; --shell -- a b"
    ),
)
def test_a_shell_line_that_is_not_one_word_is_refused(line: str) -> None:
    with pytest.raises(BadInput):
        enqueue(line)


def test_where_the_queue_has_a_command_an_assignment_is_an_argument_of_it() -> None:
    read = enqueue("job1 lr=0.1 x")
    assert (read.options.env, read.words) == ((), (b"lr=0.1", b"x"))


def test_nothing_at_all_is_refused() -> None:
    with pytest.raises(BadInput, match="nothing to run"):
        split_enqueue([], CONTEXT)


def test_a_nul_byte_is_refused_anywhere() -> None:
    with pytest.raises(BadInput):
        split_enqueue([b"--", b"ls", b"a\0b"], CONTEXT)


PIECES = [
    *(word.encode() for word in shlex.split(" ".join(README_ENQUEUE))),
    *[b"--", b"-", b"", b"-e", b"-q", b"--gpu", b"--gpu=1", b"--lr=1", b"--queue"],
    *[
        b"--queue=exp1",
        b"--shell",
        b"--hold",
        b"later",
        b"job1",
        b"A=1",
        b"\xff",
        b"--\xff=1",
        b"0.5",
        b"--name",
        b"n",
        b"all",
    ],
]
WORDS = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=12)), max_size=8)


@given(WORDS)
@example([b"--env"])
def test_splitting_ends_in_a_job_or_a_sentence(words: list[bytes]) -> None:
    try:
        split_enqueue(words, CONTEXT)
    except GrassError as error:
        assert error.exit_code in (2, 3)
        assert "\n" not in str(error) and str(error)


@given(WORDS)
def test_the_jobs_words_are_the_end_of_what_was_typed(words: list[bytes]) -> None:
    try:
        read = split_enqueue(words, CONTEXT)
    except GrassError:
        return
    assert read.words == tuple(words[len(words) - len(read.words) :])


@given(st.lists(st.sampled_from([b"exp1", b"later", b"--gpu=1", b"--lr=2", b"--name", b"--hold"]), max_size=4), WORDS)
def test_what_follows_two_dashes_is_the_jobs_untouched(ours: list[bytes], theirs: list[bytes]) -> None:
    try:
        read = split_enqueue([*ours, b"--", b"ls", *theirs], CONTEXT)
    except GrassError:
        return
    assert read.words[-len(theirs) - 1 :] == (b"ls", *theirs)
    if sum(not word.startswith(b"-") for word in ours) < 2 and b"--name" not in ours:
        assert read.words == (b"ls", *theirs)


@given(WORDS)
def test_reading_the_same_words_twice_gives_the_same(words: list[bytes]) -> None:
    def read() -> object:
        try:
            return split_enqueue(words, CONTEXT)
        except GrassError as error:
            return str(error)

    assert read() == read()


def test_the_options_of_a_script_do_not_make_a_misspelt_program_a_queue() -> None:
    def read(line: str, script_words: int) -> object:
        context = SubmitContext({}, frozenset({"gpu"}), frozenset({"gpu"}), lambda _: False, script_words=script_words)
        return enqueue(line, context)

    for line, count in (("--gpu=1 pyhton train.py", 1), ("--name=x --gpu=1 pyhton train.py", 2)):
        with pytest.raises(NotFound, match="no queue and no program is called 'pyhton'"):
            read(line, count)
    # What was typed tells that the line is meant for Grass, as without a script.
    for line in ("--gpu=1 --hold later train.py", "--gpu=1 later --hold train.py"):
        assert read(line, 1).options.queue == "later"  # type: ignore[attr-defined]
