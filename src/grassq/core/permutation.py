"""A random order of many numbers without a list of them: each element is computed by itself.

The numbers are the cells of a table with about as many rows as columns. A round moves every cell within its row, then
every cell within its column, by an amount that only the row or the column decides. Each move can be undone, so no two
numbers ever meet. The table has a few more cells than there are numbers; a number that lands on an extra cell is moved
again until it lands on a real one.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: Three rounds make a large table look random. A small table has few and similar rows: it takes more rounds until all
#: orders of five numbers are about equally frequent, and costs nothing.
ROUNDS = 3
SMALL = 4096
ROUNDS_OF_SMALL = 12
#: Bits beyond those of a row or column, so that no row or column is chosen more often than another.
_SPARE_BITS = 24

_WORD_BITS = 64
_WORD = (1 << _WORD_BITS) - 1


def order(count: int, seed: int) -> Iterator[int]:
    """Yield every number below `count` once, in an order that `seed` alone decides."""
    rows = 1 << max(1, ((count - 1).bit_length() + 1) // 2)
    columns = -(-count // rows)
    half = max(rows, columns).bit_length() + _SPARE_BITS
    mask, low = (1 << 2 * half) - 1, rows - 1
    rounds = _keys(seed, 2 * half, ROUNDS if count > SMALL else ROUNDS_OF_SMALL)
    for number in range(count):
        while True:
            column, row = divmod(number, rows)
            for add, times, again, add_too, times_too, again_too in rounds:
                # Multiplied twice with a fold in between: one multiplication alone would be a straight line.
                mixed = (column + add) * times & mask
                row = row + (((mixed ^ mixed >> half) * again & mask) >> half) & low
                mixed = (row + add_too) * times_too & mask
                column = (column + (((mixed ^ mixed >> half) * again_too & mask) >> half)) % columns
            number = column * rows + row
            if number < count:
                break
        yield number


def _keys(seed: int, bits: int, rounds: int) -> list[tuple[int, ...]]:
    """Return for each round two numbers to add and four odd numbers to multiply with; odd factors lose nothing."""
    words = _words(seed)
    many = -(-bits // _WORD_BITS)

    def key() -> int:
        value = 0
        for _ in range(many):
            value = value << _WORD_BITS | next(words)
        return value >> (many * _WORD_BITS - bits) | 1

    return [tuple([key() for _ in range(6)]) for _ in range(rounds)]


def _words(seed: int) -> Iterator[int]:
    """Yield endless words that look random; any two seeds, of any size and sign, give different words."""
    state, left = 0, 2 * abs(seed) + (seed < 0)
    while True:
        state = _scatter(state ^ left & _WORD)
        left >>= _WORD_BITS
        if not left:
            break
    while True:
        state = state + 0x9E3779B97F4A7C15 & _WORD
        yield _scatter(state)


def _scatter(word: int) -> int:
    # The finaliser of SplitMix64 (public domain).
    word = (word + 0x9E3779B97F4A7C15) & _WORD
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9 & _WORD
    word = (word ^ word >> 27) * 0x94D049BB133111EB & _WORD
    return word ^ word >> 31
