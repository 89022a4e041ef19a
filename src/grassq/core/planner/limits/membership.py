"""The groups that a job is part of."""

from __future__ import annotations

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from grassq.core.job_options import SpecOptions
from grassq.core.model import Spec

#: How the name of the group of a sweep begins; its id follows.
SWEEP_GROUP = "sweep:"


def groups_of(options: SpecOptions) -> tuple[str, ...] | UnsetType:
    """Return the groups of a job that may have a limit, sorted; UNSET for a job of no group."""
    groups = [f"tag:{key}={value}" for key, value in options.tags]
    if options.project is not None:
        groups.append(f"project:{options.project}")
    return tuple(sorted(groups)) or UNSET


def regrouped(spec: Spec, before: Spec) -> Spec:
    """Return a spec with the groups of its project and its tags, and of the sweep that it was part of before."""
    own = groups_of(spec)
    swept = () if before.constraints.groups is UNSET else before.constraints.groups
    groups = {*(() if own is UNSET else own), *(name for name in swept if name.startswith(SWEEP_GROUP))}
    wanted = tuple(sorted(groups)) or UNSET
    if spec.constraints.groups == wanted:
        return spec
    return replace(spec, constraints=replace(spec.constraints, groups=wanted))
