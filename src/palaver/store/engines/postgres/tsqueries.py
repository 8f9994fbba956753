"""Queries, terms and scopes as text for tsquery, and as SQL for long passages, whose words are in several rows."""

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


# Long passages
#
# Their words are in several rows, and the words that are asked for may be in several parts of a passage. Where they are
# to be side by side, the tokens of the passage tell whether they are.

MOST_LOOKED_UP = 8
"""Words of a phrase that are looked up in the parts of long passages. Their tokens tell whether the phrase is there."""


def matching_long(query: Query, scopes: Sequence[str], params: dict[str, Any]) -> str:
    """The long passages that match a query; scope words are to be near each other, those that may."""
    match query:
        case Phrase(words, prefix):
            lexemes = [f"'{word}'" for word in words]
            if prefix:
                lexemes[-1] += ":*"
            return _phrase_in_long(lexemes, "tokens", needle_of(words, prefix), scopes, params, first=query.first)
        case Near(parts, _) | AllOf(parts):
            return "(" + " INTERSECT ".join(matching_long(part, scopes, params) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " UNION ".join(matching_long(part, scopes, params) for part in parts) + ")"
        case Without(wanted, unwanted):
            if needs_text(unwanted):
                return matching_long(wanted, scopes, params)
            return f"({matching_long(wanted, scopes, params)} EXCEPT {matching_long(unwanted, scopes, params)})"
        case Preferring(wanted, _):
            return matching_long(wanted, scopes, params)
        case Nothing():
            return ""


def long_with_stems(groups: Sequence[Sequence[Phrase]], scopes: Sequence[str], params: dict[str, Any]) -> str:
    """The long passages that have a word of each group, whatever its ending."""
    found = []
    for group in groups:
        terms = [stems_of(term.words) for term in group]
        alone = [stem_or_word(stems[0]) for stems in terms if len(stems) == 1]
        either = [_part([f"({' | '.join(alone)})", *scopes], params)] if alone else []
        for stems in terms:
            if len(stems) > 1:
                lexemes, needle = [stem_or_word(one) for one in stems], needle_of(stems)
                either.append(_phrase_in_long(lexemes, "coalesce(stems, tokens)", needle, scopes, params))
        either += [matching_long(term, scopes, params) for term in group if term.prefix]
        found.append("(" + " UNION ".join(either) + ")")
    return "(" + " INTERSECT ".join(found) + ")"


def _phrase_in_long(
    lexemes: Sequence[str],
    column: str,
    needle: str,
    scopes: Sequence[str],
    params: dict[str, Any],
    *,
    first: bool = False,
) -> str:
    """The long passages that have the lexemes side by side: a column of theirs has the needle, or begins with it."""
    telling = sorted(set(lexemes), key=lambda lexeme: (-len(lexeme), lexeme))[:MOST_LOOKED_UP]
    found = "(" + " INTERSECT ".join(_part([lexeme, *scopes], params) for lexeme in telling) + ")"
    if len(lexemes) == 1 and not first:
        return found
    name = f"beside{len(params)}"
    params[name] = needle
    inside = f"SELECT passage_id FROM {found} AS held JOIN passage_index USING (passage_id)"
    return f"({inside} WHERE strpos({column}, %({name})s) {'= 1' if first else '> 0'})"


def _part(lexemes: Sequence[str], params: dict[str, Any]) -> str:
    """The long passages of which one part has all of these."""
    name = f"part{len(params)}"
    params[name] = " & ".join(lexemes)
    return f"(SELECT DISTINCT passage_id FROM passage_parts WHERE words @@ CAST(%({name})s AS tsquery))"
