"""Patterns of paths: which files they mean, and whether two of them can mean the same file."""

from __future__ import annotations

import itertools
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palaver.text.path_patterns import matches, normal_path, overlap


@pytest.mark.parametrize(
    "pattern, path",
    [
        ("src/export/**", "src/export/a.py"),
        ("src/export/**", "src/export/deep/er/a.py"),
        ("src/export", "src/export/a.py"),
        ("src/export/", "src/export/deep/a.py"),
        ("src/*.py", "src/a.py"),
        ("**/*.lock", "uv.lock"),
        ("**/*.lock", "a/b/uv.lock"),
        ("a/**/z.py", "a/z.py"),
        ("a/**/z.py", "a/b/c/z.py"),
        ("**", "anything/at/all"),
        ("/src/a.py", "./src/a.py"),
        ("src\\win\\a.py", "src/win/a.py"),
        ("app/[id]/page.tsx", "app/[id]/page.tsx"),
        ("app/{a,b}.py", "app/{a,b}.py"),
        ("my notes/*.md", "my notes/über uns.md"),
        ("a?.py", "ab.py"),
        ("a*", "a*"),
        (unicodedata.normalize("NFD", "schön.md"), unicodedata.normalize("NFC", "schön.md")),
    ],
)
def test_a_pattern_means_a_file(pattern: str, path: str):
    assert matches(pattern, path)


@pytest.mark.parametrize(
    "pattern, path",
    [
        ("src/export/**", "src/exporter/a.py"),
        ("src/*.py", "src/deep/a.py"),
        ("*.py", "src/a.py"),
        ("src/a.py", "src/A.py"),
        ("app/[id]/page.tsx", "app/i/page.tsx"),
        ("a?.py", "a.py"),
        ("ab", "a*"),
        ("a/*/z", "a/b/c/z"),
        ("src/export/a.py", "src/export"),
    ],
)
def test_a_pattern_does_not_mean_a_file(pattern: str, path: str):
    assert not matches(pattern, path)


def test_case_counts_unless_told_otherwise():
    assert matches("SRC/Straße.py", "src/strasse.PY", ignores_case=True)
    assert not matches("src/ab.py", "src/aB.py")
    assert overlap("Src/*.py", "sRC/a.py", ignores_case=True)


@pytest.mark.parametrize("one, other", [("src/**", "src/a.py"), ("src", "src/a/b.py"), ("**", "x"), ("**/*.py", "src"),
    ("src/a*", "src/*b"), ("src/*/z.py", "src/b/**"), ("a.d", "a.d/x"), ("*.py", "a.*"), ("Makefile", "**/Makefile")])  # fmt: skip
def test_patterns_that_share_files(one: str, other: str):
    assert overlap(one, other)
    assert overlap(other, one)


@pytest.mark.parametrize("one, other", [("src/a.py", "src/b.py"), ("**/*.lock", "docs/readme.md"), ("src/a*.py", "src/b*"),
    ("docs/**", "src/**"), ("*.py", "src/a.py"), ("src", "src2"), ("*.py", "*.md")])  # fmt: skip
def test_patterns_that_share_nothing(one: str, other: str):
    assert not overlap(one, other)
    assert not overlap(other, one)


@pytest.mark.parametrize("path", ["..", "../a", "a/../../b", "a\\..\\b"])
def test_a_path_that_leads_out_is_refused(path: str):
    with pytest.raises(ValueError, match="leads out"):
        normal_path(path)


# Against a naive reader of the same rules, on every small path

NAMES = ["".join(letters) for length in (1, 2) for letters in itertools.product("ab", repeat=length)]
PATHS = [list(names) for length in (1, 2, 3) for names in itertools.product(NAMES, repeat=length)]
patterns = st.lists(
    st.one_of(st.just("**"), st.text("ab*?", min_size=1, max_size=3).filter(lambda name: name.strip("*") or name == "*")),
    min_size=1,
    max_size=3,
).map("/".join)  # fmt: skip


def name_fits(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    if pattern[0] == "*":
        return name_fits(pattern[1:], name) or (name != "" and name_fits(pattern, name[1:]))
    return name != "" and pattern[0] in ("?", name[0]) and name_fits(pattern[1:], name[1:])


def fits(pattern: list[str], names: list[str]) -> bool:
    """A pattern that is used up means everything below."""
    if not pattern:
        return True
    if pattern[0] == "**" and (fits(pattern[1:], names) or (names and fits(pattern, names[1:]))):
        return True
    return bool(names) and pattern[0] != "**" and name_fits(pattern[0], names[0]) and fits(pattern[1:], names[1:])


@given(patterns)
@example("**/a/**/b")
@example("*a*b/?")
def test_matching_agrees_with_a_naive_reader(pattern: str):
    for names in PATHS:
        assert matches(pattern, "/".join(names)) == fits(pattern.split("/"), names), names


@given(patterns, patterns)
@example("*a", "b*")
@example("**/a", "**/b")
def test_two_patterns_overlap_if_a_file_matches_both(one: str, other: str):
    common = [names for names in PATHS if fits(one.split("/"), names) and fits(other.split("/"), names)]
    if common:
        assert overlap(one, other), common[0]
    elif len(one.split("/")) == len(other.split("/")) == 1 and "**" not in (one, other) and len(one + other) < 4:
        assert not overlap(one, other)


def test_no_pattern_is_slow():
    """A regular expression takes years for these."""
    assert not matches("**/" + "*a" * 15 + "b", "/".join(["a" * 250] * 15))
    assert not matches("**/*a/" * 12 + "b/**/c", "/".join(["aa"] * 1_000))
