"""Agents: registration, secrets, connections, and whether they are online."""

from __future__ import annotations

import base64
import hmac
import os
import secrets
import socket
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from palaver.errors import Unauthorized, must_be_found
from palaver.model.ids import new_id
from palaver.model.people import OTHER_NAMES, Agent, program_of
from palaver.model.projects import identity_of, same_project
from palaver.model.sessions import Owner
from palaver.model.times import micros, now
from palaver.store.admin.tokens import hash_of
from palaver.store.bus import names
from palaver.store.engines.database import Change, Reader, Row
from palaver.store.rows import from_row, params_of, stored
from palaver.text.folded_names import slug_of as slug_of

CONNECTIONS_KEPT = timedelta(days=90)
"""A connection that is not used for this long is forgotten."""
SECRETS_KEPT = 20
"""How many secrets of one agent stay valid beside its first one."""


def _agent(row: Row) -> Agent:
    client, project = row["client"] or None, row["project"] or None
    return from_row(Agent, row, agent_id=row["id"], client=client, project=project)


@dataclass(frozen=True, slots=True)
class NewAgent:
    """An agent to register. Its slug is made from its name unless it is given."""

    name: str
    slug: str = ""
    display_name: str | None = None
    description: str = ""
    ide: str = ""
    model: str = ""
    capabilities: list[str] = field(default_factory=list)
    skills: list[dict[str, Any]] = field(default_factory=list)
    is_online: bool = True
    client: str = ""
    project: str = ""
    owner: str = ""


def register(change: Change, new: NewAgent) -> tuple[Agent, str]:
    """Add an agent and return it with its secret. A taken name or slug gets a number: 'Cursor (GPT-4) 2'."""
    agent_id, secret = new_id(), secrets.token_urlsafe(32)
    is_added = 0
    while not is_added:  # another caller may take the names meanwhile: then the next number is free
        slug = names.free(change, new.slug or slug_of(new.display_name or new.name), "-")
        shown = new.display_name and names.free(change, new.display_name)
        free = replace(new, slug=slug, name=names.free(change, new.name), display_name=shown)
        is_added = _insert(change, agent_id, free, "registered", hash_of(secret))
    return _keep_names(change, agent_id), secret


def _insert(change: Change, id: str, new: NewAgent, activity: str, token_hash: str | None) -> int:
    about = {"at": micros(now()), "activity": activity, "token_hash": token_hash, "is_released": not new.is_online}
    return change.run("insert_agent", id=id, **params_of(new), **about)


def _keep_names(change: Change, agent_id: str) -> Agent:
    """Keep the names that an agent has now, for good. Messages under these names are its own."""
    agent = must_exist(change, agent_id)
    names.take(change, names.AGENTS + agent.id, agent.slug, agent.name, agent.display_name)
    return agent


def restore(change: Change, owner: Owner) -> None:
    """Add an agent that the transcripts know, with its old id. It gets a secret when it registers again."""
    is_taken = change.must("count_agents_named", slug="", name=owner.name)["taken"]
    name = f"{owner.name} ({owner.slug})" if is_taken else owner.name
    new = NewAgent(name, owner.slug, is_online=False, client=owner.program, project=owner.project, owner=owner.owner)
    _insert(change, owner.id, new, "restored", None)


def find(read: Reader, agent_id: str) -> Agent | None:
    row = read.one("agent", id=agent_id)
    return _agent(row) if row else None


def named(read: Reader, name: str) -> Agent | None:
    """By id, slug, name or display name, with or without a leading @; the id wins over a slug, a slug over a name. Also
    by a name that it had before."""
    agent = best_named([_agent(row) for row in read.all("agents_called", name=name.removeprefix("@"))], name)
    holder = None if agent else names.holder_of(read, name, exactly=True)
    return find(read, holder.removeprefix(names.AGENTS)) if holder else agent


def called(read: Reader, name: str) -> list[Agent]:
    """The agent with this name, and all agents of the client program with this name."""
    one = named(read, name)
    others = [agent for agent in of_program(read, name.removeprefix("@")) if one is None or agent.id != one.id]
    return [one, *others] if one else others


