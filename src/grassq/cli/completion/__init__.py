"""Completion in the shell: what TAB offers after `grass`.

`shells/` has a script for each shell. At every TAB the script calls `grass __complete WORD...`, which `answer.py` runs
without argparse: `grammar.py` tells from `table.tsv` what can come at the cursor, and the daemon is asked for jobs,
names, queues and workers. `table.py` writes `table.tsv` from the parsers and the help texts (`make docs`); a test
compares the two, so a new command is completed as soon as it is in core/syntax/commands.py.

`answer.py` and `grammar.py` may import `home`, `net` and nothing heavy: a call takes less than 60 ms with the start of
the interpreter. `table.py` imports every command.

When no daemon runs, when the daemon does not answer in time, or when its answer cannot be read, the words of the table
alone are offered. A daemon is never started, and no message reaches the prompt. Text of jobs is shown as a description
only; a word that a shell could read as anything but a plain word is left out.
"""
