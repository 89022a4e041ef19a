"""Styles of text, each packed into one integer: 0 is plain text.

The low bits are attributes; then come a foreground and a background colour of 26 bits each. A colour is 0 (the
default), 1 + n for colour n of the palette of 256, or TRUE_COLOUR | 0xrrggbb. Concealed and blinking text is shown as
ordinary text: a log must not hide what it says.
"""

from __future__ import annotations

from functools import lru_cache

BOLD, DIM, ITALIC, UNDERLINE, REVERSE, STRIKE = (1 << bit for bit in range(6))
TRUE_COLOUR = 1 << 25
RESET = "\x1b[0m"

#: Numbers of one sequence that are read; the rest is ignored.
PARAMETERS_MAX = 64

_FOREGROUND, _BACKGROUND, _COLOUR_BITS = 8, 34, 26
_COLOUR = (1 << _COLOUR_BITS) - 1
_STYLE_MAX = 1 << (_BACKGROUND + _COLOUR_BITS)

_ON = {1: BOLD, 2: DIM, 3: ITALIC, 4: UNDERLINE, 7: REVERSE, 9: STRIKE, 21: UNDERLINE}
_OFF = {22: BOLD | DIM, 23: ITALIC, 24: UNDERLINE, 27: REVERSE, 29: STRIKE}
_NAMES = {BOLD: "bold", DIM: "dim", ITALIC: "italic", UNDERLINE: "underline", REVERSE: "reverse", STRIKE: "strike"}
_CODES = {BOLD: "1", DIM: "2", ITALIC: "3", UNDERLINE: "4", REVERSE: "7", STRIKE: "9"}


def foreground(style: int) -> int:
    """Return the colour of the text."""
    return style >> _FOREGROUND & _COLOUR


def background(style: int) -> int:
    """Return the colour behind the text."""
    return style >> _BACKGROUND & _COLOUR


def is_style(value: int) -> bool:
    """Tell whether an integer is a style."""
    return 0 <= value < _STYLE_MAX


@lru_cache(maxsize=4096)
def apply(style: int, parameters: bytes) -> int:
    """Return the style after the sequence CSI `parameters` m."""
    groups = parameters.split(b";", PARAMETERS_MAX)[:PARAMETERS_MAX]
    at = 0
    while at < len(groups):
        parts = [_number(part) for part in groups[at].split(b":", 8)]
        code = parts[0]
        at += 1
        if code in (38, 48):
            if len(parts) > 1:
                colour = _colour([part for part in parts[1:] if part is not None], has_space=len(parts) > 5)
            else:
                rest = [_number(group) for group in groups[at : at + 4]]
                colour = _colour([part or 0 for part in rest])
                at += {5: 2, 2: 4}.get(rest[0] or 0 if rest else 0, 1)
            style = style if colour is None else _with_colour(style, code == 38, colour)
        else:
            style = _apply_code(style, code or 0, off=len(parts) > 1 and parts[1] == 0)
    return style


def _apply_code(style: int, code: int, off: bool) -> int:
    if code == 0:
        return 0
    if code in _ON:
        return style & ~_ON[code] if off else style | _ON[code]
    if code in _OFF:
        return style & ~_OFF[code]
    if 30 <= code <= 37 or 90 <= code <= 97:
        return _with_colour(style, True, 1 + code - (30 if code < 40 else 82))
    if 40 <= code <= 47 or 100 <= code <= 107:
        return _with_colour(style, False, 1 + code - (40 if code < 50 else 92))
    if code in (39, 49):
        return _with_colour(style, code == 39, 0)
    return style


def _colour(parts: list[int], has_space: bool = False) -> int | None:
    """Return the colour of 5;n or 2;r;g;b (2:space:r:g:b in the form with colons); None if there is none."""
    if len(parts) >= 2 and parts[0] == 5 and parts[1] < 256:
        return 1 + parts[1]
    if has_space and len(parts) > 4:
        del parts[1]
    if len(parts) >= 4 and parts[0] == 2 and max(parts[1:4]) < 256:
        return TRUE_COLOUR | parts[1] << 16 | parts[2] << 8 | parts[3]
    return None


def _with_colour(style: int, is_foreground: bool, colour: int) -> int:
    shift = _FOREGROUND if is_foreground else _BACKGROUND
    return style & ~(_COLOUR << shift) | colour << shift


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() and len(text) < 6 else None


@lru_cache(maxsize=1024)
def sgr(style: int) -> str:
    """Return the escape sequence that switches a style on from plain text; empty for plain text."""
    codes = [code for bit, code in _CODES.items() if style & bit]
    for colour, base in ((foreground(style), 30), (background(style), 40)):
        if colour & TRUE_COLOUR:
            codes.append(f"{base + 8};2;{colour >> 16 & 255};{colour >> 8 & 255};{colour & 255}")
        elif 0 < colour <= 8:
            codes.append(str(base + colour - 1))
        elif 8 < colour <= 16:
            codes.append(str(base + 60 + colour - 9))
        elif colour:
            codes.append(f"{base + 8};5;{colour - 1}")
    return f"\x1b[{';'.join(codes)}m" if codes else ""


@lru_cache(maxsize=1024)
def words(style: int) -> str:
    """Return a style as words for a page: `bold fg1 bg#00ff00`; empty for plain text."""
    named = [name for bit, name in _NAMES.items() if style & bit]
    for colour, name in ((foreground(style), "fg"), (background(style), "bg")):
        if colour & TRUE_COLOUR:
            named.append(f"{name}#{colour & 0xFFFFFF:06x}")
        elif colour:
            named.append(f"{name}{colour - 1}")
    return " ".join(named)


@lru_cache(maxsize=1024)
def parse_words(text: str) -> int:
    """Return the style that `words` wrote; words that are not known mean nothing."""
    bits = {name: bit for bit, name in _NAMES.items()}
    style = 0
    for word in text.split()[:PARAMETERS_MAX]:
        kind, value = word[:2], word[2:]
        if word in bits:
            style |= bits[word]
        elif kind in ("fg", "bg") and value.isascii() and value.isdigit() and int(value[:4]) < 256:
            style = _with_colour(style, kind == "fg", 1 + int(value[:4]))
        elif kind in ("fg", "bg") and len(value) == 7 and not set(value[1:].lower()) - set("0123456789abcdef"):
            style = _with_colour(style, kind == "fg", TRUE_COLOUR | int(value[1:], 16))
    return style
