"""Claims on files: hold files of a project for one agent or person, free them, list who holds what.

Nobody must remember to free anything: a claim ends with the session that made it, also after kill -9, and at its time.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from palaver.errors import Conflict, Forbidden, NotFound, Refused
from palaver.model import visibility
from palaver.model.answers import answer_of
from palaver.model.claims import Claim
from palaver.model.events import claim_changed
from palaver.model.file_places import worktree_of
from palaver.model.ids import new_id
from palaver.model.people import Agent, Caller, Client, Session
from palaver.model.projects import EVERY_PROJECT, project_of, same_project
from palaver.model.requests import Id, Line, NotBlank, Project, Request, clamp, storable
from palaver.model.times import now
from palaver.operations import identity
from palaver.operations.bus.messages import PostMessage, mark_active, post_message
from palaver.operations.bus.threads import CreateThread, open_thread
from palaver.operations.operation import Route, Tool, operation
from palaver.operations.sessions.private import privacy_rules
from palaver.store.bus import agents
from palaver.store.bus import claims as store
from palaver.store.bus.claims import StoredClaim
from palaver.store.engines.database import Change, Reader
from palaver.store.sessions import sharing
from palaver.store.workspaces import Workspace
from palaver.text import notable
from palaver.text.path_patterns import normal_path, overlap

MOST_HELD = 100
"""How many claims one agent or person holds in a project."""
MOST_WILDCARDS = 16
TOPIC = "Claims"
"""The thread in which an agent is told that a person ended its claim."""
BROKEN = "@{agent} {person} ended your claim {claim}: its files are free for others. Ask before you edit them again."


def _pattern(text: str) -> str:
    try:
        normal = normal_path(text)
    except ValueError as problem:
        raise ValueError(f"{problem}: name files relative to its root") from None
    if normal.count("*") + normal.count("?") > MOST_WILDCARDS:
        raise ValueError(f"must have at most {MOST_WILDCARDS} of * and ?")
    return text


Pattern = Annotated[str, Field(max_length=300), AfterValidator(storable), NotBlank, AfterValidator(_pattern)]


class _Shell(Request):
    """What tells who calls from a shell, and where."""

    agent_id: Id | None = None
    """You, from bus_connect."""
    token: Id | None = None
    """Your token."""
    project: Project | None = None
    """Folder or name of the project. Default: the one you work in; for people all of them."""
    folder: Project | None = None
    """The folder, if `project` is a name."""
    shell: Line | None = None
    """The processes above the caller, the nearest first, and the sessions of agents in its environment."""


class ClaimFiles(_Shell):
    patterns: Annotated[list[Pattern], Field(min_length=1, max_length=20)]
    """Files, as paths from the root of the project. * is any part of a name, ** any folders; a folder means all in
    it."""
    because: Annotated[Line, Field(max_length=300)] | None = None
    """What you do with them, for those who wait."""
    shared: bool = False
    """Other shared claims may have the same files, exclusive ones may not."""
    seconds: Annotated[int, clamp(60, 86_400)] = 7_200
    """How long, up to a day. Default: two hours."""
    ignores_case: bool | None = None
    """Whether the case of file names does not matter where they are. Default: as on the server's machine."""


class ReleaseFiles(_Shell):
    claim_id: Id | None = None
    """One claim. Default: all of yours in the project."""
    pattern: Pattern | None = None
    """Only yours with this pattern."""


class ListClaims(_Shell):
    pass


@dataclass(frozen=True, slots=True)
class ListedClaim(Claim):
    """A claim as it is listed. `text` says all of it in words."""

    is_yours: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class Claims:
    claims: list[ListedClaim]


HIDDEN = ("folder", "shell", "ignores_case")


