"""The table of a sweep: the parameters of its jobs and the numbers of their results, as columns.

Enter at `table.py`: `table_of(jobs)`. `parameters.py` finds what differs between the commands of jobs, for jobs that do
not have their parameters as a field, and says how many parameters a job may have.

Pure: imports `core` only. All texts stay texts: nothing in a value is read as anything else than a number.

When commands have nothing in common, every word is a column, up to PARAMETERS_MAX; values that are missing are None.
"""
