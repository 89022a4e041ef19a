"""The promise about time limits: an attempt ends at its limit, not before, and is reported so, whatever has crashed."""

from __future__ import annotations

from tests.sim.promises.promise import demand
from tests.sim.things import Command, RunDir

from grassq.core.model import Job, Offer, Outcome, Spec
from grassq.store.base import Attempt

#: What it takes from a limit until all processes are gone, besides the grace.
SLACK_S = 0.5
#: Two times that differ by less are the same.
SAME_S = 0.01


def check_placement(job: Job, offer: Offer) -> None:
    """A new attempt has the limit that its job names, else that of its queue, and no longer one than the queue has."""
    assert job.placement is not None
    usual_s = offer.max_time_limit_s if offer.time_limit_s is None else offer.time_limit_s
    wanted_s = usual_s if job.spec.time_limit_s is None else job.spec.time_limit_s
    demand(job.placement.time_limit_s == wanted_s, f"{job} was placed with another limit than {wanted_s}, in {offer}")
    most_s = offer.max_time_limit_s
    demand(most_s is None or (wanted_s or 0.0) <= most_s, f"{job} was placed in {offer}, which allows less")


def check_running(command: Command, folder: RunDir, now: float) -> None:
    """A command does not outlive its limit by more than its grace, unless nobody keeps it any more."""
    limit_s = _limit_of(command)
    if limit_s is None or folder.shim is None or not folder.shim.alive:
        return
    most_s = limit_s + max(command.start.spec.grace_s, folder.stop or 0.0, folder.lease.length_s if folder.lease else 0)
    ran_s = command.ran_s(now)
    demand(ran_s <= most_s + SLACK_S, f"{command.id} has run for {ran_s} s, and its limit is {limit_s} s")


def check_end(outcome: Outcome | None, command: Command) -> None:
    """An attempt that is said to have reached its limit has, and one that has is not said to have ended by itself."""
    limit_s, ran_s = _limit_of(command), command.ran_s(command.ended or 0.0)
    if outcome is Outcome.TIMED_OUT:
        demand(limit_s is not None, f"{command.id} is said to have reached a limit, and has none")
        assert limit_s is not None
        demand(ran_s >= limit_s - 1e-6, f"{command.id} was ended after {ran_s} s of {limit_s} s")
        warn = command.start.spec.warn
        demand(len(command.warned_at) == (warn is not None), f"{command.id} was warned at {command.warned_at}: {warn}")
    elif outcome in (Outcome.EXITED, Outcome.SIGNALLED):
        within = limit_s is None or ran_s <= limit_s + SAME_S
        demand(within, f"{command.id} ran for {ran_s} s of {limit_s} s, and is said to have {outcome}")


def check_tries(spec: Spec, attempts: list[Attempt]) -> None:
    """After an attempt that reached its limit there is another only where the job asks for it."""
    for attempt in attempts[:-1]:
        if attempt.outcome is Outcome.TIMED_OUT:
            demand(
                _tries_again(spec, attempt.exit_code),
                f"job {attempt.job} was tried again after its limit, against {spec}",
            )


def check_given_up(job: Job) -> None:
    """A job that ended at its limit has no try left that it asked for."""
    if job.outcome is Outcome.TIMED_OUT:
        demand(job.tried >= job.spec.tries or not _tries_again(job.spec, job.exit_code), f"{job} had another try")


def _tries_again(spec: Spec, code: int | None) -> bool:
    """Whether a job asks for another try after an attempt that reached its limit, and ended with a code in its grace.

    No word for a signal is played.
    """
    ends = {"timed_out", str(code)}
    return (not spec.retry_on or bool(ends & {*spec.retry_on})) and not ends & {*spec.no_retry_on}


def _limit_of(command: Command) -> float | None:
    start = command.start
    return start.placement.time_limit_s if start.spec.time_limit_s is None else start.spec.time_limit_s
