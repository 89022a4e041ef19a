"""What people type, and nothing of what is decided: the part of `core` that clients may import.

`enqueue.py` splits the words after `grass enqueue`, `options.py` the options among them, `selectors.py` reads `3-7`,
`@` or `failed`, `shell_lines.py` reads commands from a file, `placeholders.py` fills in `{gpu}`. `durations.py`,
`addresses.py`, `store_urls.py`, `join_codes.py` and `slots.py` read one kind of word each. `sweep.py` makes the lines
of a parameter search, `permutation.py` their random order. `file_words.py` reads the words of --send and --fetch,
`numbers.py` whole numbers and ranges of ids; `resource_names.py` has the resources that Grass knows by name.

Pure and light to import, because every command pays for it.

When words can be read in two ways, one rule decides (see `enqueue.py`); when they cannot be read at all, `BadInput`
says what is wrong and what to write instead, the exit code is 2, and nothing is stored.
"""
