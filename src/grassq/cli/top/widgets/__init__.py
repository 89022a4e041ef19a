"""The widgets of `grass top`, made of lines that are drawn elsewhere.

`lines.py` has `LinesView`, which writes only cells that changed; `job_pane.py` and `log_pane.py` are the two large
panes. No widget takes keys: all of them go to the application, in the order they are typed.

May import textual, rich, `core.term` and the files of `cli.top` that decide what is drawn. Texts of jobs are drawn as
segments, never as markup, so a job cannot style, link or move anything.

When a widget is smaller than its lines, the rest is left out; nothing is drawn outside of the widget.
"""
