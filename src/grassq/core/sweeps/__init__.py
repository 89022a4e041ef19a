"""Sweeps: where their points come from, what becomes of them, and their parameters and results as a table.

`sweep.py` is a sweep as it is stored. `ranges.py` reads values such as `0..4`, `arrays.py` the indexes of `--array`,
`points.py` files of points, `exclusions.py` what is left out; `grid.py` joins them to the points of a sweep.
`sweep_file.py` reads a whole sweep in TOML.
`difference.py` says what a sweep that is applied again has to run. `parameters.py` says how many parameters a job may
have, and finds what differs between the commands of jobs that do not have them as a field; `table.py` makes columns of
parameters and results: `table_of(jobs)`.

Pure: imports `core` only. All texts stay texts: nothing in a value is read as anything else than a number.

When commands have nothing in common, every word is a column of the table, up to PARAMETERS_MAX; values that are
missing are None. What cannot be read is refused with its file and line.
"""
