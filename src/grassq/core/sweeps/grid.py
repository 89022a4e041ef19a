"""The points of a sweep: the combinations of values, with the rows of a file, without those that are left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product

from grassq.core.names import shown
from grassq.core.permutation import order
from grassq.core.sweeps.exclusions import leaves_out
from grassq.core.sweeps.points import Points
from grassq.core.syntax.sweep import Search
from grassq.errors import BadInput

#: The combinations that are looked at for those that are left out.
GRID_MAX = 1_000_000


class GridSearch(Search):
    """A search whose points are listed: each row of a file with each combination of values, unless it is left out."""

    def __init__(
        self,
        command: str,
        parameters: dict[str, list[str]],
        samples: int | None = None,
        *,
        rows: Points | None = None,
        exclude: Sequence[str] = (),
    ) -> None:
        of_file = {} if rows is None else {name: [*dict.fromkeys(values)] for name, values in rows.columns().items()}
        if twice := next((name for name in of_file if name in parameters), None):
            raise BadInput(f"parameter {shown(twice)} is in the file of points and has values of its own; give one")
        super().__init__(command, of_file | parameters, samples)
        # A column of a file need not be in the command: it may be in the name of the job, or for people to read.
        self.notes = Search(command, of_file | parameters).notes if rows is None else []
        first = [()] if rows is None else rows.rows
        count = len(first)
        for values in parameters.values():
            count *= len(values)
        if count > GRID_MAX:
            raise BadInput(f"{count:,} combinations are more than {GRID_MAX:,}; give fewer values, or no --exclude")
        is_left_out = leaves_out(exclude, [*self.parameters])
        every = ((*row, *rest) for row in first for rest in product(*parameters.values()))
        self._listed = [point for point in every if not is_left_out(point)]
        if not self._listed:
            raise BadInput("--exclude leaves out every point, so there is nothing to run")
        self.points = len(self._listed)
        self.count = self.points if samples is None else min(samples, self.points)

    def values(self, seed: int | None) -> Iterator[tuple[str, ...]]:
        """Yield the points asked for: in the order that `seed` decides, or without a seed in their own order."""
        if seed is None:
            return islice(iter(self._listed), self.count)
        return (self._listed[number] for number in islice(order(self.points, seed), self.count))
