"""Where jobs are kept: one protocol, one file of SQL."""
