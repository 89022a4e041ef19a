"""The resources of this machine: processors, memory and devices.

Each way to find resources is one `Detector` in a file of its own. `detectors.DETECTORS` lists the built-in ones, and
other packages add theirs by the entry point group `grassq.devices`. Detection runs after the daemon answers. Until it
ends, a request for a device that is not found yet waits. `host.py` finds processors and memory, `nvidia.py` cards;
`detector.py` is the interface.

May import `core` and the driver's library.

When a driver hangs, crashes or is missing, only its own resources are missing: the worker sends its hello without them
and adds them when they are found. A queue can still declare them by hand.
"""
