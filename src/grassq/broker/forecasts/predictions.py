"""Predictions that are stored, so that it can be told how often they held: made, judged, and counted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from grassq.broker.batch import Batch
from grassq.broker.documents.when import BasisCalibrationDocument, CalibrationDocument, PredictionsDocument
from grassq.core.model import FINAL, Job, Outcome, State
from grassq.store.base import Prediction

#: Outcomes that a run comes to by itself; the end of any other run was not to be predicted.
_OWN_ENDS = frozenset({Outcome.EXITED, Outcome.SIGNALLED})


def stored(batch: Batch) -> list[Prediction]:
    """Return the predictions that are kept, oldest first."""
    return batch.store.predictions()


def record(batch: Batch, made: Sequence[Prediction]) -> None:
    """Store new predictions; a job has at most one of each kind, the first."""
    batch.changes.predicted += made


def judge(batch: Batch, waiting: Sequence[Prediction]) -> list[Prediction]:
    """Store what came of predictions whose time has come or will never come; return those that came, as judged."""
    jobs = batch.fetch({each.job for each in waiting})
    judged: list[Prediction] = []
    for each in waiting:
        is_over, actual = _came(each, jobs.get(each.job))
        if is_over:
            batch.changes.judged[each.job, each.kind] = actual
        if actual is not None:
            judged.append(_with_actual(each, actual))
    return judged


def _came(prediction: Prediction, job: Job | None) -> tuple[bool, float | None]:
    """Return whether the time of a prediction has come or will never come, and when it came."""
    if job is None:
        return True, None
    if prediction.kind == "start":
        # A job that waits for another try has started once, but its first start is not known any more.
        started = job.started if job.state in FINAL or job.state is State.RUNNING else None
        return job.state in FINAL or started is not None, started if job.attempt == 1 else None
    if job.state not in FINAL:
        # Another attempt begins anew.
        is_void = job.started is not None and job.started > prediction.made
        return is_void, None
    return True, job.finished if job.outcome in _OWN_ENDS and job.state is not State.CANCELLED else None


def _with_actual(each: Prediction, actual: float) -> Prediction:
    values = {name: getattr(each, name) for name in Prediction.__struct_fields__}
    return Prediction(**{**values, "actual": actual})


def calibration(predictions: Iterable[Prediction]) -> PredictionsDocument:
    """Return how many predictions held, came earlier and came later, of starts and of ends, in all and by basis."""
    found: dict[str, dict[str, BasisCalibrationDocument]] = {"start": {}, "end": {}}
    waiting = 0
    for each in predictions:
        if each.actual is None:
            waiting += 1
            continue
        for basis in ("", each.basis):
            counts = found[each.kind].setdefault(basis, _none())
            counts["count"] += 1
            if each.actual < each.low:
                counts["early"] += 1
            elif each.actual > each.high:
                counts["late"] += 1
            else:
                counts["held"] += 1
    return {"starts": _calibrated(found["start"]), "ends": _calibrated(found["end"]), "waiting": waiting}


def _none() -> BasisCalibrationDocument:
    return {"count": 0, "held": 0, "early": 0, "late": 0}


def _calibrated(by: dict[str, BasisCalibrationDocument]) -> CalibrationDocument:
    return {**by.pop("", _none()), "by_basis": dict(sorted(by.items()))}