@operation(
    Tool("claim", toolset="edits", acts=True, hidden=HIDDEN),
    Route("POST", "/api/claims", status=201),
)
async def claim(workspace: Workspace, caller: Caller, request: ClaimFiles) -> Claims:
    """Hold files of the project while you edit them, so that no other agent overwrites them. They are free again after
    the time, with release, or when your session ends. Refused if another agent or a person holds some of them."""
    patterns = await asyncio.to_thread(_from_root, workspace, request)
    return await workspace.change(lambda change: _claim(change, caller, request, patterns))


def _from_root(workspace: Workspace, request: ClaimFiles) -> list[str]:
    """The patterns from the root of the project. Private projects are refused."""
    privacy_rules(workspace.settings).must_record(request.folder or request.project)
    found = []
    for pattern in request.patterns:
        if workspace.settings.is_loopback and os.path.isabs(pattern):
            place = worktree_of(Path(pattern.partition("*")[0].partition("?")[0]))
            if place and same_project(project_of(place[0]), request.project):
                pattern = os.path.relpath(pattern, place[0])
        found.append(normal_path(pattern) or "**")
    return list(dict.fromkeys(found))


def _claim(change: Change, caller: Caller, request: ClaimFiles, patterns: list[str]) -> Claims:
    caller = _acting(change, caller, request)
    agent = None if visibility.is_person(caller) else identity.must_be_agent(change, caller)
    project = request.project or caller.client.project or (agent and agent.project)
    if not project:
        raise Refused("project: is required: the folder that you work in.")
    privacy_rules(change.settings).must_record(project)
    reach, owner = sharing.reach_of(change, caller), visibility.owner_of(caller, agent)
    if visibility.is_bound(caller) and not same_project(project, reach.project):
        raise Forbidden("You can claim files only of a project that you work in, as your client or its hooks tell.")
    store.lock(change, project)
    known = store.of_project(change, project)
    own = [one for one in known if visibility.is_own_claim(caller, one)]
    if len({one.pattern for one in own} | set(patterns)) > MOST_HELD:
        raise Refused(f"You hold {len(own)} claims in this project. Release some, or claim a folder.")
    ignores_case = sys.platform in ("darwin", "win32") if request.ignores_case is None else request.ignores_case
    for one in known:
        is_alone = one.kind == "exclusive" or not request.shared
        ignoring = ignores_case or one.ignores_case
        if one in own or not any(overlap(one.pattern, pattern, ignores_case=ignoring) for pattern in patterns):
            continue
        if not one.is_held:
            _end(change, one, "session ended")
        elif is_alone and reach.may_see_claim(one, one.owner, owner):
            raise Conflict(f"{in_words(one)}. Ask {one.holder}, wait, or edit other files.")
    session = store.session_of(change, caller, agent) if agent else None
    for one in own:
        if one.pattern in patterns:
            store.end(change, one.claim_id, "renewed")
    made = [
        StoredClaim(
            claim_id=new_id(),
            project=project,
            pattern=pattern,
            kind="shared" if request.shared else "exclusive",
            holder=agent.shown_name if agent else caller.name,
            agent_id=agent.id if agent else None,
            because=request.because or "",
            created_at=now(),
            expires_at=now() + timedelta(seconds=request.seconds),
            owner=owner,
            session=session,
            ignores_case=ignores_case,
        )
        for pattern in patterns
    ]
    for one in made:
        store.add(change, one)
        change.tell(claim_changed("claim.new", one))
    if agent:
        mark_active(change, agent, "claim")
    return _listed(made, caller)


