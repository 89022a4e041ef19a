"""The same homes and commands as in tests/cli."""

from __future__ import annotations

from tests.cli.conftest import grass, home

__all__ = ["grass", "home"]
