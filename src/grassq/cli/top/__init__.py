"""`grass top`: devices, jobs, a live log and the reasons of one selected job on one screen of a terminal.

Enter at `run.py`, which prints one frame (`once.py`) or runs the screen: `screen_data.py` (what is shown), `looking.py`
(keys that look), `app.py` (keys that change, and the command line). What is decided is in files without a terminal:
`keys.py` (every key), `filters.py` (what was typed after `/`), `job_pages.py` and `job_window.py` (a window of rows,
however many jobs there are), `frame.py` and `job_rows.py` (what is drawn). `widgets/` draws it with textual, `feeds/`
has the threads that ask the daemon: they never wait for the screen, and the screen never waits for them.
`drawn_screen.py` has the widgets in their places, `typing_line.py` the lines at the bottom, `line_input.py` what may be
typed after `:`.

May import `net`, `home`, `core.syntax`, `core.term` and other files of `cli`. textual is imported only when `grass top`
runs on a terminal.

When the daemon goes away, what is shown stays, the first line says since when it is not live, and the threads ask again
after 0.5 to 5 seconds. When `top` itself fails, the terminal is restored and one line says where the details are.
"""
