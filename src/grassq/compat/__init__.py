"""Doors of other schedulers: their commands as typed, as clients of the same queue."""
