"""Looking for words in long passages, whose words are in several rows.

The words that are asked for may be in several parts of a passage. Where they are to be side by side, the tokens of the
passage tell whether they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palaver.store.engines.postgres.tsqueries import needle_of, stem_or_word
from palaver.text.match import needs_text
from palaver.text.query import AllOf, AnyOf, Near, Nothing, Phrase, Preferring, Query, Without
from palaver.text.tokenize import stems as stems_of

MOST_LOOKED_UP = 8
"""Words of a phrase that are looked up in the parts of long passages. Their tokens tell whether the phrase is there."""


def matching(query: Query, scopes: Sequence[str], params: dict[str, Any]) -> str:
    """The long passages that match a query; scope words are to be near each other, those that may."""
    match query:
        case Phrase(words, prefix):
            lexemes = [f"'{word}'" for word in words]
            if prefix:
                lexemes[-1] += ":*"
            return _phrase_in_long(lexemes, "tokens", needle_of(words, prefix), scopes, params, first=query.first)
        case Near(parts, _) | AllOf(parts):
            return "(" + " INTERSECT ".join(matching(part, scopes, params) for part in parts) + ")"
        case AnyOf(parts):
            return "(" + " UNION ".join(matching(part, scopes, params) for part in parts) + ")"
        case Without(wanted, unwanted):
            if needs_text(unwanted):
                return matching(wanted, scopes, params)
            return f"({matching(wanted, scopes, params)} EXCEPT {matching(unwanted, scopes, params)})"
        case Preferring(wanted, _):
            return matching(wanted, scopes, params)
        case Nothing():
            return ""


def with_stems(groups: Sequence[Sequence[Phrase]], scopes: Sequence[str], params: dict[str, Any]) -> str:
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
        either += [matching(term, scopes, params) for term in group if term.prefix]
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
