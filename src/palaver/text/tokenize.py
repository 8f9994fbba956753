"""Tokenizer: splits text into folded words for the index, queries and snippets, the same for both engines.

A text is first translated, character by character, into its folded form, where

- a space separates words,
- `_CLOSE` ends the word too: it follows a character that is a word of its own (Han, kana, Thai, emoji …),
- `_MARK` precedes a mark that belongs to the letter before it (a Devanagari vowel, the voicing of a kana),

and one pattern reads the words from it. Folding the words again, or folding a text in parts, gives the same words.
"""

import re
import threading
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import AnyStr, NamedTuple
from unicodedata import category, normalize

import Stemmer

LONGEST = 200
"""Maximum characters of a word: PostgreSQL refuses a lexeme of 2 KB."""


AT_ONCE = 20_000
"""Characters that are folded in one call."""
PLACED_AT_ONCE = 300
"""Characters whose words are given places in one go."""
MOST_STEMS = 100_000
"""Maximum size of the cache of stems."""
PLAIN_LETTER = re.compile("[a-z]")
"""A folded word without any is its own stem."""


class WordToken(NamedTuple):
    """A folded word and its place in the original text."""

    word: str
    start: int
    end: int


def words(text: str) -> list[str]:
    """The folded words of a text in order; at most as many as the text has characters."""
    if (easy := plain(text)) is not None:
        return easy.decode().split()
    if len(text) <= AT_ONCE:
        return _words_of(_folded(text))
    found: list[str] = []
    for portion in _portions(text):
        found += _words_of(portion)
        if len(found) > len(text):  # of characters that stand for whole sentences
            break
    return found[: len(text)]


def words_and_stems(text: str, mark: str) -> tuple[str, str]:
    """The words of a text with a blank between them, and their stems, each with the mark before it."""
    if len(text) <= AT_ONCE:
        found = words(text)
        return " ".join(found), mark + f" {mark}".join(stems(found)) if found else ""
    lines: list[str] = []
    marked: list[str] = []
    room = len(text)
    for line in filter(None, map(_line_of, _portions(text))):
        room -= line.count(" ") + 1
        if room < 0:
            line = " ".join(line.split(" ")[:room])
        if PLAIN_LETTER.search(line):
            marked.append(f" {mark}".join(stems(line.split(" "))))
        else:
            marked.append(line.replace(" ", f" {mark}"))
        lines.append(line)
        if room <= 0:
            break
    return " ".join(lines), mark + f" {mark}".join(marked) if lines else ""


def _portions(text: str) -> Iterator[str]:
    """The folded form of a long text in portions that end before a blank.

    One call over a million characters would keep all other threads waiting.
    """
    begun: list[str] = []
    for at in range(0, len(text), AT_ONCE):
        piece = text[at : at + AT_ONCE].translate(_FOLDED)
        end = piece.rfind(" ")
        if end >= 0:
            yield _closed("".join([*begun, piece[:end]]))
            begun = []
        begun.append(piece[max(end, 0) :])
    yield _closed("".join(begun))


def _words_of(folded: str) -> list[str]:
    spaced = folded.replace(_CLOSE, " ")
    found = spaced.split()
    if not _has_blanks(spaced, " ") and max(map(len, found), default=0) > LONGEST:
        return [token.word for token in _read(folded)]
    return [_composed(word) for word in found] if _MARK in folded else found


def _line_of(folded: str) -> str:
    """The words with a blank between them. Most portions need not be taken apart for it."""
    line = folded.replace(_CLOSE, " ")
    if _MARK in line or not _has_blanks(line, " "):
        return " ".join(_words_of(folded))
    while "  " in line:
        line = line.replace("  ", " ")
    return line.strip(" ")


def _has_blanks(folded: AnyStr, blank: AnyStr) -> bool:
    """Is there a blank in every stretch of half the length that a word may have? Then no word is too long."""
    half = LONGEST // 2
    return all(folded.find(blank, at, at + half) >= 0 for at in range(0, len(folded) - half, half))


def plain(text: str) -> bytes | None:
    """The folded form of a simple text, where each character folds to one and words are between blanks; else None. Most
    texts are simple; others take up to four times as long."""
    if not text.isascii():
        return None
    folded = text.encode().translate(_PLAIN)
    return folded if b"\0" not in folded and _has_blanks(folded, b" ") else None


