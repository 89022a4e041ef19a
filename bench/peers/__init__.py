"""Grass beside other queues and the physical limit: `python -m bench peers`.

Nothing is imported here: the drivers in this folder run in an environment that has no Grass.
"""
