"""The query language: a query becomes a small tree, which each engine translates."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from palaver.text.tokenize import between_signs, words

MOST_CHARACTERS = 50_000
MOST_PHRASES = 256
BROADEST = 8
"""The sum of `_breadth` in one query. All words with a beginning are looked up, however few matches are ranked."""
FIRST_CJK = "\u2e80"
MOST_NEIGHBOURS = 8
MOST_PARTS = 16
"""Joined words (TCP/IP) may match apart, up to this many. More, as in some URLs, must match together."""
MOST_WORDS = 1_024
IN_NAMES = "-\u2010\u2011._@"
"""Signs that make a name in an expression, as in node.js and POL-358. A name is a phrase and never matches apart."""
DEEPEST = 50
SHORTEST_PREFIX = 2
"""Letters of a word from which on other words that begin like it are found while it is typed."""
NEARBY = 10
FARTHEST = 1_000
EXCEPT = "- content :"
"""The lexeme for all columns but the one that texts have."""


class Beginning(str):
    """The beginning of a word: `post` of `postmortem`. It is the last word of a phrase with `prefix`."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words next to each other, in order. With `prefix`, the last one is the beginning of a word."""

    words: tuple[str, ...]
    prefix: bool = False
    parts: tuple["Phrase", ...] = ()
    """The single words of joined ones (TCP/IP), as `apart` looks for them."""
    first: bool = False
    """The text must begin with it."""


@dataclass(frozen=True, slots=True)
class Near:
    """Two or more phrases in any order, with at most `distance` words between the first and the last."""

    phrases: tuple[Phrase, ...]
    distance: int = NEARBY


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of two or more parts."""

    parts: tuple["Query", ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of two or more parts."""

    parts: tuple["Query", ...]


@dataclass(frozen=True, slots=True)
class Without:
    """Matches `wanted` but not `unwanted`."""

    wanted: "Query"
    unwanted: "Query"


@dataclass(frozen=True, slots=True)
class Nothing:
    """A query without words, which matches nothing. It is never part of another query."""


@dataclass(frozen=True, slots=True)
class Preferring:
    """Matches `wanted`. Texts that also have some of the phrases rank higher."""

    wanted: AllOf
    phrases: tuple[Phrase, ...]


Query: TypeAlias = Phrase | Near | AllOf | AnyOf | Without | Preferring | Nothing


class Malformed(ValueError):
    """The expression is not valid. The hint says why, and how to write it."""

    def __init__(self, hint: str) -> None:
        super().__init__(hint)
        self.hint = hint


def plain(text: str, *, with_stars: bool = False) -> Query:
    """All words of a text, without operators. Only the beginning of a very long text is read. `with_stars`: a word with
    a star at its end is the beginning of words."""
    phrases: dict[Phrase, None] = {}
    room = MOST_WORDS
    for typed in text[:MOST_CHARACTERS].split():
        phrase = _typed_phrase(typed, room)
        if with_stars and typed.endswith("*"):
            phrase = as_prefix(phrase)
        if phrase.words and phrase not in phrases:
            phrases[phrase] = None
            room -= len(phrase.words)
        if len(phrases) == MOST_PHRASES or not room:
            break
    return _joined(AllOf, phrases)


def as_prefix(phrase: Phrase) -> Phrase:
    """The same phrase, but its last word is the beginning of a word. A single letter alone begins too many words."""
    if not phrase.words or (len(phrase.words) == 1 and len(phrase.words[0]) < SHORTEST_PREFIX):
        return phrase
    return Phrase((*phrase.words[:-1], Beginning(phrase.words[-1])), prefix=True, first=phrase.first)


def unfinished(query: Query) -> Query:
    """The same query, but its last word is the beginning of a word."""
    match query:
        case Phrase():
            return as_prefix(query)
        case AllOf() | AnyOf():
            return _joined(type(query), (*query.parts[:-1], unfinished(query.parts[-1])))
    return query


def apart(query: Query) -> Query | None:
    """The same query, but joined words (TCP/IP) may match apart. None if no words are joined, or too many are."""
    loose = _apart(query)
    phrases = list(_phrases(loose, also_unwanted=True))
    return None if loose == query or len(phrases) > MOST_PHRASES else loose