def of_program(read: Reader, program: str) -> list[Agent]:
    """The agents of all owners in this client program, the oldest first. `gemini` is `gemini-cli` too."""
    program = OTHER_NAMES.get(program.casefold(), program)
    return [_agent(row) for row in read.all("agents_of_program", client=program)] if program else []


def names_of(read: Reader, agent: Agent) -> list[str]:
    """The names under which an agent wrote: those it has, and those it had before."""
    had = [row["name"] for row in read.all("names_of", holder=names.AGENTS + agent.id)]
    return [name for name in dict.fromkeys([agent.id, agent.slug, agent.name, agent.display_name, *had]) if name]


def best_named(known: Iterable[Agent], name: str) -> Agent | None:
    """The agent of these that the name means, in the order of `named`."""
    name = name.removeprefix("@")
    called = [agent for agent in known if name in (agent.id, agent.slug, agent.name, agent.display_name)]
    return min(called, key=lambda a: (name != a.id, name != a.slug, name != a.name, a.registered_at), default=None)


def must_exist(read: Reader, agent_id: str) -> Agent:
    return must_be_found(find(read, agent_id), "agent", agent_id, "Register first, or list agents to see who is known.")


def must_prove(read: Reader, agent_id: str, token: str | None) -> Agent:
    """The agent, if this is its secret. An unknown agent and a wrong secret look the same."""
    row = read.one("agent", id=agent_id)
    given = hash_of(token or "")
    known = (row or {}).get("token_hash") or ""
    is_proven = hmac.compare_digest(known, given)
    if row is None or not (is_proven or read.one("agent_secret", agent_id=agent_id, token_hash=given)):
        raise Unauthorized("agent_id and token do not match. Call bus_connect without them to get a new pair.")
    return _agent(row)


def new_secret(change: Change, agent: Agent, session: str | None = None) -> str:
    """Give the agent a further secret. The ones it has stay valid, up to the newest SECRETS_KEPT. The secret of a
    client's session is made from its id, so that a session whose context was compacted gets the same one again."""
    secret, at = secrets.token_urlsafe(32), micros(now())
    key = change.must("agent", id=agent.id)["token_hash"]
    if key is None:
        change.run("set_agent_token", id=agent.id, token_hash=hash_of(secret))
        key = hash_of(secret)
    if session is not None:
        made = hmac.digest(key.encode(), f"session {session}".encode("utf-8", "replace"), "sha256")
        secret = base64.urlsafe_b64encode(made).decode().rstrip("=")
    if hash_of(secret) != key:
        change.run("add_agent_secret", token_hash=hash_of(secret), agent_id=agent.id, at=at)
        change.run("drop_old_agent_secrets", agent_id=agent.id, keep=SECRETS_KEPT)
    return secret


def everyone(read: Reader) -> list[Agent]:
    return [_agent(row) for row in read.all("agents")]


def touch(change: Change, agent: Agent, activity: str, waiting_in: str | None = None) -> bool:
    """Record that the agent is active. Returns whether it was offline until now."""
    now_active = {"is_online": True, "is_released": False, "at": micros(now()), "activity": activity}
    change.run("touch_agent", id=agent.id, waiting_in=waiting_in, **now_active)
    return not agent.is_online


def remove(change: Change, agent: Agent) -> None:
    """Remove an agent. Its names are not given to another one."""
    _keep_names(change, agent.id)
    change.run("delete_agent", id=agent.id)
    change.run("forget_read_marks", reader=agent.id)
    change.run("forget_saved_searches", owner=agent.id)


# Reply tokens


def sign_reply(read: Reader, agent_id: str | None) -> str:
    """A token for one post. It names its agent and is signed with a key that only the database has."""
    nonce = secrets.token_urlsafe(9)
    key = _reply_key(read, agent_id) if agent_id else None
    return f"{agent_id}.{nonce}.{_signature(key, nonce)}" if key else f".{nonce}"


