"""Sentences worth a second look: questions, decisions, and work that was left open."""

from __future__ import annotations

import re

LONGEST_TEXT = 20_000
"""Only this much of the beginning and of the end of a text is read."""
LONGEST_SENTENCE = 300

_CODE = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^>.*$", re.DOTALL | re.MULTILINE)
_BREAK = re.compile(r"(?<=[.!?。！？])[\"')\]»”]*\s+|\n+|(?<=[。！？])")
_MARKUP = re.compile(r"^[\s#*\-•>\d.)\]]*(?:\[[ xX]?\]\s*)?|\*\*|__")
_QUESTION = re.compile(r"[?？؟][\"')\]»”*_]*\s*$")
_DECISION = re.compile(
    r"\b(?:decisions?|decided?|agreed (?:to|on|that)|settled on|resolved to|conclusion|concluded|we chose|i chose|"
    r"(?:we|i)(?:'ll| will| are going to)? (?:go|went|going) with|let'?s (?:go with|use|keep|do)|"
    r"(?:we|i)(?:'ll| will) (?:use|keep|do|not)|final(?:ly)? (?:choice|answer)|approved|"
    r"entschieden|entscheidung|beschlossen|décidé|décision|decidido|decidimos|decisión|deciso)\b|决定|決定|결정",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:todo|to-?do|left (?:open|to do|for later)|remains?|remaining|still (?:needs?|to|open|missing|fails?|failing|"
    r"has to|have to|untested|unclear)|not (?:yet|done|tested|finished)|next steps?|next:|follow[- ]?ups?|"
    r"open (?:question|point|issue)s?|unresolved|blocked (?:on|by)|pending|"
    r"offen|noch nicht|à faire|pendiente)\b|待办|未完成",
    re.IGNORECASE,
)


def sentences(text: str) -> list[str]:
    """The sentences of a text without code, quotations and list marks."""
    if len(text) > 2 * LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]}\n{text[-LONGEST_TEXT:]}"
    found = (_MARKUP.sub("", part).strip() for part in _BREAK.split(_CODE.sub(" ", text)) if part)
    return [one for one in found if 3 < len(one) <= LONGEST_SENTENCE]


def is_question(text: str) -> bool:
    return any(_QUESTION.search(sentence) for sentence in sentences(text))


def decisions(text: str) -> list[str]:
    """The sentences that say what was decided. Questions decide nothing."""
    return [one for one in sentences(text) if _DECISION.search(one) and not _QUESTION.search(one)]


def open_points(text: str) -> list[str]:
    """The sentences that say what is left to do."""
    return [one for one in sentences(text) if _OPEN.search(one) and not _DECISION.search(one)]


def one_line(text: str, length: int) -> str:
    """The text in one line, cut at a word where it is too long."""
    line = " ".join(text[: 4 * length + 200].split())
    if len(line) <= length and len(text) <= 4 * length + 200:
        return line
    cut = line[: length - 1]
    return (cut[: cut.rfind(" ")] if " " in cut[length // 2 :] else cut).rstrip(" ,;:") + "…"
