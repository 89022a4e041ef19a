"""Lines of `grass enqueue` that were probably meant otherwise: some are refused, others get a note."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.core.syntax.enqueue_lines import CONTEXT, enqueue

from grassq.core.syntax.enqueue import KnownQueue, split_create_queue
from grassq.core.syntax.options import ENQUEUE, OTHER_OPTIONS
from grassq.errors import BadInput, NotFound


def refusal(line: str, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        enqueue(line)
    return str(caught.value)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("job1 --lr=0.1 --gpu=1", "--gpu=1"),
        ("job1 --lr 0.1 --gpu 1", "--gpu"),
        ("job1 --lr=0.1 --name n", "--name"),
        ("cifar100 --lr=0.1 --license=1", "--license=1"),
        ("--queue job1 --lr=0.1 --gpu=1", "--gpu=1"),
    ],
)
def test_an_option_of_ours_behind_one_of_the_jobs_is_remarked(line: str, option: str) -> None:
    [note] = enqueue(line).notes
    assert note.startswith(f"{option} is passed to the job, because it comes after --lr")
    assert "put it before --lr" in note and "`--`" in note


def test_an_amount_behind_the_program_is_remarked_where_the_job_asks_for_none() -> None:
    [note] = enqueue("python train.py --gpu=1").notes
    assert note.startswith("--gpu=1 is passed to the job, and the job asks Grass for no gpu; ")
    assert "write --gpu=1 before python" in note
    assert enqueue("exp1 python train.py --gpu 1").notes
    # A program may mean the number of a device.
    assert "write --gpu=1 before python" in enqueue("python train.py --gpu 0").notes[0]


def test_an_amount_of_what_the_machine_lacks_gets_no_note() -> None:
    bare = replace(CONTEXT, queues={"default": KnownQueue()}, resources=frozenset({"cpu"}))
    assert enqueue("python train.py --gpu=1", bare).notes == ()


@pytest.mark.parametrize(
    "line",
    [
        "--gpu=1 python train.py --gpu=1",
        "--require '{gpu:1}' python train.py --gpu=1",
        "-- python train.py --gpu=1",
        "exp1 -- python train.py --gpu=1",
        "job1 -- --lr=0.1 --gpu=1",
        "job1 --lr=0.1 --epochs=3",
        "job1 --lr=0.1 -- --gpu=1",
        "python train.py --gpu",
        "python train.py --name n --seed 1",
        "python train.py gpu=1",
        "--shell 'python train.py --gpu=1 | tee log'",
    ],
)
def test_words_that_are_surely_the_jobs_get_no_note(line: str) -> None:
    assert enqueue(line).notes == ()


@pytest.mark.parametrize("operator", ["|", ">", ">>", "<", "&&", "||", "&", "2>", "2>&1", "|&"])
def test_an_operator_of_a_shell_among_the_words_is_remarked(operator: str) -> None:
    [note] = enqueue(f"echo a '{operator}' b").notes
    assert note.startswith(f"'{operator}' is passed to the job as a word")
    assert "--shell" in note
    assert enqueue(f"-- echo a '{operator}' b").notes == (note,)
    # A queue with a command of its own takes no line for a shell.
    assert enqueue(f"job1 a '{operator}' b").notes == (f"'{operator}' is passed to the job as a word",)


def test_a_variable_with_the_name_of_a_resource_is_remarked() -> None:
    [note] = enqueue("exp1 gpu=2 python train.py").notes
    assert note.startswith("gpu=2 sets a variable of the job; to ask for the resource: --gpu=2")
    assert enqueue("GPU=2 python train.py").notes == ()


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("'python train.py --lr 0.1'", "leave out the quotes around the command, or add --shell"),
        ("--gpu=1 'python train.py'", "leave out the quotes around the command, or add --shell"),
        ("'echo a | wc'", "to run it as a line of a shell, add --shell"),
        ("'nohup x > y &'", "to run it as a line of a shell, add --shell"),
    ],
)
def test_a_whole_line_in_quotes_says_how_to_write_it(line: str, hint: str) -> None:
    assert hint in refusal(line, NotFound)


@pytest.mark.parametrize(
    "line", ["exp --gpu=1 python x", "exp --gpu=1 -- python x", "cifar --stdin --gpu=1", "defalt -- ls"]
)
def test_a_near_miss_of_a_queue_is_refused_with_the_suggestion(line: str) -> None:
    name = line.split()[0]
    said = refusal(line, NotFound)
    assert said.startswith(f"there is no queue '{name}'; did you mean '")
    assert f"--queue {name}" in said


@pytest.mark.parametrize("name", ["exp", "job2"])
def test_a_queue_named_by_option_may_come_later_also_with_a_name_like_another(name: str) -> None:
    read = enqueue(f"--queue {name} --gpu=1 python x")
    assert (read.options.queue, len(read.warnings)) == (name, 1)


@pytest.mark.parametrize("line", ["exp3 --gpu=1 python x", "job17 -- ls", "exp11 -- ls"])
def test_a_name_that_differs_in_its_digits_alone_is_another_queue(line: str) -> None:
    assert enqueue(line).warnings


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("--gpus=1 -- ls", "--gpu"),
        ("--gpus 1 -- ls", "--gpu"),
        ("exp1 --gpus=1 -- ls", "--gpu"),
        ("--gpus=1 ls", "--gpu"),
        ("--memory=4G -- ls", "--mem"),
        ("--ram=4G ls", "--mem"),
        ("--cores=4 -- ls", "--cpu"),
        ("--licenses=1 -- ls", "--license"),
        ("--prioriy=5 -- ls", "--priority"),
        ("later --gpus=1 -- ls", "--gpu"),
    ],
)
def test_a_near_miss_of_a_resource_or_option_is_refused(line: str, meant: str) -> None:
    assert f"did you mean {meant}?" in refusal(line, BadInput)


def test_a_resource_that_the_queue_has_is_no_near_miss() -> None:
    assert enqueue("print --printer=1 -- x").options.request == {"printer": "1"}
    assert enqueue("later --scanner=1 -- x").options.request == {"scanner": "1"}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("q --gpus=3", "did you mean --gpu?"),
        ("q --gpu=2 --gpus=3", "did you mean --gpu?"),
        ("q --memory=4G", "did you mean --mem?"),
        ("--cpuss=4 q", "did you mean --cpu?"),
        ("q --licenses=2", "did you mean --license?"),
        ("q gpu=2", "gpu=2 is not an option: a limit is --gpu=2, a variable is --env gpu=2"),
        ("q A=1", "A=1 is not an option: a limit is --A=1, a variable is --env A=1"),
        ("q --cpu=4 gpu=2 python x", "gpu=2 is not an option: a limit is --gpu=2, a variable is --env gpu=2"),
    ],
)
def test_create_queue_refuses_what_was_probably_meant_otherwise(line: str, said: str) -> None:
    with pytest.raises(BadInput) as caught:
        split_create_queue([word.encode() for word in line.split()], CONTEXT.resources)
    assert said in str(caught.value)


@pytest.mark.parametrize("line", ["q --license=2", "q --license_b=2", "q --printer=1", "q --a100=1", "q A=1 python x"])
def test_create_queue_takes_new_resources_and_variables_of_a_command(line: str) -> None:
    assert split_create_queue([word.encode() for word in line.split()], CONTEXT.resources).name == "q"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--time 10 ls", "did you mean --time-limit?"),
        ("--time=10 ls", "did you mean --time-limit?"),
        ("--timeout=10m -- ls", "did you mean --time-limit?"),
        ("--signal=USR1@60 ls", "did you mean --warn?"),
        ("--dependency=afterok:3 ls", "afterok:12 is --after 12"),
        ("--begin=18:00 ls", "did you mean --at?"),
        ("--partition=exp1 ls", "did you mean --queue?"),
        ("--job-name=x ls", "did you mean --name?"),
        ("-n x ls", "did you mean --name?"),
        ("-g 1 ls", "did you mean --gpu?"),
        ("--workdir=/ ls", "did you mean --cwd?"),
    ],
)
def test_an_option_of_another_tool_is_answered(line: str, said: str) -> None:
    assert said in refusal(line, BadInput)


def test_no_answer_hides_an_option_of_ours() -> None:
    assert not OTHER_OPTIONS.keys() & {word.decode() for word in ENQUEUE}
    assert all(f"--{answer[2:]}".encode() in ENQUEUE for answer in OTHER_OPTIONS.values() if answer.startswith("--"))
