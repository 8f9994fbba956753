"""The signature of an error: equal on every machine and day, different for different errors, and made quickly."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palaver.text.error_signature import normalised, signature_of

LINES = st.text(
    st.sampled_from("aZ9f0._-/\\:#…'\"`()[]<>@~ \t\x1b=,;|é漢") | st.characters(codec="utf-8"), max_size=400
) | st.lists(
    st.sampled_from(
        [
            "error:",
            "/tmp/a.py",
            "12",
            "0x1f",
            "http://h:80/x",
            "3f2a9bc1d",
            "#",
            "…x",
            "sh:",
            "not found",
            ":",
            " ",
            "-",
            ".",
            "'",
        ]
    )
).map("".join)


@given(LINES)
@example("error: KeyError: 1")
@example("sh: sh: a: not found")
def test_normalising_twice_changes_nothing(line: str):
    once = normalised(line)
    assert normalised(once) == once


PYTHON = """Exit code {code}
\x1b[31mTraceback (most recent call last):\x1b[0m
  File "{folder}/load.py", line {number}, in read
    open(path)
FileNotFoundError: [Errno 2] No such file or directory: '{folder}/conf/settings.toml' after {number} ms at {time} (pid {number}, {id}, {host})
"""


@given(
    folder=st.lists(st.from_regex(r"[a-z_.-]{1,9}", fullmatch=True), min_size=1, max_size=6).map(
        lambda x: "/" + "/".join(x)
    ),
    number=st.integers(0, 10**9),
    time=st.datetimes().map(lambda at: at.isoformat()),
    id=st.uuids().map(str) | st.binary(min_size=16, max_size=20).map(lambda x: x.hex()),
    host=st.tuples(*[st.integers(0, 255)] * 4).map(lambda x: ".".join(map(str, x))),
    padding=st.integers(0, 20_000),
)
def test_the_same_error_elsewhere_has_the_same_signature(
    folder: str, number: int, time: str, id: str, host: str, padding: int
):
    told = PYTHON.format(code=1, folder=folder, number=number, time=time, id=id, host=host)
    there = PYTHON.format(
        code=1, folder="/srv/app", number=7, time="2026-01-02T03:04:05", id="0" * 31 + "1", host="10.0.0.7"
    )
    found, other = signature_of("progress\r\n" * padding + told), signature_of(there)
    assert found is not None
    assert other is not None
    assert found.line == other.line
    assert found.frames == other.frames
    assert found.matches(other)


@pytest.mark.parametrize(
    "text, line",
    [
        ("/bin/sh: 1: uv: not found", "uv: command not found"),
        ("zsh: command not found: uv", "uv: command not found"),
        ("bash: line 12: uv: command not found", "uv: command not found"),
        ("src/app.ts(12,5): error TS2307: Cannot find module '@acme/x'.\n\nFound 1 error.", "error TS2307: Cannot find module '@acme/x'."),
        ("error[E0432]: unresolved import `serde`\n --> src/main.rs:3:5\nerror: could not compile `app` (bin) due to 1 previous error", "error[E0432]: unresolved import 'serde'"),
        ("E   AssertionError: assert 3 == 4\n= short test summary info =\nFAILED tests/a.py::b\n1 failed in 3.2s", "AssertionError: assert # == #"),
        ("all is well\n3 passed", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_decisive_line_is_found(text: str, line: str | None):
    found = signature_of(text)
    assert (found.line if found else None) == line


def test_different_errors_differ():
    texts = [
        "error TS2307: Cannot find module 'a'", "error TS2339: Cannot find module 'a'", "error TS2307: Cannot find module 'b'",
        "ModuleNotFoundError: No module named 'yaml'", "ModuleNotFoundError: No module named 'toml'",
        "cat: /etc/a.conf: No such file or directory", "cat: /etc/b.conf: No such file or directory",
    ]  # fmt: skip
    found = [signature_of(text) for text in texts]
    assert len({one.line for one in found if one}) == len(texts)


def test_a_line_that_says_little_counts_with_its_place_only():
    one, other = (f'  File "/src/{name}.py", line 3, in run\nAssertionError: no' for name in ("a", "b"))
    first, again, second = signature_of(one), signature_of(one.replace("line 3", "line 9")), signature_of(other)
    assert first is not None
    assert again is not None
    assert second is not None
    assert first.matches(again)
    assert not first.matches(second)


@pytest.mark.parametrize(
    "part", ["a/", "x", "1.", "error ", "Error: \x1b[31m", "\n", "-", "aA0", "File \"", "at a (", "://", "'", "_1", "sh: "]
)  # fmt: skip
def test_five_megabytes_of_anything_are_no_more_work_than_a_screen(part: str):
    """Only a bounded part is looked at, and no pattern goes back over it again and again."""
    signature_of(part * (5_000_000 // len(part)))
    assert len(normalised(part * 5_000_000)) <= 2 * 300
