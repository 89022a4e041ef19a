"""Names of Grass for jobs that another program has named."""

from __future__ import annotations

import re

from grassq.core.names import is_name

NAME_MAX = 64
#: The name of a job whose name has no letter or digit.
UNNAMED = "job"

_OTHER = re.compile(r"[^\w.-]+")


def job_name(text: str) -> str:
    """Return a text as the name of a job: other characters become `-`, and a reserved word gets a prefix."""
    name = _OTHER.sub("-", text).strip("-._")[:NAME_MAX].rstrip("-._")
    if is_name(name):
        return name
    name = f"{UNNAMED}-{name}"[:NAME_MAX] if name else UNNAMED
    return name if is_name(name) else UNNAMED
