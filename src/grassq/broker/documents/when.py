"""Forecasts as documents."""

from __future__ import annotations

from typing import TypedDict

from grassq.core.model import State
from grassq.core.resources.amounts import Amounts


class IntervalDocument(TypedDict):
    """When something will probably be, in RFC 3339."""

    low: str
    likely: str
    high: str


class WhenDocument(TypedDict):
    """When a job starts and ends."""

    starts: IntervalDocument | None
    ends: IntervalDocument | None
    #: What the run time is known from.
    basis: str
    #: From how many runs it is known.
    n: int
    #: Why an estimate is missing.
    reason: str | None


class EtaJobDocument(WhenDocument):
    """A job, and when it starts and ends."""

    #: None for a job that is not submitted.
    id: int | None
    name: str | None
    queue: str
    state: State
    command: list[str]
    shell: bool
    #: Where it will probably run.
    worker: str | None
    allocation: Amounts | None


class ForecastDocument(TypedDict):
    """A forecast as a whole."""

    #: When it was made.
    now: str
    #: How often the queue was played forward.
    plays: int


class BasisCalibrationDocument(TypedDict):
    """How many forecasts held."""

    count: int
    held: int
    #: What came earlier than the forecast said.
    early: int
    #: What came later.
    late: int


class CalibrationDocument(BasisCalibrationDocument):
    """How many forecasts held, in all and by what they rested on."""

    by_basis: dict[str, BasisCalibrationDocument]


class PredictionsDocument(TypedDict):
    """How often forecasts held whose time has come."""

    starts: CalibrationDocument
    ends: CalibrationDocument
    #: Forecasts whose time has not come.
    waiting: int
