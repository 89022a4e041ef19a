"""Notices: what people are told when jobs end, where notices go, and their words.

`targets` reads what `--notify` and the settings name: a command, a URL, the desktop. `rules` holds the rules of the
settings and says which of them an end of a job concerns. `notice` has the end of a job as it is stored until
it was told, and the notice as a document, as words and as variables.

Enter at `targets.read_target`, `rules.wants` and `notice.about_job`. `grassq.notify` sends what is made here. It may
import `core` only, and does no I/O.

When a target or a rule is wrong, BadInput or ValueError says so in one line, before anything is stored. No
notice holds a variable of an environment, and `targets.masked` hides what may be a secret.
"""
