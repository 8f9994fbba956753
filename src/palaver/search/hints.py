"""Why a search found nothing, and what to do next."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from palaver.model.projects import EVERY_PROJECT
from palaver.model.requests import Request

NO_WORD = "There is no word to look for in this query."
CAPPED = "Very many {} match; only the newest were ranked. Add a word to narrow the search."
NOT_HERE = "Probably not in memory: these results may only be similar."
NOT_RECORDED = "None of your sessions has been recorded yet."


def nothing_found(what: str, filters: Iterable[str] = (), advice: str = "Try other words or another spelling.") -> str:
    """`what` says what is not there: "No message has all of these words". `filters` are arguments that leave things
    out."""
    given = ", ".join(filters)
    if not given:
        return f"{what}. {advice}"
    return f"{what} with the filters given ({given}). Leave them out to search everywhere, or try other words."


def in_other_projects(count: int) -> str:
    return f"{_sessions(count)} in other projects {'matches' if count == 1 else 'match'}: pass project: *"


def out_of_reach(count: int, level: str) -> str:
    return f"{_sessions(count)} of others {'is' if count == 1 else 'are'} out of your reach: sharing is '{level}'."


def _sessions(count: int) -> str:
    return f"{count} session{'' if count == 1 else 's'}"


def no_more(total: int | None) -> str:
    """A page that begins behind the last result."""
    return f"There are no more results: the search has {total or 0} in all. Begin again with offset 0."


def filters_of(request: Request, besides: Collection[str]) -> list[str]:
    """The names of the arguments that were given, `besides` those that leave nothing out."""
    return [name for name, value in request if value not in (None, EVERY_PROJECT) and name not in besides]
