from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grassq.compat.simple_gpu_scheduler.command_reader import COMMAND_MAX, Command, CommandReader, Complaint, Found


def read(*parts: bytes) -> list[Found]:
    reader = CommandReader()
    found = [each for part in parts for each in reader.feed(part)]
    return found + reader.end()


def texts(*parts: bytes) -> list[bytes]:
    return [each.text for each in read(*parts) if isinstance(each, Command)]


def complaints(*parts: bytes) -> list[Complaint]:
    return [each for each in read(*parts) if isinstance(each, Complaint)]


def test_a_line_is_a_command_and_the_last_one_needs_no_end() -> None:
    assert read(b"echo a\n  echo b  \necho c") == [
        Command(b"echo a", b"echo a", b"echo a"),
        Command(b"echo b  ", b"  echo b  ", b"  echo b"),
        Command(b"echo c", b"echo c", b"echo c"),
    ]


def test_blank_lines_and_comments_are_skipped() -> None:
    assert texts(b"\n  \t\n# one\n  # two \\\necho a # three\n\r\n") == [b"echo a # three"]


def test_lines_of_another_system_lose_their_carriage_return() -> None:
    assert texts(b"echo a\r\necho b\r\n") == [b"echo a", b"echo b"]


def test_a_command_is_there_as_soon_as_its_line_is_whole() -> None:
    reader = CommandReader()
    assert reader.feed(b"echo ") == []
    assert reader.left() == b"echo "
    assert [each.text for each in reader.feed(b"a\nec") if isinstance(each, Command)] == [b"echo a"]
    assert reader.left() == b"ec"


def test_a_backslash_joins_with_the_next_line_and_the_shell_does_the_joining() -> None:
    [command] = read(b"echo one \\\n  two \\\nthree\n")
    assert command == Command(b"echo one \\\n  two \\\nthree", b"echo one \\\n  two \\\nthree", b"echo one   two three")


def test_two_backslashes_are_one_that_joins_nothing() -> None:
    assert texts(b"echo a\\\\\necho b\n") == [b"echo a\\\\", b"echo b"]


def test_what_follows_a_backslash_belongs_to_the_command_whatever_it_is() -> None:
    assert texts(b"echo a \\\n# b\n\necho c \\\n\necho d\n") == [b"echo a \\\n# b", b"echo c \\\n", b"echo d"]


def test_a_block_is_one_script() -> None:
    [command] = read(b"<<END\ncd data\n\n  <<X\necho \\\n  # no\nEND\n")
    assert isinstance(command, Command)
    assert command.text == b"cd data\n\n  <<X\necho \\\n  # no"
    assert command.shown == b"cd data ..."


def test_a_block_of_one_line_is_shown_as_that_line() -> None:
    [command] = read(b"<<END\n\n  echo a  \nEND\n")
    assert isinstance(command, Command) and command.shown == b"echo a"


def test_what_only_looks_like_a_block_is_a_line() -> None:
    assert texts(b"<<\n<< END\ncat <<END\n<<E-D\n") == [b"<<", b"<< END", b"cat <<END", b"<<E-D"]


def test_an_empty_block_is_skipped_as_a_blank_line_is() -> None:
    assert read(b"<<A\nA\n<<B\n\n  \nB\n") == []


def test_the_end_of_a_block_is_the_word_alone() -> None:
    assert texts(b"<<END\n END\nEND \nENDE\nEND\n") == [b" END\nEND \nENDE"]


@pytest.mark.parametrize("typed", [b"echo a", b"echo a \\\n  b", b"<<A\nx\n\n  y\nA"])
def test_what_was_typed_can_be_piped_in_again(typed: bytes) -> None:
    [command] = read(typed + b"\n")
    assert isinstance(command, Command) and command.typed == typed
    assert read(command.typed + b"\n") == [command]


def test_a_block_without_an_end_is_an_error_and_the_others_are_commands() -> None:
    found = read(b"echo a\n<<END\necho b\n")
    assert isinstance(found[0], Command)
    assert found[1:] == [Complaint(2, "`<<END` has no end: a line that is only `END`")]


def test_a_backslash_with_nothing_behind_it_is_an_error() -> None:
    assert [each.number for each in complaints(b"echo a\n\necho b \\\n")] == [3]
    assert [each.number for each in complaints(b"echo b \\")] == [1]