def tokens(text: str, first: int = 0, last: int | None = None) -> list[WordToken]:
    """The words of a text with their places; a word's place includes the accents and joiners after its letters.

    `first` and `last` choose some of the words by their number: no places are worked out for the others.
    """
    if text.isascii() and len(folded := _folded(text)) == len(text):
        return [WordToken(found[0], *found.span()) for found in islice(_WORD.finditer(folded), first, last)]
    found: list[WordToken] = []
    counted = 0
    begun: list[str] = []
    start = skipped = 0  # the character that gives the first one of `begun`, and how many others it gives before it
    for at in range(0, len(text), PLACED_AT_ONCE):
        stop = min(at + PLACED_AT_ONCE, len(text))
        piece = text[at:stop].translate(_FOLDED)
        end = piece.rfind(" ") if stop < len(text) else len(piece)
        if end < 0:
            begun.append(piece)
            continue
        portion = _closed("".join([*begun, piece[:end]]))
        next_start, left = stop, len(piece)
        while left > end:
            next_start -= 1
            left -= len(_FOLDED[ord(text[next_start])])
        amount = len(_words_of(portion))
        if counted + amount > first:
            # came_from[i] is the place of the character that gave the i-th folded character.
            places = range(start, min(next_start + 1, len(text)))
            came_from = [place for place in places for _ in _FOLDED[ord(text[place])]][skipped : skipped + len(portion)]
            came_from += (next_start, next_start)
            for word, begin, close in islice(_read(portion), max(first - counted, 0), last and last - counted):
                final = came_from[close - 1]
                # Up to what gives the next folded character, but at least the last letter (㍿ alone is four words).
                after = came_from[close + 1 if portion.startswith(_CLOSE, close) else close]
                found.append(WordToken(word, came_from[begin], after if after > final else final + 1))
        counted += amount
        if last is not None and counted >= last:
            break
        begun, start, skipped = [piece[end:]], next_start, end - left
    return found


def stretches(text: str, size: int = 300) -> Iterator[tuple[int, str]]:
    """Cut a text between words into parts with their places. The words of the parts are the words of the text."""
    start = 0
    while start < len(text):
        found = _BOUNDARY.search(text, start + size)
        end = found.start() if found else len(text)
        yield start, text[start:end]
        start = end


def inside(part: str) -> tuple[list[str], str]:
    """The whole words in a part of a text, and the start of the next word, in lower case.

    Characters before the first separator are left out: they may be the end of a longer word.
    """
    if _IOTA in part or not (signs := [found.start() for found in _BETWEEN.finditer(part)]):
        return [], ""
    begun = part[signs[-1] + 1 :]
    is_plain = begun.isascii() and begun.isalnum() and len(begun) < LONGEST
    return words(part[signs[0] : signs[-1]]), begun if is_plain else ""


def between_signs(typed: str, besides: str = "") -> list[str]:
    """Split typed text at separators, except those in `besides`: TCP/IP gives TCP and IP. An apostrophe is no
    separator, nor is a point, comma, colon or hyphen inside a number."""
    besides += _APOSTROPHES
    inside = {found.start() for found in _IN_NUMBER.finditer(typed)}
    return "".join(
        " " if _FOLDED[ord(char)].isspace() and char not in besides and place not in inside else char
        for place, char in enumerate(typed)
    ).split(" ")


def stem(word: str) -> str:
    """The English stem of a word. A word with digits or letters beyond a to z does not change."""
    return _STEMS[word]


def stems(words: Iterable[str]) -> list[str]:
    """The stem of each word."""
    return list(map(_STEMS.__getitem__, words))


class _Stems(dict[str, str]):
    """Cache of stems. It is emptied when it is full, which costs less than counting uses."""

    def __missing__(self, word: str) -> str:
        if len(self) >= MOST_STEMS:
            self.clear()
        is_english = word.isascii() and word.isalpha()
        stem = self[word] = str(_stemmer().stemWord(word)) if is_english else word
        return stem


_CLOSE, _MARK = "\x00", "\x01"

_WORD = re.compile(f"[^ {_CLOSE}]{{1,{LONGEST}}}")
_MARKED_WORD = re.compile(f"(?:{_MARK}.|[^ {_CLOSE}{_MARK}]){{1,{LONGEST}}}")
_CLOSED_EARLY = re.compile(f"{_CLOSE}((?:{_MARK}.)+)")

