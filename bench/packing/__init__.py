"""How well Grass packs: against the shortest schedule on small cases, against other policies on traces."""

from bench.packing.report import main

__all__ = ["main"]