def test_what_is_no_whole_command_yet_is_kept_as_it_was_typed() -> None:
    reader = CommandReader()
    reader.feed(b"<<END\necho a\nec")
    assert reader.left() == b"<<END\necho a\nec"
    reader = CommandReader()
    reader.feed(b"echo a \\\nb")
    assert reader.left() == b"echo a \\\nb"


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_the_longest_line_is_a_command_and_one_byte_more_is_an_error_for_that_line_only(end: bytes) -> None:
    longest = b"x" * COMMAND_MAX
    assert texts(longest + end + b"echo a\n") == [longest, b"echo a"]
    found = read(longest, b"x" + end, b"echo a\n")
    assert isinstance(found[0], Complaint) and found[0].number == 1
    assert isinstance(found[1], Command) and found[1].text == b"echo a"


def test_a_line_without_end_is_not_kept() -> None:
    reader = CommandReader()
    for _ in range(10):
        assert reader.feed(b"x" * COMMAND_MAX) == []
        assert len(reader.left()) <= COMMAND_MAX + 1
    assert [type(each) for each in reader.feed(b"\necho a\n")] == [Complaint, Command]


@pytest.mark.parametrize("typed", [b"<<A\n%s\n%s\nA\n", b"%s\\\n%s\n"])
def test_several_lines_that_are_too_long_together_are_one_error(typed: bytes) -> None:
    part = b"x" * (COMMAND_MAX // 2 + 10)
    found = read(b"\n" + typed % (part, part) + b"echo a\n")
    assert [each.number for each in found if isinstance(each, Complaint)] == [2]
    assert isinstance(found[-1], Command) and found[-1].text == b"echo a"


def test_a_block_without_end_is_not_kept() -> None:
    reader = CommandReader()
    reader.feed(b"<<A\n")
    for _ in range(10):
        assert reader.feed(b"x" * (COMMAND_MAX // 2) + b"\n") == []
        assert len(reader.left()) <= 2 * COMMAND_MAX
    assert [type(each) for each in reader.feed(b"A\necho a\n")] == [Complaint, Command]


def test_a_line_of_a_block_that_is_too_long_spoils_the_block_only() -> None:
    found = read(b"<<A\n", b"x" * (COMMAND_MAX + 2), b"\nA\necho a\n")
    assert [type(each) for each in found] == [Complaint, Command]


@pytest.mark.parametrize("frame", [b"%s\n", b"<<A\n%s\nA\n"])
def test_several_lines_may_be_as_long_as_one_and_no_part_of_them_is_lost(frame: bytes) -> None:
    start = b"echo \\\n"
    longest = start + b"x" * (COMMAND_MAX - len(start))
    assert texts(frame % longest) == [longest]
    assert [type(each) for each in read(frame % (longest + b"x") + b"echo a\n")] == [Complaint, Command]


@pytest.mark.parametrize("end", [b"\\\n", b"\\\r\n"])
@pytest.mark.parametrize("size", [COMMAND_MAX - 1, COMMAND_MAX, COMMAND_MAX + 1, 3 * COMMAND_MAX])
def test_what_a_line_that_is_too_long_goes_on_with_is_not_run_either(end: bytes, size: int) -> None:
    whole = b"x" * size + end + b"rm -r .\\\n  all\necho a\n"
    for cut in (len(whole), 1000, size, size + 1, size + 2):
        found = read(*(whole[place : place + cut] for place in range(0, len(whole), cut)))
        assert [each.number for each in found if isinstance(each, Complaint)] == [1]
        assert [each.text for each in found if isinstance(each, Command)] == [b"echo a"]


def test_two_backslashes_at_the_end_of_a_line_that_is_too_long_join_nothing() -> None:
    found = read(b"x" * (2 * COMMAND_MAX), b"\\", b"\\", b"\necho a\n")
    assert [type(each) for each in found] == [Complaint, Command]


def test_a_nul_byte_is_an_error_for_that_line_only() -> None:
    found = read(b"echo \0\necho a\n")
    assert [type(each) for each in found] == [Complaint, Command]


def test_bytes_that_are_no_text_pass_through() -> None:
    assert texts(b"echo \xff\xfe\n") == [b"echo \xff\xfe"]


@given(st.lists(st.sampled_from([b"echo a", b"\n", b" ", b"\\", b"<<A", b"A", b"#", b"\r", b"\xff"])), st.data())
def test_where_the_input_is_cut_changes_nothing(pieces: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(pieces)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=5)))
    parts = [whole[low:high] for low, high in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert read(*parts) == read(whole)
