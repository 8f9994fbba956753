"""Times and time zones that were typed."""

from __future__ import annotations

import pytest

from palaver.model import times


@pytest.mark.parametrize("name", ["<div>" * 8_000 + "</div>" * 8_000, "a/" * 40_000, "/" * 70, "x" * 65])
def test_a_very_long_name_is_no_time_zone(name: str):
    """Python would import a module for each part of it, until the stack is full."""
    with pytest.raises(ValueError, match="unknown time zone"):
        times.zone_of(name)