def _apart(query: Query) -> Query:
    match query:
        case Phrase() if query.parts:
            return _joined(AllOf, query.parts)
        case AllOf() | AnyOf():
            return _joined(type(query), map(_apart, query.parts))
        case Without():
            return Without(_apart(query.wanted), query.unwanted)
        case Preferring():
            wanted = _apart(query.wanted)
            joined = [part for part in query.wanted.parts if isinstance(part, Phrase) and part.parts]
            preferred = (*joined[:MOST_NEIGHBOURS], *query.phrases)
            return Preferring(wanted, preferred) if isinstance(wanted, AllOf) else wanted
    return query


def with_parts(phrases: Iterable[Phrase]) -> tuple[Phrase, ...]:
    """The phrases, and the single words of joined ones, each once."""
    return tuple(dict.fromkeys(one for phrase in phrases for one in (phrase, *phrase.parts)))


def closer(query: Query) -> Query:
    """The same words, but texts with neighbouring words next to each other rank higher."""
    if not isinstance(query, AllOf):
        return query
    neighbours = [
        Phrase(one.words + other.words)
        for one, other in pairwise(query.parts)
        if isinstance(one, Phrase) and isinstance(other, Phrase)
    ]
    return Preferring(query, tuple(neighbours[:MOST_NEIGHBOURS])) if neighbours else query


def together(query: Query) -> Phrase | None:
    """All words of a query as one phrase; None unless the query is just several words."""
    match query:
        case AllOf(parts):
            phrases = [part for part in parts if isinstance(part, Phrase)]
            if len(phrases) < len(parts) or any(phrase.prefix for phrase in phrases[:-1]):
                return None
            return Phrase(tuple(word for phrase in phrases for word in phrase.words), phrases[-1].prefix)
        case Without(wanted, _) | Preferring(wanted, _):
            return together(wanted)
    return None


def expression(text: str) -> Query:
    """The query in the grammar of FTS5, but a word may have punctuation; raises Malformed.

    Words next to each other bind tightest, then NOT, then AND, then OR.
    """
    if len(text) > MOST_CHARACTERS:
        raise Malformed(f"The query is too long: use at most {MOST_CHARACTERS:,} characters.")
    groups, room, is_outside = [_Group()], MOST_PHRASES, False
    for lexeme in _lexemes(_UNSPEAKABLE.sub("", text)):
        if lexeme == EXCEPT:
            is_outside = True
            continue
        if lexeme == "(":
            if len(groups) > DEEPEST:
                raise Malformed(f"The parentheses are nested too deeply: use at most {DEEPEST} levels.")
            groups.append(_Group(is_outside))
        elif lexeme == ")":
            inner = groups.pop()
            if not groups:
                raise Malformed('There is a ) without its (: remove it, or put the text in "double quotes".')
            groups[-1].add(inner.close())
        elif isinstance(lexeme, str):
            groups[-1].divide(lexeme)
        else:
            room -= 1
            if room < 0:
                raise _too_many()
            groups[-1].add(_nowhere(lexeme) if is_outside else lexeme)
        is_outside = False
    if len(groups) > 1:
        raise Malformed('There is a ( without its ): close it, or put the text in "double quotes".')
    query = groups[0].close() if groups[0].has_begun else Nothing()
    phrases = list(_phrases(query, also_unwanted=True))
    if len(phrases) > MOST_PHRASES:
        raise _too_many()
    if sum(map(_breadth, phrases)) > BROADEST:
        raise Malformed(
            "The query has too many beginnings of one or two letters: use at most two of one letter, or eight of two "
            "letters. Write more letters before the *."
        )
    if sum(len(phrase.words) for phrase in phrases) > MOST_WORDS:
        raise Malformed(f"The phrases in the query are too long: use at most {MOST_WORDS:,} words together.")
    return query


def _typed_phrase(typed: str, room: int = 2**31, *, prefix: bool = False, in_names: str = "") -> Phrase:
    """What was typed without a blank: one word, or several that follow each other. Signs join them, but those
    `in_names` make one name of them."""
    found = words(typed)
    if not 1 < len(found) <= room:
        return Phrase(tuple(found[:room]), prefix)
    parts = [Phrase(tuple(own)) for piece in between_signs(typed, in_names) if (own := words(piece))]
    if not 1 < len(parts) <= MOST_PARTS:
        return Phrase(tuple(found), prefix)
    parts[-1] = replace(parts[-1], prefix=prefix)
    return Phrase(tuple(found), prefix, tuple(dict.fromkeys(parts)))


