"""The command line: a table of commands, one file per noun, one file that prints."""
