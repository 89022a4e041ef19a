"""What a sweep that is applied again has to run: the difference between its points and the jobs that are there."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from grassq.core.sweeps.parameters import Parameters

#: The states of a job that is left as it is, whatever the sweep says now.
_STARTED = frozenset({"placed", "running"})
_UNSTARTED = frozenset({"held", "waiting", "queued"})


class PointJob(Struct, frozen=True):
    """The newest job of a point."""

    id: int
    state: str
    #: What it runs: equal for equal commands and options.
    digest: str | None


class Difference(Struct, frozen=True):
    """The points of a sweep by what becomes of them."""

    #: No job stands for the point.
    new: tuple[Parameters, ...] = ()
    #: The command or the options differ from those of its job, which has not started or has ended.
    changed: tuple[Parameters, ...] = ()
    #: Its job failed or was cancelled.
    again: tuple[Parameters, ...] = ()
    #: Its job runs, or has not started, or succeeded.
    kept: tuple[Parameters, ...] = ()
    #: There is a job, and the sweep no longer has the point.
    gone: tuple[Parameters, ...] = ()

    @property
    def runs(self) -> frozenset[Parameters]:
        """The points for which a job is submitted."""
        return frozenset((*self.new, *self.changed, *self.again))


def point_of(parameters: Parameters) -> Parameters:
    """Return what names a point: its parameters in an order of their own."""
    return tuple(sorted(parameters))


def difference(wanted: Mapping[Parameters, str], there: Mapping[Parameters, PointJob]) -> Difference:
    """Compare the points of a sweep, each with its digest, with the newest job of each point."""
    found: dict[str, list[Parameters]] = {name: [] for name in Difference.__struct_fields__}
    for point, digest in wanted.items():
        found[_becomes(digest, there.get(point))].append(point)
    found["gone"] = [point for point in there if point not in wanted]
    return Difference(**{name: tuple(points) for name, points in found.items()})


def _becomes(digest: str, job: PointJob | None) -> str:
    if job is None:
        return "new"
    if job.state in _STARTED:
        return "kept"
    if job.digest != digest:
        return "changed"
    return "kept" if job.state in _UNSTARTED or job.state == "succeeded" else "again"


def replaced(found: Difference, there: Mapping[Parameters, PointJob]) -> list[int]:
    """Return the jobs that have not started and that a changed point replaces."""
    return [there[point].id for point in found.changed if there[point].state in _UNSTARTED]


def unfinished(found: Difference, there: Mapping[Parameters, PointJob]) -> list[int]:
    """Return the unfinished jobs of points that are gone."""
    return [there[point].id for point in found.gone if there[point].state in _UNSTARTED | _STARTED]