@operation(
    Tool("release", toolset="edits", acts=True, hidden=HIDDEN[:2]),
    Route("POST", "/api/claims/release"),
)
def release(change: Change, caller: Caller, request: ReleaseFiles) -> Claims:
    """Free files that you hold: one claim, those with a pattern, or all of yours in the project. Returns what was
    freed. People can also end the claims of others, by their ids; an agent is told of that."""
    caller = _acting(change, caller, request)
    agent = identity.agent_of(change, caller)
    seen = store.seen_by(change, caller, None if request.claim_id else _project(caller, agent, request))
    found = [one for one in seen if visibility.is_own_claim(caller, one)]
    if request.claim_id:
        found = [one for one in seen if one.claim_id == request.claim_id]
        if not found:
            raise NotFound("claim", request.claim_id, "It has ended already; list the claims to see which are held.")
        if not visibility.is_person(caller) and not visibility.is_own_claim(caller, found[0]):
            raise Forbidden(f"{found[0].holder} holds these files. Ask it, or let a person end the claim.")
    elif request.pattern:
        pattern = normal_path(request.pattern) or "**"
        found = [one for one in found if one.pattern == pattern]
        if not found:
            raise NotFound("claim", pattern, "List the claims to see which files you hold.")
    for one in found:
        is_own = visibility.is_own_claim(caller, one)
        _end(change, one, "released" if is_own else f"broken by {caller.name}")
        if one.agent_id and not is_own and (told := agents.find(change, one.agent_id)):
            thread = open_thread(change, CreateThread(topic=TOPIC), caller)[0].thread
            said = BROKEN.format(agent=told.slug, person=caller.name, claim=one.claim_id)
            post_message.work(change, caller, PostMessage(thread_id=thread.id, content=said, mentions=[told.id]))
    return _listed(found, caller)


@operation(Tool("claims", toolset="edits", acts=True, hidden=HIDDEN[:2]), Route("GET", "/api/claims"))
def list_claims(read: Reader, caller: Caller, request: ListClaims) -> Claims:
    """List who holds which files of the project, until when and why."""
    caller = _acting(read, caller, request)
    agent = identity.agent_of(read, caller)
    found = store.seen_by(read, caller, _project(caller, agent, request))
    return _listed(found, caller)


def _listed(found: list[StoredClaim], caller: Caller) -> Claims:
    return Claims([
        answer_of(ListedClaim, one, is_yours=visibility.is_own_claim(caller, one), text=in_words(one)) for one in found
    ])  # fmt: skip


def _project(caller: Caller, agent: Agent | None, request: _Shell) -> str | None:
    project = request.project or caller.client.project or (agent.project if agent else None)
    return None if project == EVERY_PROJECT else project or None


def _end(change: Change, one: StoredClaim, how: str) -> None:
    if store.end(change, one.claim_id, how):
        change.tell(claim_changed("claim.ended", one))


def _acting(read: Reader, caller: Caller, request: _Shell) -> Caller:
    """The caller with the agent that it names, or in whose shell it runs, and with the project that it works in."""
    if request.agent_id and request.token and caller.acting_agent != request.agent_id:
        return identity.resolve(read, caller, identity.Credentials(request.agent_id, request.token))
    if visibility.is_bound(caller) and not caller.client.project:
        is_known = agents.reports_from(read, caller.acting_agent or "", request.project or "")
        client = replace(caller.client, project=request.project or "")
        return replace(caller, client=client) if is_known else caller
    if not request.shell or not visibility.is_person(caller):
        return caller
    found = agents.of_shell(read, request.shell.split())
    agent = agents.find(read, found["agent_id"]) if found else None
    if found is None or agent is None or agent.owner != caller.owner:
        return caller
    session = Session(agent_id=agent.id, key=agents.without_process(found["id_hash"]))
    client = Client(agent.client or "", project=found["project"])
    return replace(caller, kind="agent", session=session, client=client)


def in_words(one: Claim) -> str:
    """Codex holds src/export/** until 14:00 UTC (bump the version)"""
    why = f" ({notable.one_line(one.because, 120)})" if one.because else ""
    verb = "holds" if one.kind == "exclusive" else "shares"
    return f"{notable.one_line(one.holder, 40)} {verb} {one.pattern} until {one.expires_at:%H:%M} UTC{why}"


def claims_on(
    read: Reader, caller: Caller, project: str, path: str, not_of_agent: str | None, *, ignores_case: bool = False
) -> list[Claim]:
    """The claims of others on a file that the caller may see. The path starts at the root of the worktree."""
    return [*store.on_path(read, caller, project, path, not_of_agent, ignores_case=ignores_case)]
