"""Content filter (refuses secrets) and rate limit of posts per author."""

from __future__ import annotations

from math import ceil

from palaver.errors import Refused, TooMany
from palaver.model.times import micros, now
from palaver.store.engines.database import Change
from palaver.text.secrets import secret_in

MINUTE = 60_000_000


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
    at = micros(now())
    change.run("forget_post_times", before=at - MINUTE, after=at + MINUTE)  # the clock may have been set back
    row = change.must("post_times", author=author)
    if row["posts"] >= limit:
        wait = max(1, ceil((row["first"] + MINUTE - at) / 1_000_000))
        raise TooMany(f"Rate limit exceeded: {limit} posts a minute for each author. Try again in {wait} s.", wait)
    change.run("insert_post_time", author=author, at=at)
