"""Queries, terms and scopes as text for tsquery."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from palaver.store.engines.database import SCOPE, STEM, Scope
from palaver.store.engines.id_ranges import SOURCES
from palaver.text.match import needs_text
from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Preferring, Query, Without
from palaver.text.tokenize import stem
from palaver.text.tokenize import stems as stems_of


def printed(query: Query) -> str:
    """The query as a tsquery. For NEAR and the beginning of a text, it may match more than the query does."""
    match query:
        case Phrase(words, prefix):
            lexemes = [f"'{word}'" for word in words]
            if prefix:
                lexemes[-1] += ":*"
            return "(" + " <-> ".join(lexemes) + ")"
        case Near(phrases, _):
            return "(" + " & ".join(map(printed, phrases)) + ")"
        case AllOf(parts):
            return "(" + " & ".join(map(printed, parts)) + ")"
        case AnyOf(parts):
            return "(" + " | ".join(map(printed, parts)) + ")"
        case Without(wanted, unwanted):
            if needs_text(unwanted):
                return printed(wanted)
            return f"({printed(wanted)} & !{printed(unwanted)})"
        case Preferring(wanted, _):
            return printed(wanted)
        case Nothing():
            return ""


def conditions(query: Query) -> list[Query]:
    """The conditions of a query. A passage that matches the query meets all of them."""
    match query:
        case AllOf(parts) | Near(parts, _):
            return [one for part in parts for one in conditions(part)]
        case Preferring(wanted, _):
            return conditions(wanted)
        case Without(wanted, _):
            return [*conditions(wanted), query]
        case Phrase(words, prefix=True) if len(words) > 1:
            return [Phrase(words[:-1]), query]
        case _:
            return [query]


def has_beginning(condition: str) -> bool:
    """Does this condition have the beginning of a word?"""
    return ":*" in condition


def any_stem(terms: Sequence[Phrase]) -> str:
    stems = ["(" + " <-> ".join(map(stem_or_word, stems_of(term.words))) + ")" for term in terms]
    return " | ".join([*stems, *(printed(term) for term in terms if term.prefix)])


def stem_or_word(one: str) -> str:
    """The lexemes of a stem. A word that is its own stem is in the index as the word only."""
    return f"('{one}' | '{STEM}{one}')" if stem(one) == one else f"'{STEM}{one}'"


def wanted_scopes(scope: Scope) -> list[tuple[str, ...]]:
    """The groups of scope tokens; a passage in the scope has one of each group."""
    kinds = _kinds(scope.sources, bodies=scope.bodies, titles=scope.titles)
    return [*([kinds] if len(kinds) < len(_ALL_KINDS) else []), *map(tuple, scope.token_groups)]


def _kinds(sources: Sequence[str], *, bodies: bool, titles: bool) -> tuple[str, ...]:
    """The tokens of bodies and titles of these sources. Each passage has one."""
    kinds = [kind for kind, is_wanted in (("body", bodies), ("title", titles)) if is_wanted]
    return tuple(f"{source}{kind}" for source in sources for kind in kinds)


_ALL_KINDS = _kinds(SOURCES, bodies=True, titles=True)


class ScopeTerms(NamedTuple):
    """The conditions of a scope."""

    indexed: list[str]
    """Those for which the index is used."""
    checked: list[str]
    """The others, which are checked in each match."""


def scope_terms(scope: Scope) -> ScopeTerms:
    """The scope as conditions. Where most passages meet one, the index is not used for it: it would compare each match
    with the ids of all those passages."""
    indexed, without = wanted_scopes(scope), list(scope.without)
    others = set(_ALL_KINDS) - set(_kinds(scope.sources, bodies=scope.bodies, titles=scope.titles))
    if others and len(others) <= len(_ALL_KINDS) / 2:
        indexed, without = indexed[1:], [*sorted(others), *without]
    return ScopeTerms(
        ["(" + " | ".join(f"'{SCOPE}{token}'" for token in group) + ")" for group in indexed],
        [f"!'{SCOPE}{token}'" for token in without],
    )


def needles(phrases: Sequence[Phrase]) -> dict[str, Any]:
    """The parameters by which each phrase is counted in the tokens of a passage."""
    params: dict[str, Any] = {}
    for number, phrase in enumerate(phrases):
        needle = needle_of(phrase.words, phrase.prefix)
        params |= {f"needle{number}": needle, f"bytes{number}": float(len(needle.encode()))}
    return params


def needle_of(words: Sequence[str], prefix: bool = False) -> str:
    """Some words side by side, as tokens have them."""
    return f" {'  '.join(words)}" + ("" if prefix else " ")


def scored_phrases(query: Query) -> Iterator[Phrase]:
    """The phrases that bm25 counts, repeated as in SQLite."""
    match query:
        case Phrase():
            yield query
        case Near(parts, _) | AllOf(parts) | AnyOf(parts):
            for part in parts:
                yield from scored_phrases(part)
        case Without(wanted, _):
            yield from scored_phrases(wanted)
        case Preferring(wanted, phrases):
            yield from scored_phrases(wanted)
            yield from scored_phrases(wanted.parts[0])
            yield from phrases
        case Nothing():
            pass
