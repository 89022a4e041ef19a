"""What commands alone read besides their words: folders, machines and codes; `grassq.inputs` has the rest.

`code_input.py` reads a one-time code, `machine_file.py` a machine in YAML, and `snapshots.py` makes snapshots of the
folders of --send.

May import what `cli` may. Loaded only by the commands that need it, because every import costs start-up time.

When a file cannot be read or says something wrong, one line names the file and the line, and nothing is sent.
"""