def agent_of_reply(read: Reader, reply_token: str) -> str | None:
    """The agent that a reply token names. None if it names none, or if its signature is wrong."""
    agent_id, _, rest = reply_token.partition(".")
    nonce, _, signature = rest.partition(".")
    key = _reply_key(read, agent_id) if agent_id and signature else None
    is_ours = key is not None and hmac.compare_digest(_signature(key, nonce).encode(), signature.encode())
    return agent_id if is_ours else None


def _reply_key(read: Reader, agent_id: str) -> str | None:
    return (read.one("agent", id=agent_id) or {}).get("token_hash")


def _signature(key: str, nonce: str) -> str:
    return hmac.new(key.encode(), nonce.encode("utf-8", "replace"), "sha256").hexdigest()[:24]


# Connections of clients


def connection_key(session_id: str) -> str:
    """The key under which a connection is stored. It is a hash, so that a reader of the database cannot take over
    the session."""
    return hash_of(session_id)


def process_key(pid: int) -> str:
    """The key of a stdio connection. It names the process, so that one can tell later whether it still runs."""
    return f"stdio:{socket.gethostname()}:{pid}"


def hook_key(session_id: str, pid: int | None) -> str:
    """The key of a client whose hooks report to us: its session, and its process if that is known."""
    return f"{hook_prefix(session_id)}{socket.gethostname()}:{pid or 0}"


def hook_prefix(session_id: str) -> str:
    return f"hook:{connection_key(session_id)[:32]}:"


def without_process(connection: str) -> str:
    """The part of a connection's key that stays when its session goes on in another process."""
    kind, session, _ = (connection + "::").split(":", 2)
    return f"hook:{session}:" if kind == "hook" else connection


class HookConnection(NamedTuple):
    """A session of a client whose hooks report to us."""

    key: str
    agent_id: str
    state: Literal["idle", "working", "woken"]
    """woken: it works because of a text of ours, which may not have arrived."""
    turn: int
    """How many turns began."""
    waiter: str
    """The call that waits to wake it, or an empty text."""
    announced: int
    """The last passage of a summary. Messages up to it do not wake the session again."""
    task: str = ""
    """What the person asked for, in one line."""


def hook_connection(read: Reader, session_id: str) -> HookConnection | None:
    row = read.one("connection_like", pattern=f"{hook_prefix(session_id)}%")
    return HookConnection(**row) if row else None


def lock_session(change: Change, session_id: str) -> None:
    """Let no other server, and no other hook of a session, register an agent for it until the commit."""
    change.one("lock_session", prefix=hook_prefix(session_id))


def running_connections(read: Reader, agent_id: str) -> list[Row]:
    """The connections of an agent whose processes have not ended, as far as this machine knows."""
    return [row for row in read.all("connections_of_agent", agent_id=agent_id) if not has_ended(row["id_hash"])]


def is_at_work(read: Reader, agent_id: str, active_since: datetime) -> bool:
    """Whether a session of the agent runs, as far as this machine knows."""
    running = running_connections(read, agent_id)
    if any(one["waiter"] or (one["id_hash"].startswith("hook:") and one["id_hash"][-2:] != ":0") for one in running):
        return True
    about = read.must("agent", id=agent_id)
    return bool(running) and not about["is_released"] and about["last_heartbeat"] >= micros(active_since)


def has_starter(read: Reader, agent_id: str) -> bool:
    """Whether `palaver spawn` starts a program for messages to this agent."""
    return read.one("starter_of_agent", agent_id=agent_id) is not None


def has_left(read: Reader, agent_id: str) -> bool:
    """Whether no running client acts as this agent."""
    return bool(read.must("agent", id=agent_id)["is_released"])


def of_shell(read: Reader, words: list[str]) -> Row | None:
    """The session with hooks in whose shell a command runs. `words` are the processes above the command, the nearest
    first, and the ids of sessions in its environment: an agent may have been started in the shell of another one."""
    known = read.all("hook_connections")
    running = [row for row in known if not has_ended(row["id_hash"])]
    processes = {process_of(row["id_hash"]): row for row in reversed(running)}
    sessions = {without_process(row["id_hash"]): row for row in known}
    found = (processes.get(int(word)) if word.isdecimal() else sessions.get(hook_prefix(word)) for word in words)
    return next(filter(None, found), None)


