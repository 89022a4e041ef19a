"""Decisions: pure functions and records, no I/O, no clock, no randomness."""
