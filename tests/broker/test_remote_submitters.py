"""Jobs from other machines: what a sender may choose, where it is refused in words, and what is never believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.broker.decider_fixture import DeciderFixture
from tests.builders import a_board, a_request, a_worker, an_offer

from grassq.core.model import Constraints, Job, Offer, RemoteSubmitter, Spec, State
from grassq.core.planner.workers import in_process
from grassq.core.syntax import enqueue as enqueue_syntax
from grassq.errors import BadInput, GrassError, NotFound
from grassq.web.access.principal import OWNER, Principal
from grassq.web.requests import EnqueueBody, From, Submitter, environment_of
from grassq.web.submit import validate
from grassq.web.submit.queue_snapshot import QueueSnapshot, snapshot_of
from grassq.web.submit.validate import DraftBuilder

DEFAULT = a_request(cpu=1)
TRAIN = Offer("train", {}, (b"python", b"train.py"), b"/srv/train", allow_env=(b"SEED",))
OPEN = Offer("open", {}, unsecure=True)
BOXED = Offer("boxed", {}, unsecure=True, wrap=b"firejail --net=none", allow_env=(b"SEED",))
WORKER = replace(a_worker("w", offers=[an_offer(), TRAIN, OPEN, BOXED], cpu=8), wraps=True)

ANN = Principal("submit", "ann1", "ann")
BOB = Principal("submit", "bob1", "bob", queues=("train",))
ROOT = Principal("admin", "root1", "root", bare=True)


def enqueue(fixture: DeciderFixture, line: str | list[bytes], caller: Principal = ANN, **sent: Any) -> Job:
    """Send a line from another machine, or from this one; what was stored."""
    who = msgspec.json.decode(msgspec.json.encode({"key": "0" * 32, **sent}), type=From).submitter(caller)
    words = line.encode().split() if isinstance(line, str) else line
    _, draft = DraftBuilder(who, snapshot_of(fixture.decider.board), DEFAULT).read_enqueue(words)
    (job_id,) = fixture.submit(draft)
    return fixture.job(job_id)


def refusal(line: str | list[bytes], caller: Principal = ANN) -> str:
    with pytest.raises(GrassError) as caught:
        enqueue(DeciderFixture(WORKER), line, caller)
    return f"{caught.value.exit_code}: {caught.value}"


def test_nothing_of_a_senders_surroundings_reaches_the_job() -> None:
    fixture = DeciderFixture(WORKER)
    job = enqueue(fixture, "train --lr=1", cwd="/home/ann", env=[("LD_PRELOAD", "evil.so")], umask=0)
    assert (job.spec.cwd, job.spec.umask, job.spec.own_cwd, job.spec.env) == (b"", 0o022, False, ())
    assert fixture.store.environment(job.spec.env_digest) == b"\x90"
    assert (job.spec.by, job.spec.constraints) == ("ann1", Constraints(remote=RemoteSubmitter()))
    assert job.state is State.PLACED


def test_the_owner_on_this_machine_is_no_guest() -> None:
    job = enqueue(
        DeciderFixture(WORKER), "--queue open true", OWNER, cwd="/", env=[("PATH", "/usr/bin:/bin")], umask=0o77
    )
    assert (job.spec.cwd, job.spec.umask, job.spec.by, job.spec.constraints.remote) == (b"/", 0o77, None, None)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--queue default true", "5: this can never run: queue 'default' takes no jobs from other machines"),
        ("-- true", "5: this can never run: queue 'default' takes no jobs from other machines"),
        ("train --cwd /tmp x", "5: this can never run: queue 'train' takes no --cwd from other machines"),
        ("train --env PATH=/x y", "5: this can never run: queue 'train' takes no variable PATH from other machines"),
        ("train --env SEED=1 --env A=2 y", "5: this can never run: queue 'train' takes no variable A from"),
        ("train --shell x", "2: queue 'train' has a command of its own"),
        ("train --wrap nice x", "5: this can never run: queue 'train' takes no --wrap from other machines"),
        ("boxed --cwd /tmp x", "5: this can never run: queue 'boxed' takes no --cwd from other machines"),
        ("boxed --env PATH=/x y", "5: this can never run: queue 'boxed' takes no variable PATH from other machines"),
        ("open --cwd sub true", "2: --cwd 'sub' on another machine must be an absolute path"),
        ("true", "3: there is no queue 'true'"),
        ("--gpu=1 job2 true", "3: there is no queue 'job2'"),
        ("A=1 true", "3: there is no queue 'A=1'"),
        ("trian x", "3: there is no queue 'trian' (did you mean 'train'?)"),
    ],
)
def test_what_a_sender_may_not_do_is_refused_in_words(line: str, why: str) -> None:
    assert refusal(line).startswith(why)


def test_the_way_to_name_a_queue_is_told() -> None:
    assert "grass enqueue --queue train trian ..." in refusal("trian x")


def test_in_a_queue_without_a_command_everything_typed_is_taken_where_it_is_open_or_the_token_says_so() -> None:
    fixture = DeciderFixture(WORKER)
    job = enqueue(fixture, [b"open", b"--cwd", b"/srv", b"--env", b"A=1", b"--shell", b"echo hi"])
    assert (job.spec.cwd, job.spec.own_cwd, job.spec.env, job.spec.shell) == (
        b"/srv",
        True,
        ((b"A", b"1"),),
        b"/bin/sh",
    )
    assert job.spec.constraints.remote == RemoteSubmitter(False, (b"A",), True, True)
    assert job.state is State.PLACED
    assert enqueue(fixture, "-- B=2 anything", ROOT).spec.env == ((b"B", b"2"),)
    assert enqueue(fixture, "--queue default no/such/program", ROOT).state is State.PLACED, "looked for where it runs"


def test_a_variable_the_queue_allows_is_taken() -> None:
    assert enqueue(DeciderFixture(WORKER), "train --env SEED=7 x").spec.env == ((b"SEED", b"7"),)


def test_a_token_of_named_queues_reaches_no_other() -> None:
    assert enqueue(DeciderFixture(WORKER), "train x", BOB).state is State.PLACED
    assert refusal("open true", BOB) == "5: your token may not use queue 'open'; it may use: train"


@pytest.mark.parametrize("queue", ["train", "boxed"])
def test_the_file_of_a_job_is_in_the_box_of_its_queue(queue: str) -> None:
    why = f"5: this can never run: queue '{queue}' takes no --output from other machines"
    assert refusal(f"{queue} --output /tmp/out x", ROOT).startswith(why)
    fixture = DeciderFixture(WORKER)
    waits = [enqueue(fixture, "open --cpu=8 --output /tmp/out x", ROOT) for _ in range(2)][1]
    assert waits.state is State.QUEUED, "a queue without a box takes it"
    changed = replace(next(each for each in (TRAIN, BOXED) if each.queue == queue), queue="open")
    fixture.hello(replace(WORKER, offers=(an_offer(), changed)), fresh=False)
    fixture.exited(waits.id - 1)
    blocked = fixture.job(waits.id)
    assert blocked.state is State.WAITING and "takes no --output" in (blocked.reason or "")
    assert enqueue(fixture, "open --cpu=8 --output /tmp/out x", OWNER, cwd="/", env=[("PATH", "/bin")]).id


def test_a_job_goes_only_to_workers_whose_queue_admits_it() -> None:
    bare = a_worker("a", offers=[an_offer("train")], cpu=8)
    fixture = DeciderFixture(bare, replace(WORKER, name="z"))
    assert enqueue(fixture, "train x").placement.worker == "z"  # type: ignore[union-attr]
    assert enqueue(fixture, "train x", OWNER, cwd="/").placement.worker == "a"  # type: ignore[union-attr]


def test_a_queue_that_loses_its_command_takes_waiting_guests_no_more() -> None:
    fixture = DeciderFixture(WORKER)
    first = enqueue(fixture, "train --cpu=8 x")
    waits = enqueue(fixture, "train --cpu=8 y")
    assert (first.state, waits.state) == (State.PLACED, State.QUEUED)
    fixture.hello(replace(WORKER, offers=(an_offer(), an_offer("train"))), fresh=False)
    fixture.exited(first.id)
    blocked = fixture.job(waits.id)
    assert blocked.state is State.WAITING and "takes no jobs from other machines" in (blocked.reason or "")
    fixture.hello(WORKER, fresh=False)
    assert fixture.job(waits.id).state is State.PLACED


def test_a_job_for_a_queue_that_comes_later_is_judged_when_it_comes() -> None:
    fixture = DeciderFixture(WORKER)
    job = enqueue(fixture, "later --cwd=/x -- run", ANN)
    assert job.state is State.WAITING
    fixture.hello(replace(WORKER, offers=(*WORKER.offers, Offer("later", {}, (b"p",)))), fresh=False)
    assert "takes no --cwd" in fixture.reason(job.id)


# What is known before a job starts.


def local_spec(words: list[bytes], known: QueueSnapshot, cwd: bytes = b"/") -> Spec:
    who = Submitter(cwd, environment_of(((b"PATH", b"/usr/bin:/bin"),)))
    return DraftBuilder(who, known, DEFAULT).read_enqueue(words)[1].spec


def known_of(*names: str, local: str | None = None) -> QueueSnapshot:
    board = a_board(*(a_worker(name, offers=[an_offer(), an_offer(f"only-{name}")], cpu=1) for name in names))
    board.roles = in_process(local)
    return snapshot_of(board)


def test_program_and_directory_are_checked_only_where_this_machine_will_run_the_job() -> None:
    missing = [b"--", b"no-such-program"]
    with pytest.raises(BadInput, match="no program 'no-such-program'"):
        local_spec(missing, known_of("here", local="here"))
    with pytest.raises(BadInput, match="there is no directory '/no/such'"):
        local_spec([b"--cwd", b"/no/such", b"--", b"true"], known_of("here", local="here"))
    with pytest.raises(BadInput, match="no program"):
        local_spec([b"only-here", *missing], known_of("here", "there", local="here"))
    with pytest.raises(BadInput, match="no program"):
        local_spec([b"--worker=here", *missing], known_of("here", "there", local="here"))
    both = known_of("here", "there", local="here")
    assert local_spec(missing, both).command == (b"no-such-program",)
    assert local_spec([b"--worker", b"there", *missing], both).constraints == Constraints(worker="there")
    assert local_spec([b"only-there", b"--cwd", b"/no/such", *missing], both).cwd == b"/no/such"
    assert local_spec(missing, known_of("there")).cwd == b"/"


def test_a_queue_of_several_workers_is_read_as_the_first_that_offered_it_says_also_after_a_restart() -> None:
    fixture = DeciderFixture(a_worker("z", offers=[an_offer(), TRAIN], cpu=1))
    fixture.hello(a_worker("a", offers=[an_offer(), an_offer("train", tape=2)], cpu=1))
    fixture.restart()
    for info in (
        a_worker("a", offers=[an_offer(), an_offer("train", tape=3)], cpu=1),
        fixture.decider.board.workers["z"].said,
    ):
        fixture.hello(info)
    known = snapshot_of(fixture.decider.board)
    assert known.offers["train"].prefix == TRAIN.prefix
    assert known.queues["train"].resources == {"cpu"}
    fixture.hello(a_worker("z", cpu=1))
    assert snapshot_of(fixture.decider.board).offers["train"].prefix == ()


def test_labels_and_workers_are_names() -> None:
    known = known_of("here")
    spec = local_spec([b"--label", b"b", b"--label=a100", b"--label", b"b", b"--worker=1st", b"--", b"true"], known)
    assert spec.constraints == Constraints(worker="1st", labels=("a100", "b"))
    for line in ([b"--label", b"no spaces"], [b"--worker", b"-x"], [b"--worker", b"a" * 65]):
        with pytest.raises(BadInput, match=r"cannot be a (label|worker name)"):
            local_spec([*line, b"--", b"true"], known)


def test_a_queue_for_another_machine_has_a_whole_path_or_that_machines(tmp_path: Path) -> None:
    here = Submitter(str(tmp_path).encode(), environment_of(()))

    def offer(line: str, who: Submitter = here) -> Offer:
        return validate.read_offer(enqueue_syntax.split_create_queue(line.encode().split()), who, in_process("here"))

    assert offer("q make").cwd == offer("q --worker here make").cwd == here.cwd
    assert offer("q --worker there make").cwd is None
    assert offer("q --worker there --cwd /no/such make").cwd == b"/no/such"
    with pytest.raises(BadInput, match="must be an absolute path"):
        offer("q --worker there --cwd sub make")
    with pytest.raises(BadInput, match="there is no directory"):
        offer("q --cwd sub make")
    remote = EnqueueBody(words=[], key="", cwd="/root").submitter(ROOT)
    assert offer("q make", remote).cwd is None
    allowed = offer("q --allow-env B --allow-env=A --allow-env A --unsecure make")
    assert (allowed.allow_env, allowed.unsecure) == ((b"A", b"B"), True)
    with pytest.raises(BadInput, match="--allow-env needs the name of a variable"):
        offer("q --allow-env A=1 make")


def test_a_guest_that_names_no_queue_is_told_so_whatever_this_machine_has() -> None:
    with pytest.raises(NotFound, match="names its queue first"):
        known_of("here").split([b"ls"], lambda word: True, is_remote=True)
