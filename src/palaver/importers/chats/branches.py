"""Choose one branch of a conversation that is a tree of edits and retries, and list the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from palaver.model.times import EPOCH

Parents = Mapping[str, str | None]
"""The parent of each message, in the order of the file."""


def path_to(leaf: str, parents: Parents) -> list[str]:
    """The ids from the first message to this one. A cycle ends the path."""
    path: dict[str, None] = {}
    at: str | None = leaf
    while at is not None and at in parents and at not in path:
        path[at] = None
        at = parents[at]
    return list(reversed(path))


def other_branches(path: Sequence[str], parents: Parents) -> list[tuple[str | None, list[str]]]:
    """The branches beside a path: the id that each follows, and its own ids. A branch may follow an earlier one."""
    followed = {parent for parent in parents.values() if parent is not None}
    taken = set(path)
    found: list[tuple[str | None, list[str]]] = []
    for leaf in parents:
        if leaf in followed or leaf in taken:
            continue
        own: list[str] = []
        at: str | None = leaf
        while at is not None and at in parents and at not in taken:
            taken.add(at)
            own.append(at)
            at = parents[at]
        found.append((at if at in parents else None, own[::-1]))
    return found


def newest_leaf(parents: Parents, times: Mapping[str, datetime | None]) -> str | None:
    """The newest message without a child, the last one among equals; None if there is none."""
    followed = set(parents.values())
    leaves = [id for id in parents if id not in followed]
    return max(reversed(leaves), key=lambda id: times.get(id) or EPOCH, default=None)
