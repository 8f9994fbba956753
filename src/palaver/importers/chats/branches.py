"""Conversations that branch: every edit and every retry is there, and one path through them is what was seen last."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from palaver.model.times import EPOCH

Parents = Mapping[str, str | None]
"""Each message and the one before it, in the order they were found."""


def path_to(leaf: str, parents: Parents) -> list[str]:
    """From the first message to this one; a circle is walked once."""
    path: dict[str, None] = {}
    at: str | None = leaf
    while at is not None and at in parents and at not in path:
        path[at] = None
        at = parents[at]
    return list(reversed(path))


def newest_leaf(parents: Parents, times: Mapping[str, datetime | None]) -> str | None:
    """Of those that nothing follows the newest, and among equals the last; None if there is none."""
    followed = set(parents.values())
    leaves = [id for id in parents if id not in followed]
    return max(reversed(leaves), key=lambda id: times.get(id) or EPOCH, default=None)
