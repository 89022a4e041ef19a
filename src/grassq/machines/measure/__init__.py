"""What a machine has, what is free of it, and what others use of it.

`probe.py` asks a machine, whose shell reads `probe.sh` from its stdin: nothing need be installed there.
`report_lines.py` and `gpu_probe.py` read the report. `others_use.py` tells the worker what has changed since the last.

May import `core`, `worker.devices`, `worker.machine` and the machine's transport.

When a driver there hangs, its tool is left behind and asked less often. When a report cannot be read, the machine keeps
what is known of it.
"""
