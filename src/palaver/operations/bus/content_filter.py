"""What may not be posted: secrets, and too much at once."""

from __future__ import annotations

from palaver.errors import Refused, TooMany
from palaver.store.bus import post_times
from palaver.store.engines.database import Change
from palaver.text.secrets import secret_in


def refuse_secrets(change: Change, text: str | None, what: str = "content") -> None:
    if text and change.settings.content_filter and (kind := secret_in(text)):
        raise Refused(
            f"{what} blocked by the content filter: it seems to hold {kind}. Take it out and post again; "
            "whoever runs the server can switch the filter off with PALAVER_CONTENT_FILTER=off."
        )


def refuse_haste(change: Change, author: str) -> None:
    """At most so many posts a minute for each author. Counted in the tables, so that all processes count together."""
    limit = change.settings.rate_limit
    if limit <= 0:
        return
    wait = post_times.add(change, author, limit)
    if wait:
        raise TooMany(f"Rate limit exceeded: {limit} posts a minute for each author. Try again in {wait} s.", wait)