_APOSTROPHES = "'\u2019"
_IN_NUMBER = re.compile(r"(?<=[0-9])[.,:-](?=[0-9])")
_BETWEEN = re.compile(r"[ \t\n\r!-/:-@\[-`{-~]")
_IOTA = "\u03b9"  # it may be written below a letter, and is then no letter of the folded word

# Characters before which a word surely ends; these are not all, but no long text is without them.
_BOUNDARY = re.compile(
    r"[\s!-/:-@\[-`{-~\u0e01-\u0e2e\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3"
    "\U0001f300-\U0001f3fa\U0001f400-\U0001faff]"
)


def _folded(text: str) -> str:
    return _closed(text.translate(_FOLDED))


def _closed(folded: str) -> str:
    """The folded text with marks moved inside the word that they belong to."""
    return _CLOSED_EARLY.sub(rf"\1{_CLOSE}", folded) if _MARK in folded else folded


def _read(folded: str) -> Iterator[WordToken]:
    """The words of a folded text, with their places in it."""
    for found in (_MARKED_WORD if _MARK in folded else _WORD).finditer(folded):
        yield WordToken(_composed(found[0]), found.start(), found.end())


def _composed(word: str) -> str:
    """The word with its marks composed with their letters."""
    return normalize("NFC", word.replace(_MARK, "")) if _MARK in word else word


def _class(*ranges: str) -> re.Pattern[str]:
    return re.compile(f"[{''.join(ranges)}]")


_ACCENT = _class(
    "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f",  # Latin, Greek, symbols
    "\u0483-\u0489\u2de0-\u2dff\ua66f-\ua672\ua674-\ua67d\ua69e\ua69f",  # Cyrillic
    # Hebrew and Arabic, where most writing leaves them out
    "\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7",
    "\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed",
)
_IGNORED = _class(
    "\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef",  # variation selectors
    "\U0001f3fb-\U0001f3ff",  # skin tones
    "\u0640\u115f\u1160\u17b4\u17b5",  # letters that show nothing, or only stretch the word
)
_UNSPACED = _class(
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\ua9e0-\ua9ff\uaa60-\uaa7f",  # Thai, Lao, Myanmar, Khmer
    "\u1100-\u11ff\ua960-\ua97f\uac00-\ud7ff",  # Hangul
    "\u2e80-\u31ff\u3400-\u9fff\uf900-\ufaff\U0001aff0-\U0001b16f\U00020000-\U0003ffff",  # Han, kana, bopomofo
)
_JAMO_INSIDE = _class("\u1161-\u11ff\ud7b0-\ud7ff")  # the vowel and the end of a syllable written letter by letter


class _Folding(dict[int, str]):
    """Cache of the folded form of each character."""

    def __missing__(self, code: int) -> str:
        bare = _ACCENT.sub("", normalize("NFKD", chr(code))).casefold()
        # Compose again: a Hangul syllable is one word, but decomposed it would be three.
        folded = "".join(map(_form, normalize("NFC", normalize("NFKD", bare))))
        self[code] = folded
        return folded


def _alone(char: str) -> str:
    return f" {char}{_CLOSE}"


def _form(char: str) -> str:
    """The folded form of one lower-case character that has no decomposition."""
    if char.isascii():
        if char.isalnum():
            return char
        return " " if char.isprintable() or char.isspace() else ""
    if _ACCENT.match(char) or _IGNORED.match(char):
        return ""
    match category(char):
        case "Cc":
            return " " if char.isspace() else ""
        case "Cf" | "Cs":
            return ""
        case "Mn" | "Mc" | "Me":
            return _MARK + char
        case "So" | "Sc" | "Sm" | "Co" | "Cn":  # unassigned: most likely an emoji newer than this Python
            return " " if char == "\u2044" else _alone(char)  # the fraction slash of ½, which is found as 1/2
        case kind if kind[0] in "LN":
            if _JAMO_INSIDE.match(char):
                return _MARK + char
            return _alone(char) if _UNSPACED.match(char) else char
        case _:
            return " "


_FOLDED = _Folding()
_PLAIN = bytes(ord(_form(chr(code).lower()) or "\0") if code < 128 else 0 for code in range(256))
_STEMS = _Stems()
_stemmers = threading.local()


def _stemmer() -> "Stemmer.Stemmer":
    # A stemmer has state, so each thread needs its own.
    if not hasattr(_stemmers, "english"):
        _stemmers.english = Stemmer.Stemmer("english", 0)
    return _stemmers.english