def wanted_phrases(query: Query) -> tuple[Phrase, ...]:
    """The phrases to highlight: each one once, and none from the right side of a NOT."""
    return with_parts(_phrases(query, also_unwanted=False))


def _phrases(query: Query, *, also_unwanted: bool) -> Iterator[Phrase]:
    match query:
        case Phrase():
            yield query
        case Near():
            yield from query.phrases
        case AllOf() | AnyOf():
            for part in query.parts:
                yield from _phrases(part, also_unwanted=also_unwanted)
        case Without():
            yield from _phrases(query.wanted, also_unwanted=also_unwanted)
            if also_unwanted:
                yield from _phrases(query.unwanted, also_unwanted=True)
        case Preferring():
            yield from _phrases(query.wanted, also_unwanted=also_unwanted)
        case Nothing():
            pass


def count_phrases(query: Query) -> int:
    return sum(1 for _ in _phrases(query, also_unwanted=True))


def _breadth(phrase: Phrase) -> int:
    """How much work the beginning of a word is: very many words begin with one letter. Each Chinese, Japanese or Korean
    character begins few words."""
    last = phrase.words[-1] if phrase.words and phrase.prefix else ""
    return 0 if not last or last[0] >= FIRST_CJK else {1: 4, 2: 1}.get(len(last), 0)


def _too_many() -> Malformed:
    return Malformed(f"The query has too many words and phrases: use at most {MOST_PHRASES}.")


class _Group:
    """The content of parentheses: ORs of ANDs of NOTs of phrases."""

    def __init__(self, is_outside: bool = False) -> None:
        self.is_outside = is_outside
        self.ors: list[list[list[list[Query]]]] = [[[[]]]]
        self.last: str | None = None

    @property
    def has_begun(self) -> bool:
        return self.last is not None or bool(self.ors[-1][-1][-1])

    def add(self, part: Query) -> None:
        self.ors[-1][-1][-1].append(part)

    def divide(self, operator: str) -> None:
        if not self.ors[-1][-1][-1]:
            if self.last == "AND" and operator == "NOT":
                raise Malformed("NOT already means AND NOT: write wanted NOT unwanted.")
            if self.last:
                raise Malformed(f"{operator} cannot follow {self.last}: use one of them.")
            if operator == "NOT":
                raise Malformed(
                    "NOT excludes a word from the query before it: "
                    'write wanted NOT unwanted, or "NOT" for the word itself.'
                )
            raise Malformed(
                f'{operator} must be between two words: write one {operator} two, or "{operator}" for the word itself.'
            )
        if operator == "NOT":
            self.ors[-1][-1].append([])
        elif operator == "AND":
            self.ors[-1].append([[]])
        else:
            self.ors.append([[[]]])
        self.last = operator

    def close(self) -> Query:
        if not self.ors[-1][-1][-1]:
            raise Malformed(
                f'Something must follow {self.last}: write one {self.last} two, or "{self.last}" for the word itself.'
                if self.last
                else "There is nothing between ( and ): write (one OR two), or leave them out."
            )
        found = _joined(AnyOf, (_joined(AllOf, map(_without, ands)) for ands in self.ors))
        return _nowhere(found) if self.is_outside else found


def _nowhere(query: Query) -> Query:
    """What `- content : query` means: the query in other columns. There are none, so nothing matches."""
    return query if isinstance(query, Nothing) else Without(query, query)


# A part without words is dropped from its AND, OR or NOT, so that Nothing is never inside a query.


def _joined(kind: type[AllOf] | type[AnyOf], parts: Iterable[Query]) -> Query:
    flat: list[Query] = []
    for part in parts:
        if isinstance(part, kind):
            flat.extend(part.parts)
        elif not isinstance(part, Nothing):
            flat.append(part)
    if kind is AnyOf:
        flat = list(dict.fromkeys(flat))  # the same alternative again changes nothing
    if len(flat) > 1:
        return kind(tuple(flat))
    return flat[0] if flat else Nothing()


def _without(nots: list[list[Query]]) -> Query:
    wanted = _joined(AllOf, nots[0])
    unwanted = _joined(AnyOf, (_joined(AllOf, parts) for parts in nots[1:]))
    if isinstance(wanted, Nothing) or isinstance(unwanted, Nothing):
        return wanted
    return Without(wanted, unwanted)


_UNSPEAKABLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\ud800-\udfff]")

_LEXEME = re.compile(
    r"""
      (?P<except> -\s*)? (?i:"?content"?|\{\s*(?:"?content"?\s*)++\}) \s* : (?!//) (?= \s*[^\s)] )   # the one column
    | NEAR \s* \( (?P<near> (?: [^"()] | "(?:[^"]|"")*+" | \(\) )*+ ) \)
    | (?P<torn_near> NEAR \s* \( )
    | (?P<operator> AND | OR | NOT ) (?= [\s()"] | $ )
    | (?P<parenthesis> [()] )
    | (?P<plus> \++ )
    | (?P<caret> \^++ )
    | (?: "(?P<quoted> (?:[^"]|"")*+ )"
        | (?P<bare> (?: (?!\+") [^\s"()*] | \(\) )++ )              # may be called: main()
      ) (?P<star> \*+ | \s+\*+(?![^\s()"]) )?
    | (?P<torn_quote> " )
    | (?P<lone_star> \*++ ) (?! [^\s()"] )
    | \*+                                                           # in front of a word, as in *args
    """,
    re.VERBOSE,
)


def _lexemes(text: str) -> Iterator[Query | str]:
    held: Phrase | None = None  # until it is clear that no + follows
    is_joining = is_first = False
    for found in _LEXEME.finditer(text):
        typed = found["bare"] if found["quoted"] is None else found["quoted"]
        if typed is not None:
            has_star = found["star"] is not None
            if found["quoted"] is None:
                phrase = _typed_phrase(typed, prefix=has_star, in_names=IN_NAMES)
            else:
                phrase = Phrase(tuple(words(typed)), has_star)
            if held is not None and is_joining:
                if held.prefix and phrase.words:
                    raise Malformed('A * goes to the end of the whole phrase: write "two wor"*.')
                if is_first:
                    raise Malformed("A ^ goes before the whole phrase: write ^one + two.")
                phrase = Phrase(held.words + phrase.words, held.prefix or phrase.prefix, first=held.first)
            else:
                if held is not None:
                    yield held if held.words else Nothing()
                if is_first:
                    phrase = replace(phrase, parts=(), first=True)
            held, is_joining, is_first = phrase, False, False
        elif found["plus"]:
            is_joining = held is not None
        elif found["caret"]:
            is_first = True
        else:
            if held is not None:
                yield held if held.words else Nothing()
            held, is_first = None, False
            if found["near"] is not None:
                yield _near(found["near"])
            elif found["torn_near"]:
                raise Malformed("NEAR( is not closed, or has parentheses in it: write NEAR(one two, 5).")
            elif found["torn_quote"]:
                raise Malformed('A double quote is not closed: write "a phrase", and "" for a quote inside it.')
            elif found["lone_star"]:
                raise Malformed("A * alone matches nothing: write it at the end of a word, as in perform*.")
            elif sign := found["operator"] or found["parenthesis"]:
                yield sign
            elif found["except"]:
                yield EXCEPT
    if held is not None:
        yield held if held.words else Nothing()


def _near(inside: str) -> Query:
    typed, distance = inside, NEARBY
    before, comma, after = inside.rpartition(",")
    number = after.strip()
    if comma and re.fullmatch("[0-9]+", number):
        typed, distance = before, min(int(number[:9]), FARTHEST)
    elif (comma and re.fullmatch(r"-?[0-9.]*", number)) or re.search(r",\s", inside.rpartition('"')[2]):
        raise Malformed("After the comma, NEAR takes the number of words that may be between: write NEAR(one two, 5).")
    lexemes = list(_lexemes(typed))
    if not lexemes:
        raise Malformed('NEAR needs two words or phrases: write NEAR(one two, 5) or NEAR("one two" three).')
    phrases = tuple(replace(lexeme, parts=()) for lexeme in lexemes if isinstance(lexeme, Phrase))
    if any(isinstance(lexeme, str) for lexeme in lexemes):
        raise Malformed('Only words and phrases can be NEAR each other: write NEAR(one "two three", 5).')
    if any(phrase.first for phrase in phrases):
        raise Malformed("A ^ cannot be inside of NEAR: write ^one AND NEAR(one two, 5).")
    if len(phrases) > 1:
        return Near(phrases, distance)
    return phrases[0] if phrases else Nothing()
