"""Content filter (refuses secrets) and rate limit of posts per author."""

from __future__ import annotations

from palaver.errors import Refused, TooMany
from palaver.store.bus import messages
from palaver.store.engines.database import Change
from palaver.text.secrets import secret_in


def refuse_secrets(change: Change, text: str | None, what: str = "content") -> None:
    if text and change.settings.content_filter and (kind := secret_in(text)):
        raise Refused(
            f"{what} blocked by the content filter: it seems to contain {kind}. Remove it and post again. "
            "The administrator of the server can turn the filter off with PALAVER_CONTENT_FILTER=off."
        )


def refuse_too_many_posts(change: Change, author: str) -> None:
    """Refuse posts beyond the rate limit of the author. All processes count together, in the database."""
    limit = change.settings.rate_limit
    if limit <= 0:
        return
    wait = messages.wait_to_post(change, author, limit)
    if wait:
        raise TooMany(f"Rate limit exceeded: {limit} posts a minute for each author. Try again in {wait} s.", wait)