def set_hook_connection(change: Change, known: HookConnection, **changed: Any) -> None:
    """Store what a session does now, or which call waits to wake it."""
    values = known._replace(**changed)._asdict()
    del values["agent_id"]
    change.run("set_hook_session", **values)


def move_hook_connection(change: Change, known: HookConnection, key: str) -> HookConnection:
    """The session goes on in another process."""
    change.run("end_connection", id_hash=key)
    change.run("rename_connection", id_hash=known.key, key=key)
    return known._replace(key=key)


def end_waiting(change: Change, waiter: str) -> None:
    change.run("end_waiting", waiter=waiter)


def end_hook_connection(change: Change, session_id: str) -> HookConnection | None:
    if known := hook_connection(change, session_id):
        end_connection(change, known.key)
    return known


def of_client(read: Reader, owner: str, client: str, project: str | None = None) -> list[Agent]:
    """The agents of an owner in a client program, in one project or all. The first one is the oldest."""
    return [_agent(row) for row in _of_client(read, owner, client, project)]


def _of_client(read: Reader, owner: str, client: str, project: str | None) -> list[Row]:
    rows = read.all("agents_of_client", client=client, owner=owner)
    return [row for row in rows if project is None or identity_of(row["project"]) == identity_of(project)]


def announced_by_hook(read: Reader, owner: str, client: str, project: str, active_since: datetime) -> list[Agent]:
    """Agents of this client program that only a hook has announced: no MCP connection acts as them yet."""
    found = []
    for agent in active_of_client(read, owner, client, project, active_since):
        keys = [one["id_hash"] for one in read.all("connections_of_agent", agent_id=agent.id)]
        if all(key.startswith("hook:") for key in keys) and not all(map(has_ended, keys)):
            found.append(agent)
    return found


def bind_connection(
    change: Change, key: str, agent: Agent, program: str = "", project: str = "", folder: str = ""
) -> None:
    """Store the agent of a connection, and forget connections that were not used for a long time."""
    place = {"program": program, "project": project, "folder": folder}
    change.run("bind_connection", id_hash=key, agent_id=agent.id, at=micros(now()), **place)
    change.run("forget_old_connections", before=micros(now() - CONNECTIONS_KEPT))


def reported_project(read: Reader, agent_id: str, program: str, folder: str, since: datetime) -> str:
    """The project that the hooks of an agent's program report: of this folder, else the only one; '' if unknown."""
    rows = read.all("reported_projects", agent_id=agent_id, program=program, since=micros(since))
    found = {row["project"] for row in rows if not folder or row["folder"] == folder}
    return found.pop() if len(found) == 1 else ""


def reports_from(read: Reader, agent_id: str, project: str) -> bool:
    """Whether hooks of the agent have reported from a project."""
    return any(same_project(row["project"], project) for row in read.all("projects_of_hooks", agent_id=agent_id))


def connected_as(read: Reader, key: str) -> str | None:
    """The id of the agent of a connection."""
    row = read.one("connected_agent", id_hash=key)
    return row["agent_id"] if row else None


def end_connection(change: Change, key: str) -> None:
    """End a connection. Its agent is free for the next client of the same kind, unless another client uses it."""
    agent_id = connected_as(change, key)
    change.run("end_connection", id_hash=key)
    if agent_id and not change.all("connections_of_agent", agent_id=agent_id):
        change.run("release_agent", id=agent_id, is_released=True)


def pause_connection(change: Change, key: str) -> None:
    """The client closed its stream and may have gone. Its agent is free until the connection is used again."""
    agent_id = connected_as(change, key)
    if agent_id and len(change.all("connections_of_agent", agent_id=agent_id)) == 1:
        change.run("release_agent", id=agent_id, is_released=True)


def active_of_client(read: Reader, owner: str, client: str, project: str, since: datetime) -> list[Agent]:
    """Agents of this client program, in the project if it is known, that were active since then and have not left."""
    rows = _of_client(read, owner, client, project or None)
    return [_agent(row) for row in rows if row["last_heartbeat"] >= micros(since) and not row["is_released"]]


