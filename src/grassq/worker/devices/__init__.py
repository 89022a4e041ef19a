"""What this machine has: processors, memory and devices.

Each way to find resources is one `Detector` in a file of its own; `detectors.DETECTORS` lists the built-in ones, and
other packages add theirs by the entry point group `grassq.devices`. A driver that hangs, crashes or is missing costs
its own resources and nothing else: the worker says hello without them and adds them when they are found.
"""
