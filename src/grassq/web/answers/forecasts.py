"""What the routes about forecasts answer."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from grassq.broker.documents.when import EtaJobDocument, ForecastDocument, IntervalDocument, PredictionsDocument


class EtaDocument(ForecastDocument):
    """When jobs start and end."""

    jobs: list[EtaJobDocument]
    #: When all of them are over, or everything without a selector.
    done: IntervalDocument | None
    #: Whether there are jobs that are not in the answer.
    more: bool
    #: Without a selector: how many jobs run and are queued.
    running: NotRequired[int]
    queued: NotRequired[int]
    #: With a selector: jobs of which no end can be told.
    without_estimate: NotRequired[int]
    #: With a selector: how many jobs are selected, and how many of them have not ended.
    selected: NotRequired[int]
    unfinished: NotRequired[int]


class CheckedDocument(PredictionsDocument):
    """How often forecasts held."""

    #: The part of all forecasts that an interval is made for: 0.9 is 9 of 10.
    share: float


class PlayOutcomeDocument(TypedDict):
    """What comes of one play of the queue."""

    done: IntervalDocument | None
    #: Jobs of which no end can be told.
    without_estimate: int
    mean_wait_s: float | None


class OtherCapacityDocument(ForecastDocument):
    """What another capacity would change."""

    #: With the capacity as it is.
    before: PlayOutcomeDocument
    after: PlayOutcomeDocument
    notes: list[str]
    selected: int
    unfinished: int
    more: bool


class ImaginedJobDocument(ForecastDocument):
    """When and where a job would start and end."""

    job: EtaJobDocument
    warnings: list[str]
