"""Claims on files: who may hold what beside whom, for how long, and that nobody waits for a session that has gone."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.conftest import Engine
from tests.helpers import Mcp, Server, start_server, word
from tests.store.bus import opened
from tests.trust.people import Key

from palaver.model.people import Caller
from palaver.model.times import as_if_at, now
from palaver.operations.edits.claims import claims_on
from palaver.settings import Settings


@pytest.fixture(scope="module")
def place(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp(f"claims-{engine.name}"), PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.fixture
def api(place: Server) -> Iterator[httpx.Client]:
    with place.client() as client:
        yield client


@pytest.fixture
def project() -> str:
    return word("project-")


class Coder:
    """A coding agent at work in a project: a session whose hooks report, in a process that can be killed."""

    def __init__(self, api: httpx.Client, project: str, client: str = "codex") -> None:
        self.api, self.project, self.client, self.session = api, project, client, word("session-")
        self.process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.slug = str(self.hook("session-start")["agent"])
        self.about = api.get(f"/api/agents/{self.slug}").json()

    def hook(self, event: str, **more: Any) -> dict[str, Any]:
        told = {"client": self.client, "session": self.session, "project": self.project, "pid": self.process.pid}
        return dict(self.api.post(f"/api/hooks/{event}", json=told | more).raise_for_status().json())

    @property
    def shell(self) -> dict[str, str]:
        """What a command in a shell of the agent tells."""
        return {"project": self.project, "shell": f"4000000 {self.process.pid}"}

    def claim(self, *patterns: str, **more: Any) -> httpx.Response:
        return self.api.post("/api/claims", json={"patterns": list(patterns), **self.shell, **more})

    def release(self, **more: Any) -> httpx.Response:
        return self.api.post("/api/claims/release", json=self.shell | more)

    def sees(self) -> list[dict[str, Any]]:
        return list(self.api.get("/api/claims", params=self.shell).raise_for_status().json()["claims"])

    def kill(self) -> None:
        self.process.kill()
        os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT)  # as where the parent does not ask for it


@pytest.fixture
def coder(api: httpx.Client, project: str) -> Iterator[Coder]:
    coder = Coder(api, project)
    yield coder
    coder.process.kill()
    coder.process.wait()


@pytest.fixture
def other(api: httpx.Client, project: str) -> Iterator[Coder]:
    coder = Coder(api, project, "claude-code")
    yield coder
    coder.process.kill()
    coder.process.wait()


def done(answer: httpx.Response) -> list[dict[str, Any]]:
    assert answer.status_code in (200, 201), answer.text
    return list(answer.json()["claims"])


def refused(answer: httpx.Response, status: int = 409) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["detail"])


def patterns_of(claims: list[dict[str, Any]]) -> list[str]:
    return [one["pattern"] for one in claims]


# Who may hold what beside whom


def test_files_that_another_agent_holds_are_refused_with_who_until_when_and_why(coder: Coder, other: Coder):
    (held,) = done(coder.claim("src/export/**", because="bump the version"))
    assert held | {"holder": coder.about["name"], "kind": "exclusive", "is_yours": True} == held
    said = refused(other.claim("src/export/csv.py"))
    until = held["expires_at"][11:16]
    assert said == (
        f"{coder.about['name']} holds src/export/** until {until} UTC (bump the version). "
        f"Ask {coder.about['name']}, wait, or edit other files."
    )
    refused(other.claim("docs/**", "src", "x.py"))
    assert patterns_of(other.sees()) == ["src/export/**"]
    assert done(other.claim("src/exporter.py", "docs")) != []
    assert [one["is_yours"] for one in other.sees()] == [False, True, True]


def test_shared_claims_stand_beside_each_other_and_keep_out_exclusive_ones(coder: Coder, other: Coder):
    done(coder.claim("src", shared=True))
    done(other.claim("src/a.py", shared=True))
    assert "shares src until" in refused(other.claim("src/b.py"))
    done(coder.release())
    done(other.claim("src/b.py"))
    assert "holds src/b.py" in refused(coder.claim("src", shared=True))


def test_claiming_again_renews_and_does_not_add(coder: Coder):
    (first,) = done(coder.claim("src/a.py", seconds=600))
    (second,) = done(coder.claim("./src//a.py", because="still at it", seconds=6_000))
    (held,) = coder.sees()
    assert held["claim_id"] == second["claim_id"] != first["claim_id"]
    assert (held["because"], held["pattern"]) == ("still at it", "src/a.py")


def test_other_projects_are_not_held_up(api: httpx.Client, coder: Coder, other: Coder):
    done(coder.claim("**"))
    done(other.claim("src/a.py", project=word("elsewhere-")))
    refused(other.claim("src/a.py"))
    assert patterns_of(api.get("/api/claims", params={"project": coder.project}).json()["claims"]) == ["**"]


def test_one_of_two_claims_at_the_same_time_wins(api: httpx.Client, project: str):
    coders = [Coder(api, project, f"program-{n}") for n in range(4)]
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda one: one.claim("src/a.py").status_code, coders))
    assert sorted(answers) == [201, 409, 409, 409]
    for one in coders:
        one.kill()


@pytest.mark.parametrize("pattern", ["../x", "a/../../b", "x" * 301, "*a" * 17, " ", "a\x00b"])
def test_bad_patterns_are_refused(coder: Coder, pattern: str):
    assert "patterns" in refused(coder.claim(pattern), 422)
    assert coder.sees() == []


def test_nobody_holds_very_many(coder: Coder):
    for n in range(5):
        done(coder.claim(*(f"{n}/{file}.py" for file in range(20))))
    assert refused(coder.claim("one/more.py"), 400) == (
        "You hold 100 claims in this project. Release some, or claim a folder."
    )
    done(coder.claim("0/1.py"))


# How they end


def test_release_frees_one_a_pattern_or_all(coder: Coder, other: Coder):
    one, _, _ = done(coder.claim("a.py", "b.py", "c/**"))
    assert patterns_of(done(coder.release(claim_id=one["claim_id"]))) == ["a.py"]
    assert patterns_of(done(coder.release(pattern="/b.py"))) == ["b.py"]
    assert patterns_of(other.sees()) == ["c/**"]
    refused(coder.release(pattern="b.py"), 404)
    refused(coder.release(claim_id=one["claim_id"]), 404)
    assert patterns_of(done(coder.release())) == ["c/**"]
    done(other.claim("**"))


def test_an_agent_cannot_end_the_claim_of_another_one(coder: Coder, other: Coder):
    (held,) = done(coder.claim("a.py"))
    assert "let a person end the claim" in refused(other.release(claim_id=held["claim_id"]), 403)
    assert done(other.release()) == []
    assert patterns_of(coder.sees()) == ["a.py"]


def test_a_person_ends_a_claim_and_its_agent_is_told(api: httpx.Client, coder: Coder, other: Coder):
    (held,) = done(coder.claim("secret/plan.md", because="the plan"))
    done(api.post("/api/claims/release", json={"claim_id": held["claim_id"]}))
    done(other.claim("secret/plan.md"))
    told = coder.hook("prompt")["text"]
    assert f"ended your claim {held['claim_id']}" in told
    assert "plan" not in told


def test_claims_end_with_the_session(coder: Coder, other: Coder):
    done(coder.claim("a.py"))
    coder.hook("session-end")
    assert other.sees() == []
    coder.hook("session-start", source="resume")
    assert coder.sees() == []
    done(other.claim("a.py"))


def test_a_killed_client_holds_nobody_up(coder: Coder, other: Coder):
    done(coder.claim("a.py", "b.py"))
    refused(other.claim("a.py"))
    coder.kill()
    assert other.sees() == []
    done(other.claim("a.py"))
    again = Coder(coder.api, coder.project)
    again.session = coder.session  # the same session goes on in another process
    again.hook("session-start", source="resume")
    assert patterns_of([one for one in again.sees() if one["is_yours"]]) == ["b.py"]
    again.kill()


def test_claims_end_at_their_time_and_silent_agents_hold_nobody_up(place: Server, api: httpx.Client, project: str):
    agent = api.post("/api/connect", json={"thread_name": word(), "project": project}).json()["agent"]
    who = {"agent_id": agent["agent_id"], "token": agent["token"], "project": project}
    coder = Coder(api, project)
    settings = Settings(home=place.home, database_url=place.env["PALAVER_DATABASE_URL"])
    done(coder.claim("alive.py"))
    done(api.post("/api/claims", json={"patterns": ["silent.py"], **who}))

    async def looked(after: timedelta) -> list[str]:
        def look(read: Any) -> list[str]:
            with as_if_at(now() + after):
                person = Caller("human")
                found = [claims_on(read, person, project, path, None) for path in ("alive.py", "silent.py")]
                return [one.pattern for part in found for one in part]

        async with opened(settings) as bus:
            return list(await bus.here.read(look))

    def held(after: timedelta) -> list[str]:
        return asyncio.run(looked(after))

    assert held(timedelta()) == ["alive.py", "silent.py"]
    assert held(timedelta(minutes=61)) == ["alive.py"]
    assert held(timedelta(minutes=119)) == ["alive.py"]
    assert held(timedelta(minutes=121)) == []
    coder.kill()
    assert held(timedelta()) == ["silent.py"]


# What others see of it


def test_briefings_say_what_others_hold_in_the_project(api: httpx.Client, coder: Coder, other: Coder, project: str):
    done(coder.claim("src/export/**", because="bump the version"))
    done(other.claim("mine.py"))
    third = Coder(api, project, "gemini-cli")
    brief = third.hook("prompt")["text"] or third.hook("session-start")["text"]
    assert f"- {coder.about['name']} holds src/export/** until " in brief
    assert "(bump the version)" in brief
    elsewhere = Coder(api, word("elsewhere-"), "gemini-cli")
    assert "src/export" not in json.dumps([elsewhere.hook("session-start"), elsewhere.sees()])
    for one in (third, elsewhere):
        one.kill()


def test_tools_claim_list_and_release(api: httpx.Client, project: str, coder: Coder):
    client = Mcp(api, "/mcp?tools=core,claim,release,claims")
    agent = client.call("bus_connect", thread_name=word(), project=project)["agent"]
    who = {"agent_id": agent["agent_id"], "token": agent["token"], "project": project}
    done(coder.claim("docs/**"))
    (held,) = client.call("claim", patterns=["src/**"], because="the export", **who)["claims"]
    assert held["pattern"] == "src/**"
    assert [one["pattern"] for one in client.call("claims", **who)["claims"]] == ["docs/**", "src/**"]
    answer = client.answer("claim", patterns=["docs/a.md"], **who)
    assert answer.is_error
    assert f"{coder.about['name']} holds docs/**" in json.dumps(answer.value)
    assert refused(coder.claim("src/a.py"))
    assert [one["pattern"] for one in client.call("release", **who)["claims"]] == ["src/**"]
    done(coder.claim("src/a.py"))


def test_listeners_hear_of_claims_but_not_of_their_files(api: httpx.Client, place: Server, coder: Coder):
    with place.client() as client, client.stream("GET", "/events", headers={"last-event-id": "0"}) as stream:
        (held,) = done(coder.claim("secret/plan.md", because="hidden"))
        done(coder.release())
        lines = iter(stream.iter_lines())
        told: list[str] = []
        while len(told) < 2:
            line = next(lines)
            told += [line] if held["claim_id"] in line else []
    assert "secret" not in "".join(told)
    assert "hidden" not in "".join(told)


# Rights


@pytest.fixture(scope="module")
def guarded(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp(f"claims-rights-{engine.name}")
    with start_server(home, PALAVER_AUTH="token", PALAVER_DATABASE_URL=engine.fresh()) as server:
        yield server


@pytest.mark.parametrize("level", ["person", "project"])
def test_agents_see_and_make_claims_only_where_they_may_read(guarded: Server, level: str):
    boss = Key(guarded, name=word("boss"), scopes=("read", "write", "admin"))
    boss.api.put("/api/sharing", json={"level": level}).raise_for_status()
    near, far = word("near-"), word("far-")
    keys = {name: Key(guarded, kind="agent", name=word(name)) for name in ("ann", "bob", "eve")}
    for name, key in keys.items():
        hook = {"client": "codex", "session": word(), "project": far if name == "eve" else near}
        key.api.post("/api/hooks/session-start", json=hook).raise_for_status()

    def claim(name: str, pattern: str, project: str) -> int:
        key = keys[name]
        path = f"/mcp?tools=all&project={project}"
        answer = Mcp(key.api, path).answer("claim", patterns=[pattern], project=project)
        return 403 if "FORBIDDEN" in json.dumps(answer.value) else 409 if answer.is_error else 201

    assert claim("ann", "a.py", near) == 201
    # With the level "person", agents with tokens of their own are strangers to each other.
    assert claim("bob", "a.py", near) == (409 if level == "project" else 201)
    assert claim("eve", "a.py", far) == 201
    seen = Mcp(keys["eve"].api, f"/mcp?tools=all&project={far}").call("claims", project=near)["claims"]
    assert seen == []
    everything = boss.api.get("/api/claims").json()["claims"]
    assert {one["project"] for one in everything} >= {near, far}


def test_private_projects_have_no_claims(place: Server, api: httpx.Client, tmp_path: Path):
    (tmp_path / ".palaver-private").touch()
    said = refused(api.post("/api/claims", json={"patterns": ["a.py"], "project": str(tmp_path)}), 400)
    assert "kept out of palaver" in said
