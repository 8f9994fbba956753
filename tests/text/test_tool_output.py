"""The short form of what tools were given and gave back."""

from __future__ import annotations

import json

from palaver.text.tool_output import LINES, LONGEST_ARGUMENT, LONGEST_LINE, brief_arguments, first_and_last_lines


def test_a_short_result_stays_as_it_is():
    text = "one\n\n  two\n"
    assert first_and_last_lines(text) == text


def test_of_a_long_result_the_first_and_last_lines_stay():
    lines = [f"line {n} " + "x" * 20 for n in range(1000)]
    kept = first_and_last_lines("\n".join(lines) + "\n").split("\n")
    assert kept == [*lines[:LINES], f"[… {1000 - 2 * LINES:,} lines left out …]", *lines[-LINES:]]


def test_of_a_long_line_its_ends_stay():
    kept = first_and_last_lines("begin " + "x" * 5000 + " end")
    assert kept.startswith("begin ")
    assert kept.endswith(" end")
    assert len(kept) <= LONGEST_LINE + 3


def test_arguments_keep_all_names_and_lose_long_texts():
    given = json.dumps({"content": 'y\\"' * 900, "file_path": "/a/b.py", "count": 3}, separators=(",", ":"))
    brief = brief_arguments(given)
    assert len(brief) < 2 * LONGEST_ARGUMENT + 40
    assert brief.endswith('"file_path":"/a/b.py","count":3}')
    assert brief_arguments(given[:2000]).startswith('{"content":"y')
    assert brief_arguments('{"command":"ls -l"}') == '{"command":"ls -l"}'
