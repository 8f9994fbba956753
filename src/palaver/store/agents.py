"""Agents: who takes part, and whether they are there."""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
import secrets
from datetime import datetime, timedelta
from typing import Any

import orjson

from palaver.errors import NotFound, Unauthorized
from palaver.model.ids import new_id
from palaver.model.people import Agent
from palaver.model.times import instant, maybe_instant, micros, now
from palaver.store.database import Change, Reader, Row


def _agent(row: Row) -> Agent:
    return Agent(
        id=row["id"],
        agent_id=row["id"],
        slug=row["slug"],
        name=row["name"],
        display_name=row["display_name"],
        description=row["description"],
        ide=row["ide"],
        model=row["model"],
        capabilities=orjson.loads(row["capabilities"]),
        skills=orjson.loads(row["skills"]),
        is_online=bool(row["is_online"]),
        registered_at=instant(row["registered_at"]),
        last_heartbeat=instant(row["last_heartbeat"]),
        last_activity=row["last_activity"],
        last_activity_time=maybe_instant(row["last_activity_time"]),
        waiting_in=row["waiting_in"],
    )


def slug_of(name: str) -> str:
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-_")[:60] or "agent"


def register(
    change: Change,
    *,
    name: str,
    slug: str | None = None,
    ide: str = "",
    model: str = "",
    display_name: str | None = None,
    description: str = "",
    capabilities: list[str] | None = None,
    skills: list[dict[str, Any]] | None = None,
    is_online: bool = True,
) -> tuple[Agent, str]:
    """A new agent and its secret. A name that is taken gets a number, 'Cursor (GPT-4) 2', and so does a slug."""
    agent_id, secret = new_id(), secrets.token_urlsafe(32)
    slug = slug or slug_of(display_name or name)
    while not change.run(
        "insert_agent",
        id=agent_id,
        slug=_free(slug, "-", {row["slug"] for row in change.all("slugs_from", first=slug, last=f"{slug}-~")}),
        name=_free(name, " ", {row["name"] for row in change.all("names_from", first=name, last=f"{name} ~")}),
        display_name=display_name,
        description=description,
        ide=ide,
        model=model,
        capabilities=orjson.dumps(capabilities or []).decode(),
        skills=orjson.dumps(skills or []).decode(),
        token_hash=_hash(secret),
        is_online=is_online,
        at=micros(now()),
        activity="registered",
    ):
        pass  # somebody took it between our look and our write
    return must_exist(change, agent_id), secret


def restore(change: Change, agent_id: str, slug: str, name: str) -> None:
    """An agent that is known from elsewhere, under the id it had. It gets its secret when it registers again."""
    if change.must("count_agents_named", slug="", name=name)["taken"]:
        name = f"{name} ({slug})"
    change.run(
        "insert_agent",
        id=agent_id,
        slug=slug,
        name=name,
        display_name=None,
        description="",
        ide="",
        model="",
        capabilities="[]",
        skills="[]",
        token_hash=None,
        is_online=False,
        at=micros(now()),
        activity="restored",
    )


def _free(name: str, joint: str, taken: set[str]) -> str:
    """The name, or the name with the first number from 2 on that nobody has."""
    numbered = (f"{name}{joint}{number}" for number in itertools.count(2))
    return next(free for free in itertools.chain([name], numbered) if free not in taken)


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def find(read: Reader, agent_id: str) -> Agent | None:
    row = read.one("agent", id=agent_id)
    return _agent(row) if row else None


def named(read: Reader, name: str) -> Agent | None:
    """By id, slug, name or display name, with or without a leading @; the id wins over a slug, a slug over a name."""
    name = name.removeprefix("@")
    called = [_agent(row) for row in read.all("agents_called", name=name)]
    return min(called, key=lambda a: (name != a.id, name != a.slug, name != a.name, a.registered_at), default=None)


def must_exist(read: Reader, agent_id: str) -> Agent:
    agent = find(read, agent_id)
    if agent is None:
        raise NotFound("agent", agent_id, "Register first, or list agents to see who is known.")
    return agent


def must_prove(read: Reader, agent_id: str, token: str | None) -> Agent:
    """The agent, if this is its secret. An unknown agent and a wrong secret look the same."""
    row = read.one("agent", id=agent_id)
    known = (row or {}).get("token_hash") or ""
    if not hmac.compare_digest(known, _hash(token or "")) or row is None:
        raise Unauthorized("agent_id and token do not match. Register again to get a new pair.")
    return _agent(row)


def everyone(read: Reader) -> list[Agent]:
    return [_agent(row) for row in read.all("agents")]


def touch(change: Change, agent: Agent, activity: str, waiting_in: str | None = None) -> bool:
    """A sign of life. Tells whether the agent was away until now."""
    change.run("touch_agent", id=agent.id, is_online=True, at=micros(now()), activity=activity, waiting_in=waiting_in)
    return not agent.is_online


def update(
    change: Change,
    agent: Agent,
    *,
    display_name: str | None,
    description: str,
    capabilities: list[str],
    skills: list[dict[str, Any]],
) -> Agent:
    change.run(
        "update_agent",
        id=agent.id,
        display_name=display_name,
        description=description,
        capabilities=orjson.dumps(capabilities).decode(),
        skills=orjson.dumps(skills).decode(),
    )
    return must_exist(change, agent.id)


def rename(change: Change, agent: Agent, display_name: str) -> Agent:
    change.run("rename_agent", id=agent.id, display_name=display_name)
    return must_exist(change, agent.id)


def leave(change: Change, agent: Agent, activity: str) -> None:
    change.run("agent_goes_offline", id=agent.id, is_online=False, activity=activity, at=micros(now()))


def silent_since(read: Reader, before: datetime) -> list[Agent]:
    """Who counts as online but has not been heard of."""
    after = micros(now() + timedelta(minutes=1))
    return [_agent(row) for row in read.all("silent_agents", is_online=True, before=micros(before), after=after)]
