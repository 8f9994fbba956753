"""When and where a question is asked: "yesterday" depends on it."""

from __future__ import annotations

from palaver.model.requests import Date, Request, TimeZone
from palaver.model.times import offset_of, zone_of
from palaver.model.times import parse as parse_time
from palaver.search import question
from palaver.search.question import Question

HIDDEN = ("as_of", "time_zone")
"""Arguments that tools accept but do not list: an agent asks now, where the server is."""


class Asking(Request):
    as_of: Date | None = None
    """When the question is asked, for words such as "yesterday". Default: now."""
    time_zone: TimeZone | None = None
    """Time zone of the person who asks (Europe/Berlin, +02:00). Default: that of as_of, else of the server."""

    def question(self, text: str, *, is_typed: bool = False) -> Question:
        """Parse a query that is asked with this request. `is_typed`: it is still being typed."""
        as_of = parse_time(self.as_of) if self.as_of else None
        zone = zone_of(self.time_zone) if self.time_zone else offset_of(self.as_of) if self.as_of else None
        return question.parse(text, as_of, zone, is_typed=is_typed)
