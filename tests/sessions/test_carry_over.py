"""Sessions that palaver 0.2 recorded go to the agents of their projects."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.conftest import Engine
from tests.helpers import word
from tests.store.bus import Bus, opened

from palaver.model.sessions import Owner
from palaver.operations.bus.agents import list_agents
from palaver.operations.sessions import recording, searching
from palaver.operations.sessions.carry_over import carry_over
from palaver.operations.sessions.session_index import catch_up_all, reindex, verify
from palaver.operations.sessions.sessions import list_sessions
from palaver.settings import Settings


async def record(bus: Bus, agent: str, session: str, text: str, project: str | None) -> None:
    await bus.do(recording.record_turn, agent=agent, session=session, role="user", content=text, project=project)


async def begin_again(bus: Bus) -> None:
    """The data is that of 0.2."""
    await bus.here.change(lambda change: change.connection.run("DELETE FROM workspace_settings", {}))


async def filed(bus: Bus) -> set[tuple[str, str, str | None]]:
    """Session, slug of its agent, project."""
    slugs = {one.id: one.slug for one in (await bus.do(list_agents, include_inactive=True)).agents}
    listed = (await bus.do(list_sessions, limit=100)).sessions
    return {(one.session_id, slugs[one.agent_id], one.project) for one in listed}


async def found(bus: Bus, text: str, project: str) -> set[str]:
    answer = await bus.do(searching.search_all_conversations, query=text, project=project)
    return {hit.session_id for hit in answer.hits}


def make_repository(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    with (root / ".git" / "config").open("a") as file:
        file.write('[remote "origin"]\n\turl = git@github.com:acme/exporter.git\n')


async def test_sessions_of_a_program_go_to_the_agents_of_their_projects(engine: Engine, tmp_path: Path):
    settings = Settings(home=tmp_path / "home", database_url=engine.empty())
    ivy, repository = word(), tmp_path.resolve() / "exporter"
    repository.mkdir()
    async with opened(settings) as bus:
        await record(bus, "claude-code", "s-1", f"{ivy} one", str(repository))
        await record(bus, "claude-code", "s-2", f"{ivy} two", "/nowhere/importer")
        await record(bus, "claude-code", "s-3", f"{ivy} three", None)
        await record(bus, "gemini", "s-4", f"{ivy} four", str(repository))
        await record(bus, "reviewer", "s-5", f"{ivy} five", str(repository))
    make_repository(repository)
    wanted = {
        ("s-1", "claude-code-exporter", "github.com/acme/exporter"),
        ("s-2", "claude-code-importer", "/nowhere/importer"),
        ("s-3", "claude-code", None),
        ("s-4", "gemini-cli-exporter", "github.com/acme/exporter"),
        ("s-5", "reviewer", "github.com/acme/exporter"),
    }
    async with opened(settings) as bus:
        await carry_over(bus.here)
        assert await filed(bus) == wanted
        assert await found(bus, ivy, "github.com/acme/exporter") == {"s-1", "s-4", "s-5"}
        assert await found(bus, ivy, "exporter") == {"s-1", "s-4", "s-5"}
        assert await found(bus, ivy, "/nowhere/importer") == {"s-2"}
        assert await carry_over(bus.here) == 0
        assert [one for one in await verify(bus.here) if one.missing or one.extra or one.different] == []
        await reindex(bus.here)
        assert await filed(bus) == wanted
        assert await found(bus, ivy, "github.com/acme/exporter") == {"s-1", "s-4", "s-5"}


@pytest.mark.parametrize("when", ["before the old file is deleted", "before the index is changed"])
async def test_a_move_that_was_interrupted_is_finished(engine: Engine, tmp_path: Path, when: str):
    settings = Settings(home=tmp_path / "home", database_url=engine.empty())
    async with opened(settings) as bus:
        await record(bus, "codex", "s-1", "first", "/nowhere/one")
        await record(bus, "codex", "s-2", "second", "/nowhere/two")
    async with opened(settings) as bus:
        await carry_over(bus.here)
        await begin_again(bus)
        slugs = {one.slug: one for one in (await bus.do(list_agents, include_inactive=True)).agents}
        old, new = Owner.of(slugs["codex"]), Owner.of(slugs["codex-one"])
        if when == "before the old file is deleted":
            path = bus.here.transcripts.path(old, "s-1")
            path.write_bytes(bus.here.transcripts.path(new, "s-1").read_bytes())
        else:
            await record(bus, "codex", "s-1", "first", "/nowhere/one")
            bus.here.transcripts.path(old, "s-1").unlink()
    async with opened(settings) as bus:
        await catch_up_all(bus.here)
        await carry_over(bus.here)
        assert await filed(bus) == {("s-1", "codex-one", "/nowhere/one"), ("s-2", "codex-two", "/nowhere/two")}
        assert [one for one in await verify(bus.here) if one.missing or one.extra or one.different] == []


async def test_what_is_recorded_for_a_name_today_stays_there(engine: Engine, tmp_path: Path):
    settings = Settings(home=tmp_path / "home", database_url=engine.empty())
    async with opened(settings) as bus:
        await carry_over(bus.here)
        await record(bus, "codex", "s-1", "first", "/nowhere/one")
        assert await carry_over(bus.here) == 0
        assert await filed(bus) == {("s-1", "codex", "/nowhere/one")}
