"""When and where a question is asked: "yesterday" depends on it."""

from __future__ import annotations

from datetime import datetime, tzinfo

from palaver.model.requests import Date, Request, TimeZone
from palaver.model.times import now, offset_of, zone_of
from palaver.model.times import parse as parse_time
from palaver.search import question
from palaver.search.operators.narrow import Narrowing, parse_operators
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
        return question.parse(text, self.moment, self.zone, is_typed=is_typed)

    def narrowing(self, text: str) -> Narrowing:
        """Read the operators of a query that is asked with this request."""
        return parse_operators(text, self.moment, self.zone)

    @property
    def moment(self) -> datetime:
        """When the question is asked."""
        return parse_time(self.as_of) if self.as_of else now()

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the person who asks; None is that of the server."""
        return zone_of(self.time_zone) if self.time_zone else offset_of(self.as_of) if self.as_of else None
