"""Sentences worth a second look: questions, decisions, open points, and reports that a point is done.

The rules are in notable_rules.txt. A wrong decision in a briefing does more harm than a missing one, so a doubtful
sentence is none. tests/text/test_notable.py measures the rules.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from palaver.text.tokenize import stems, words

LONGEST_TEXT = 20_000
"""Only this much of the beginning and of the end of a text is read."""
LONGEST_SENTENCE = 300
LEAST_WORDS = 3
"""A request with fewer words of content is small talk."""

_CODE = re.compile(r"```.*?(?:```|\Z)|^>.*$", re.DOTALL | re.MULTILINE)
_INLINE_CODE = re.compile(r"`([^`\n]*)`")
_BREAK = re.compile(r"(?<=[.!?。！？])[\"')\]»”]*\s+|\n+|(?<=[。！？])")
_MARKUP = re.compile(r"^[\s#*\-•>\d.)\]]*(?:\[[ xX]?\]\s*)?|\*\*|__")
_BOX = re.compile(r"^[\s*\-•\d.)]*\[( |[xX])\]\s")
_TODO = re.compile(r"^\W*(?:TODO|FIXME|XXX|TBD)\b(?! (?:comments?|markers?|list|app|items?)\b)")
_QUESTION = re.compile(r"[?？؟][\"')\]»”*_]*\s*$")


RULES = Path(__file__).parent / "notable_rules.txt"


@cache
def _sections() -> dict[str, list[str]]:
    sections: dict[str, list[str]] = {}
    for line in RULES.read_text("utf-8").splitlines():
        if line.startswith("[") and line.endswith("]"):
            rules = sections.setdefault(line[1:-1], [])
        elif line and not line.startswith("#"):
            rules.append(line)
    return sections


def prepare() -> None:
    """Compile the rules. It takes a tenth of a second."""
    _rules()


@cache
def _stems_of(section: str) -> frozenset[str]:
    return frozenset(stems(word for line in _sections()[section] for word in words(line)))


@cache
def _rules() -> dict[str, tuple[re.Pattern[str], ...]]:
    """The rules by the name of their section. They are compiled when a text is read for the first time."""
    sections = {name: rules for name, rules in _sections().items() if name not in ("noise", "small talk")}
    parts = dict(line.split(" = ", 1) for line in sections.pop("parts"))
    named = re.compile(r"\{(\w*[a-z]\w*)\}")
    return {
        name: _compiled(_alternatives(named.sub(lambda found: parts[found[1]], "|".join(rules))))
        for name, rules in sections.items()
    }


def _alternatives(rule: str) -> list[str]:
    """The parts of a regular expression between the bars that are in no bracket."""
    found, depth = [""], 0
    for part in re.findall(r"\\.|\[(?:\\.|[^\]])*\]|.", rule):
        depth += (part == "(") - (part == ")")
        if part == "|" and not depth:
            found.append("")
        else:
            found[-1] += part
    return found


def _compiled(alternatives: list[str]) -> tuple[re.Pattern[str], ...]:
    """One expression for the rules at the start of a sentence, one for those at the start of a word, one for the rest.
    So most places in a sentence are passed over at once."""
    by_start: dict[str, list[str]] = {}
    for one in alternatives:
        start = next((start for start in ("^", r"\b") if one.startswith(start)), "")
        by_start.setdefault(start, []).append(one.removeprefix(start))
    return tuple(re.compile(f"{start}(?:{'|'.join(rules)})") for start, rules in by_start.items())


def _applies(section: str, sentence: str) -> bool:
    plain = sentence.lower().replace("\u2019", "'")
    return any(rule.search(plain) for rule in _rules()[section])


def sentences(text: str) -> list[str]:
    """The sentences of a text without code blocks, quotations and list marks."""
    return [sentence for sentence, _ in _marked_sentences(text)]


def _marked_sentences(text: str) -> list[tuple[str, str | None]]:
    """The sentences, each with the mark of its check box: blank, x, or None if it has no box."""
    if len(text) > 2 * LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}\n{text[-LONGEST_TEXT:]}"
    found = []
    for part in _BREAK.split(_INLINE_CODE.sub(r"\1", _CODE.sub(" ", text))):
        box = _BOX.match(part or "")
        sentence = " ".join(_MARKUP.sub("", part or "").split())
        if 3 < len(sentence) <= LONGEST_SENTENCE:
            found.append((sentence, box[1].lower() if box else None))
    return found


def is_question(text: str) -> bool:
    return any(_QUESTION.search(sentence) for sentence in sentences(text))


def decisions(text: str) -> list[str]:
    """The sentences that say what was decided. Questions, steps and reports of others decide nothing."""
    return [one for one in sentences(text) if _is_decision(one)]


def _is_decision(sentence: str) -> bool:
    if _QUESTION.search(sentence) or not _applies("decided", sentence):
        return False
    return not (_applies("not decided", sentence) or _applies("step", sentence) or _is_open(sentence))


def open_points(text: str, *, labelled_only: bool = False) -> list[str]:
    """The sentences that say what is left to do, unknown or broken. Labels are "TODO:", "Open:", an empty check box."""
    is_open = _has_open_label if labelled_only else _is_open
    return [one for one, box in _marked_sentences(text) if box == " " or (box is None and is_open(one))]


def _has_open_label(sentence: str) -> bool:
    return _TODO.match(sentence) is not None or _applies("open label", sentence)


def _is_open(sentence: str) -> bool:
    if _has_open_label(sentence):
        return True
    return not _QUESTION.search(sentence) and _applies("open", sentence) and not _applies("not open", sentence)


def finished(text: str) -> list[str]:
    """The sentences that say that something is done: "The export of umlauts is fixed now." """
    return [one for one, box in _marked_sentences(text) if box == "x" or (box is None and _is_done(one))]


def _is_done(sentence: str) -> bool:
    if _QUESTION.search(sentence) or not _applies("done", sentence) or _applies("not done", sentence):
        return False
    return not _is_open(sentence) and bool(content_words(sentence))


def content_words(sentence: str) -> frozenset[str]:
    """The stems of the words that tell what a sentence is about."""
    return frozenset(stems(words(sentence))) - _stems_of("noise")


def is_small_talk(text: str) -> bool:
    """Whether a request is about nothing: "hello", "thanks, go on", "how are you today?"."""
    return len(content_words(text) - _stems_of("small talk")) < LEAST_WORDS


def settles(report: frozenset[str], point: frozenset[str]) -> bool:
    """Whether a report that something is done is about an open point, by their content words. In doubt it is not."""
    if len(point) < 2:
        return bool(point) and report == point
    return len(report & point) >= max(2, 0.75 * len(point))


def one_line(text: str, length: int) -> str:
    """The text in one line, cut at a word where it is too long."""
    line = " ".join(text[: 4 * length + 200].split())
    if len(line) <= length and len(text) <= 4 * length + 200:
        return line
    cut = line[: length - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[length // 2 :] else cut).rstrip(" ,;:") + "…"
