"""What commands read besides their words: files, scripts, folders and codes.

`code_input.py` reads a one-time code, `machine_file.py` a machine in YAML, `points.py` the points of --each,
`script_options.py` the options in a script, and `snapshots.py` makes snapshots of the folders of --send.

May import what `cli` may. Loaded only by the commands that need it, because every import costs start-up time.

When a file cannot be read or says something wrong, one line names the file and the line, and nothing is sent.
"""
