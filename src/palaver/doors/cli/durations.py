"""Lengths of time as typed: 30d, 12h, 45m."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import click

LONGEST = timedelta(days=36_500)


class Duration(click.ParamType[timedelta]):
    """A number and a unit: s, m, h, d or w."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        found = re.fullmatch(r"(\d{1,6})([smhdw])", str(value).strip())
        if found is None or int(found[1]) == 0:
            self.fail(f"'{value}' is not a duration. Use for example 30d, 12h, 45m or 4w.", param, ctx)
        unit = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[found[2]]
        duration = timedelta(**{unit: int(found[1])})
        if duration > LONGEST:
            self.fail("more than a hundred years. Name a shorter time.", param, ctx)
        return duration
