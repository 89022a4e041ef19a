"""The file of `--output`: the log of an attempt under a name that the user has chosen.

Enter at `output_file.py`: `place` before the command starts, `complete` after it has ended. On the file system of the
run dir the file is a hard link of the log. On another one it is a symbolic link to the log while the job runs, and a
copy of the log afterwards (docs/adr/033-the-output-file-is-the-log.md).

May import what `grassq.run` may. A shim loads it only for a job with `--output`.

When the file cannot be made, or another file has the name, the job runs all the same. Its log is complete, and the
record of the attempt says why there is no file.
"""
