"""Speaker: who said what a question asks for, as in "What did Anna say about the harbour?" or "messages by Anna".

The name is no word to look for then: few people write their own name. What the speaker said comes first, and the others
follow. Nothing is decided by what the caller may not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from palaver.search.operators import WITH_NAMES, spellings
from palaver.search.question import Question
from palaver.store.bus import agents
from palaver.store.engines.database import Reader, Scope
from palaver.store.search import found_passages
from palaver.text.languages import ENGLISH, in_all_languages
from palaver.text.query import Phrase
from palaver.text.tokenize import words

MOST_AUTHORS = 5_000
"""Names of authors that are looked at."""
LONGEST_NAME = 3
"""Words of a name."""
SHORTEST_PART = 3
"""Characters of a part of a name, such as a first name."""
MOST_WORDS = 60
"""Words of a question that are read for a name."""

_WHO, _SAY, _SAY_BEFORE, _SAID_AT_LAST, _HAVE, _SOMETIMES, _MESSAGES, _BY, _ARTICLES = map(
    in_all_languages,
    ("who", "say", "say_before", "said_at_last", "have", "sometimes", "messages", "by", "articles"),
)
"""`_SAY` follows a name, `_SAY_BEFORE` is before it ("Was sagt Anna zum Hafen?"), and `_SAID_AT_LAST` belongs to a word
of `_HAVE` before it ("Was hat Anna zum Hafen gesagt?")."""
_ASKING = _SAY | _SAY_BEFORE | _MESSAGES | {"according"}


def find_speaker(read: Reader, question: Question, scopes: Sequence[Scope]) -> Question:
    """The question with its speaker, if it names one who said something in these scopes, and without the words that ask
    for it."""
    folded = question.words[:MOST_WORDS]
    verbs = _SAY | _SAY_BEFORE | _SAID_AT_LAST
    if folded and folded[0] in _WHO and (asking := verbs.intersection(folded[1:3])):
        return replace(question, terms=_terms_without(question, asking))
    named = list(_possible_names(folded)) if len(folded) > 2 else []
    if not named:
        return question
    authors = {author: words(author) for author in found_passages.author_names(read, MOST_AUTHORS)}
    for name, words_asking in named:
        agent = agents.named(read, " ".join(name)) or agents.named(read, "-".join(name))
        own = [spelling for one in agents.names_of(read, agent) for spelling in spellings(one)] if agent else []
        whole = [*own, *(author for author, parts in authors.items() if parts == list(name))]
        is_part = len(name) == 1 and len(name[0]) >= SHORTEST_PART
        part = [author for author, parts in authors.items() if name[0] in parts] if is_part else []
        for called in (whole, part):
            if called and spoken(read, called, scopes, 1):
                terms = _terms_without(question, {*name, *_SAID_AT_LAST, *_ASKING.intersection(words_asking)})
                return replace(question, terms=terms, speakers=tuple(called), is_asked=True)
    return question


def spoken(read: Reader, speakers: Sequence[str], scopes: Sequence[Scope], most: int) -> list[int]:
    """The newest passages of some speakers in each scope."""
    found = []
    for one in scopes:
        named = tuple(source for source in one.sources if source in WITH_NAMES)
        if named and one.bodies and not one.authors:
            said = replace(one, sources=named, titles=False, authors=tuple(speakers))
            found += found_passages.newest(read, said, most)
    return found


def _possible_names(folded: Sequence[str]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Words that may be the name of a speaker, the longest first, each with the words that ask for it."""
    for n, word in enumerate(folded):
        last, following = folded[max(0, n - 1)], folded[n + 1] if n + 1 < len(folded) else ""
        end = begin = 0
        is_before = word in _SAY_BEFORE or (word in _BY and last in _MESSAGES)
        if word in _SAY or (word == "s" and following in _MESSAGES):
            end = n - 1 if last in _SOMETIMES else n
        elif is_before or (word in _HAVE and not _SAID_AT_LAST.isdisjoint(folded)):
            begin = n + 1
        elif (word, following) == ("according", "to"):
            begin = n + 2
        for size in range(LONGEST_NAME, 0, -1) if begin or end else ():
            first = begin or end - size
            name = folded[max(0, first) : first + size]
            is_thing = first > 0 and folded[first - 1] in _ARTICLES
            if len(name) == size and ENGLISH.stop_words.isdisjoint(name) and not is_thing:
                yield name, (last, word, following)


def _terms_without(question: Question, unwanted: Collection[str]) -> tuple[Phrase, ...]:
    """The terms without those of unwanted words, unless there are no others."""
    return tuple(one for one in question.terms if not set(one.words) <= set(unwanted)) or question.terms
