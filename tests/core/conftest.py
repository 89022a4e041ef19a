"""How the properties of the core are searched: no deadline, because a busy machine is no bug."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("core", deadline=None)
settings.load_profile("core")
