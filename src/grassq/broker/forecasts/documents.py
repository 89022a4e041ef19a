"""Forecasts as the documents that users see."""

from __future__ import annotations

from grassq.broker.documents.texts import timestamp, word_text
from grassq.broker.documents.when import EtaJobDocument, ForecastDocument, IntervalDocument
from grassq.core.forecast.forecast import Forecast, Interval, JobForecast
from grassq.core.model import Job
from grassq.core.resources.amounts import allocation_json


def interval_document(interval: Interval | None) -> IntervalDocument | None:
    """Return an interval as RFC 3339 times."""
    if interval is None:
        return None
    return {
        "low": timestamp(interval.low),
        "likely": timestamp(interval.likely),
        "high": timestamp(interval.high),
    }


def eta_document(job: Job, found: JobForecast) -> EtaJobDocument:
    """Return when a job starts and ends, and on what that rests; `reason` says why an estimate is missing."""
    return {
        "id": job.id,
        "name": job.name,
        "queue": job.spec.queue,
        "state": job.state,
        "command": [word_text(word) for word in job.spec.command],
        "shell": job.spec.shell is not None,
        "starts": interval_document(found.starts),
        "ends": interval_document(found.ends),
        "basis": found.basis,
        "n": found.count,
        "reason": found.why,
        "worker": None if found.where is None else found.where.worker,
        "allocation": None if found.where is None else allocation_json(found.where.allocation),
    }


def forecast_document(forecast: Forecast) -> ForecastDocument:
    """Return what is said of a forecast as a whole."""
    return {"now": timestamp(forecast.scene.wall), "plays": len(forecast.plays)}