def free_of_client(read: Reader, owner: str, client: str, project: str, active_since: datetime) -> list[Agent]:
    """Agents of this client program and project that no running client uses, the oldest first."""
    rows = _of_client(read, owner, client, project)
    return [_agent(row) for row in rows if _is_free(read, row, active_since)]


def free_named(read: Reader, slug: str, active_since: datetime) -> Agent | None:
    """The agent with this slug, if no client program has used it so far. Its sessions were only recorded."""
    agent = named(read, slug)
    row = read.one("agent", id=agent.id) if agent and agent.slug == slug and not agent.client else None
    return _agent(row) if row and _is_free(read, row, active_since) else None


def _is_free(read: Reader, row: Row, active_since: datetime) -> bool:
    if row["is_released"] or row["last_heartbeat"] < micros(active_since):
        return True
    connections = [found["id_hash"] for found in read.all("connections_of_agent", agent_id=row["id"])]
    return bool(connections) and all(has_ended(key) for key in connections)


def has_ended(connection: str) -> bool:
    """Whether the process of a connection has ended. For connections over the network this is unknown."""
    if not (pid := process_of(connection)):
        return False
    try:
        os.kill(pid, 0)
        with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:  # killed, and its parent does not ask for it
            return file.read().rpartition(b")")[2].split()[0] == b"Z"
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        return False
    return False


def process_of(connection: str) -> int | None:
    """The process id of a connection, if it is one of this machine and known."""
    kind, _, rest = connection.partition(":")
    host, _, pid = (rest.partition(":")[2] if kind == "hook" else rest).rpartition(":")
    is_here = kind in ("stdio", "hook") and pid.isdecimal() and host == socket.gethostname()
    return int(pid) or None if is_here and os.name != "nt" else None  # on Windows os.kill would end the process


def set_about(change: Change, agent: Agent, ide: str, model: str) -> None:
    change.run("set_agent_about", id=agent.id, ide=ide, model=model)


def set_client(change: Change, agent: Agent, client: str, project: str) -> None:
    change.run("set_agent_client", id=agent.id, client=client, project=project)


def update(change: Change, agent: Agent) -> Agent:
    """Store the description, capabilities and skills of an agent."""
    skills, capabilities = stored(agent.skills), stored(agent.capabilities)
    change.run("update_agent", id=agent.id, description=agent.description, capabilities=capabilities, skills=skills)
    return must_exist(change, agent.id)


def rename(
    change: Change, agent: Agent, display_name: str | None, slug: str | None = None, *, is_person: bool = False
) -> Agent:
    """Give an agent other names, unless they are taken. It keeps its old ones: they still mean it. `is_person`: a
    person gives the name, who may also choose that of a program."""
    holder, programs = names.AGENTS + agent.id, None if is_person else (agent.client or "", program_of(agent.ide))
    _keep_names(change, agent.id)
    if display_name:
        names.must_be_free(change, display_name, by=holder, programs=programs)
    if slug:
        names.must_be_free(change, slug, "-", by=holder, programs=programs)
    change.run("rename_agent", id=agent.id, slug=slug or agent.slug, display_name=display_name)
    for name in (agent.slug, agent.name, agent.display_name):
        if name:  # of a time when mentions were stored by name
            change.run("give_mentions", name=name.casefold(), to=agent.id)
    return _keep_names(change, agent.id)


def leave(change: Change, agent: Agent, activity: str) -> None:
    change.run("agent_goes_offline", id=agent.id, is_online=False, activity=activity, at=micros(now()))


def release(change: Change, agent: Agent) -> None:
    change.run("release_agent", id=agent.id, is_released=True)


def silent_since(read: Reader, before: datetime) -> list[Agent]:
    """Agents that count as online but were not active since then."""
    after = micros(now() + timedelta(minutes=1))
    return [_agent(row) for row in read.all("silent_agents", is_online=True, before=micros(before), after=after)]
