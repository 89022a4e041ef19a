"""Options of simulated jobs and queues that only some worlds have: start times, time limits, groups and sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace
from tests.sim.promises.start_times import word_of

from grassq.broker.service import Draft
from grassq.broker.sweeps.objects import NewSweep
from grassq.core.model import Offer, Spec
from grassq.core.options.warning import Warn
from grassq.core.planner.limits.groups import GroupLimit
from grassq.core.planner.limits.membership import groups_of, regrouped
from grassq.core.resources.amounts import ONE

if TYPE_CHECKING:
    from tests.sim.play import Play

#: What can have a limit, and limits; None removes one.
GROUPS = ("project:p", "project:p", "project:r", "tag:team=a")
LIMITS = (
    None,
    GroupLimit({"gpu": ONE}),
    GroupLimit({"gpu": ONE // 2}),
    GroupLimit({"cpu": 2 * ONE, "gpu": 2 * ONE}),
    GroupLimit({"cpu": ONE}),
    GroupLimit(jobs=1),
    GroupLimit({"gpu": ONE}, jobs=2),
)
#: Limits of jobs in seconds: some are never reached, some let others pass who end before.
TIME_LIMITS = (None, None, 1.0, 2.0, 2.0, 4.0, 12.0, 30.0)
WARNINGS = (None, None, Warn(0.5), Warn(1.0), Warn(100.0))
RETRY_ON: tuple[tuple[str, ...], ...] = ((), (), ("timed_out",), ("1",), ("1", "timed_out"))
NO_RETRY_ON: tuple[tuple[str, ...], ...] = ((), (), (), ("timed_out",), ("77",))


def with_features(play: Play, draft: Draft) -> Draft:
    """A job with the options of its world."""
    rng, features, spec = play.rng, play.features, draft.spec
    if features.has_start_times and rng.random() < 0.4:
        # By the true time: on a clock that was set it may be over, or long to come.
        at = 1_700_000_000.0 + play.now + rng.choice((-3.0, 0.5, rng.uniform(0, 6), rng.uniform(4, 25)))
        draft, spec = replace(draft, at=at, in_s=None), replace(spec, command=(*spec.command, *word_of(at)))
    if features.has_limits:
        limit_s = rng.choice(TIME_LIMITS)
        spec = replace(spec, time_limit_s=limit_s, warn=None if limit_s is None else rng.choice(WARNINGS))
        spec = replace(spec, retry_on=rng.choice(RETRY_ON), no_retry_on=rng.choice(NO_RETRY_ON))
    if features.has_caps:
        tags = rng.choice(((), (("team", "a"),)))
        spec = replace(spec, project=rng.choice((None, "p", "p", "r")), tags=tags)
    return replace(draft, spec=constrained(spec, None))


def constrained(spec: Spec, before: Spec | None) -> Spec:
    """A spec whose constraints say what its options mean for the planner, as a submission and an edit make them."""
    limit_s = spec.time_limit_s
    constraints = replace(
        spec.constraints,
        limit_s=UNSET if limit_s is None else limit_s,
        lasts_s=UNSET if limit_s is None else limit_s + spec.grace_s,
        groups=groups_of(spec),
    )
    spec = replace(spec, constraints=constraints)
    return spec if before is None else regrouped(spec, before)


def sweep_of(play: Play, count: int) -> NewSweep | None:
    """Some jobs that are submitted together are a sweep, of which few run at once."""
    if not play.features.has_caps or count == 1 or play.rng.random() < 0.4:
        return None
    return NewSweep(kind="array", at_once=play.rng.choice((1, 1, 2, 3)))


def with_limits(play: Play, offer: Offer) -> Offer:
    """A queue that may have a time limit for those who name none, and a longest one."""
    if not play.features.has_limits:
        return offer
    usual_s, most_s = play.rng.choice(((None, None), (None, None), (3.0, None), (3.0, 15.0), (None, 8.0)))
    return replace(offer, time_limit_s=usual_s, max_time_limit_s=most_s)
