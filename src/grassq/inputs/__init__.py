"""Files that commands and programs read besides their words: scripts with options, points and sweeps.

`files.py` reads a file up to a bound, `points.py` the points of --each and of a sweep, `script_options.py` the options
inside a script, and `sweep_files.py` a sweep in a file.

May import of `core` what people type; `cli`, `compat` and `sdk` use it. `script_options.py` is light to load, because
every `grass enqueue` does.

When a file cannot be read or says something wrong, one line names the file and the line, and nothing is sent.
"""
