"""How many results there are in each source and in each month."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, tzinfo
from itertools import islice

from palaver.model.search import Counts
from palaver.model.times import instant, micros
from palaver.search.results import Results
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader
from palaver.store.search import found_passages
from palaver.text.dates.periods import add_months

MOST_COUNTED = 20_000
"""Passages that are counted at most."""


def count_results(read: Reader, results: Results, zone: tzinfo | None) -> Counts:
    """Count the results of a search, as far as they were collected. A month begins where the asker is."""
    ids: Iterable[int] = results.listed
    total = len(results.listed)
    if results.hits:
        # Passages without any word of the question are only similar to it.
        groups = [some for terms, some in results.hits.by_terms.items() if terms]
        ids, total = (id for some in groups for id in some), sum(map(len, groups))
    seen, sources, times = set(), Counter[str](), list[int]()
    for one in found_passages.candidates(read, list(islice(ids, MOST_COUNTED))):
        key = SOURCES[one.source].key_of(one)
        if key not in seen:
            seen.add(key)
            sources[one.source] += 1
            if one.created_at is not None:
                times.append(one.created_at)
    return Counts(
        sources={name: sources[name] for name in sorted(sources, key=lambda name: (-sources[name], name))},
        months=_by_month(times, zone),
        is_capped=results.capped is not None or total > MOST_COUNTED,
    )


def _by_month(times: list[int], zone: tzinfo | None) -> dict[str, int]:
    """The number of times in each month that has any, the newest month first."""
    if not times:
        return {}

    def local(at: int) -> datetime:
        return instant(at).astimezone(zone).replace(tzinfo=None)

    month = local(min(times)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    names, begins = list[str](), list[int]()
    last = local(max(times))
    while month <= last:
        names.append(f"{month:%Y-%m}")
        begins.append(micros((month.replace(tzinfo=zone) if zone else month).astimezone(UTC)))
        month = add_months(month, 1)
    counts = Counter(bisect_right(begins, at) - 1 for at in times)
    return {names[number]: counts[number] for number in sorted(counts, reverse=True)}
