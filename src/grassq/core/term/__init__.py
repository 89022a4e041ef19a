"""Terminal output as lines: what people see of carriage returns, cursor moves and colours. One reader for every view.

`screen.py` has `Screen`: it takes the bytes of a log piece by piece and returns the lines that can no longer change; a
window of the last 100 lines may still change. `fold` does the same for bytes that are all there. `line.py` has `Line`
and `Span`, which is a text in one style; `style.py` packs a style into an integer and writes it as an escape sequence
or as words. `row.py` is one line while it can change, `state.py` writes a screen as bytes, `sequences.py`
spells escape sequences. `linear.py` counts lines that are written from top to bottom without looking at each;
`scan.py` gives them to a search as blocks.

Pure, like all of `core`: imports pure modules of the standard library, and msgspec in `state.py`. Clients may import
the package.

When bytes are no valid text, escape sequences are broken or never end, or a line is longer than 10,000 columns, the
reader goes on: it shows a replacement character, skips the sequence, or cuts the line and counts what it left out. A
saved state that is damaged raises ValueError.
"""
