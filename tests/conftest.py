"""How properties are searched: the same examples in every run, so that a change is judged and not the dice.

`EXPLORE=1 make test` draws others; what it finds becomes a test of its own. There is no deadline, because a busy
machine is no bug.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("others", deadline=None)
settings.load_profile("others" if os.environ.get("EXPLORE") else "same")
