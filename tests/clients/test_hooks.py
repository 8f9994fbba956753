"""The hooks of real clients: what palaver has to say arrives in what the model reads."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.clients.install import path_of, to_test
from tests.clients.model import Call, Model, Script, start_model
from tests.clients.programs import PROGRAMS, Program, Start
from tests.clients.run import Palaver, start_palaver
from tests.helpers import eventually, started_with

pytestmark = pytest.mark.clients

NAMES = {"claude": "claude-code", "codex": "codex", "gemini": "gemini-cli", "opencode": "opencode"}
RESUME = {
    "claude": ["--continue"],
    "codex": ["resume", "--last"],
    "gemini": ["--resume", "latest"],
    "opencode": ["--continue"],
}
"""Arguments that go on with the last session. Codex takes them before the prompt."""


@dataclass
class Desk:
    """A client that was set up with hooks, a palaver server, and a model that speaks while the client works."""

    program: Program
    place: Path
    home: Path
    palaver: Palaver
    posts: list[str] = field(default_factory=list)
    """Messages that are posted while the model is asked for the first time."""
    calls: list[Call] = field(default_factory=list)
    """What the model calls after that."""
    last: Callable[[], Call] | None = None
    """Makes one more call."""
    options: tuple[str, ...] = ()
    """Options of palaver setup."""
    model: Model | None = None

    @property
    def ran(self) -> Path:
        """A file that exists if code of the folder was run."""
        return self.home / "ran"

    @property
    def name(self) -> str:
        return NAMES[self.program.name]

    @property
    def agent(self) -> str:
        """The agent of the program in the folder that it works in."""
        return f"{self.name}-work"

    def meet(self) -> None:
        """The agent was at work before, so that it can be named."""
        (self.home / "work").mkdir(exist_ok=True)
        with self.palaver.rest() as api:
            told = {"client": self.name, "session": "earlier", "project": str(self.home / "work")}
            for event in ("session-start", "session-end"):
                api.post(f"/api/hooks/{event}", json=told).raise_for_status()

    @property
    def env(self) -> dict[str, str]:
        assert self.model
        env = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR", "USER") if name in os.environ}
        env |= {"PATH": f"{path_of(self.program, self.place)}:{os.environ['PATH']}", "HOME": str(self.home)}
        env |= {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost", "CI": "true"}
        env |= {"PALAVER_HOME": str(self.palaver.home), "PALAVER_HOOK_SECONDS": "30", "DO_NOT_TRACK": "1"}
        return env | self.program.environment(self.start)

    @property
    def start(self) -> Start:
        assert self.model
        return Start(self.home, self.place, f"http://127.0.0.1:{self.palaver.port}/mcp?tools=core", self.model.base_url)

    def post(self, text: str) -> None:
        with self.palaver.rest() as api:
            api.post("/api/threads", json={"topic": "plans"})
            api.post("/api/threads/plans/messages", json={"author": "ann", "content": text}).raise_for_status()

    def script(self) -> Script:
        for text in self.posts:
            self.post(text)
        yield from (call for call in self.calls)
        if self.last:
            yield self.last()

    def work(self, prompt: str = "", resumed: bool = False) -> list[str]:
        """Set the client up and let it work on one prompt. Returns what the model read, request by request."""
        with start_model(self.script()) as self.model:
            for name, content in self.program.settings(self.start).items():
                (self.home / name).parent.mkdir(parents=True, exist_ok=True)
                (self.home / name).write_text(content, "utf-8")
            done = started_with(self.env, "setup", self.name, *self.options)
            assert done.returncode == 0, (done.stdout, done.stderr)
            command = self.program.command(self.start)
            if self.program.name == "codex":  # a person trusts the hooks with /hooks
                command[2:2] = ["--dangerously-bypass-hook-trust"]
            place = command.index("Follow the script.")
            command[place] = prompt or command[place]
            if resumed:
                place = place if self.program.name == "codex" else len(command)
                command[place:place] = RESUME[self.program.name]
            work = self.home / "work"
            (work / "palaver").mkdir(parents=True, exist_ok=True)
            for module in ("__init__", "__main__"):  # a stranger's repository
                (work / "palaver" / f"{module}.py").write_text(f"open({str(self.ran)!r}, 'w').close()\n", "utf-8")
            ran = subprocess.run(
                command, env=self.env, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=110
            )
            assert ran.returncode == 0, (ran.stdout[-2000:], ran.stderr[-2000:])
            return [json.dumps(body) for _, body in self.model.requests if "bus_connect" in json.dumps(body)]


@pytest.fixture(params=list(NAMES))
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    program = next(program for program in PROGRAMS if program.name == request.param)
    place = to_test(program)
    if not place:
        pytest.skip(f"{program.name} is not installed: run tools/clients {program.name}")
    with start_palaver(tmp_path / "palaver") as palaver:
        (tmp_path / "home").mkdir()
        yield Desk(program, place, tmp_path / "home", palaver)


def test_the_model_reads_who_it_is_and_what_was_said_to_it(desk: Desk):
    desk.meet()
    desk.post(f"@{desk.name} the parser drops the last line")
    read = desk.work()
    assert f"You are the agent {desk.agent} in palaver" in read[0]
    assert "[plans #1] ann" in read[0]
    assert "the parser drops the last line" in read[0]


def test_the_model_reads_what_another_program_hands_over(desk: Desk):
    desk.meet()
    work, turn = str(desk.home / "work"), {"role": "user", "content": "Write umlauts into the CSV export"}
    with desk.palaver.rest() as api:
        api.post("/api/v1/agents/cursor-work/sessions/s/messages", json={**turn, "project": work}).raise_for_status()
        told = api.post("/api/handoff", json={"project": work, "to": desk.name}).raise_for_status().json()
    assert (told["state"], told["to"]) == ("offered", desk.agent)
    assert "please take over the work below" in desk.work()[0]


def test_an_agent_that_is_named_while_it_works_goes_on_once(desk: Desk):
    desk.posts = [f"@{desk.name} wait, the lighthouse is dark"]
    read = desk.work()
    assert ["the lighthouse is dark" in one for one in read[-2:]] == [False, True], "it goes on once"


@pytest.mark.thorough
def test_a_person_answers_a_permission_request_in_the_inbox(desk: Desk):
    if desk.program.name != "claude":
        pytest.skip("without a terminal only Claude Code asks for permission")
    desk.options = ("--ask-permission",)
    settings = desk.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    settings.write_text('{"permissions": {"defaultMode": "default"}}', "utf-8")
    desk.calls = [Call("Bash", {"command": f"touch {word}", "description": "Make a file"}) for word in ("one", "two")]

    def open_requests() -> list[dict[str, str]]:
        with desk.palaver.rest() as api:
            return list(api.get("/api/questions").json()["questions"])

    with ThreadPoolExecutor(1) as background:
        working = background.submit(desk.work)
        for answer in ({"answer": "yes"}, {"answer": "no", "note": "not on Friday"}):
            eventually(lambda: bool(open_requests()))
            with desk.palaver.rest() as api:
                api.post(f"/api/questions/{open_requests()[0]['question_id']}/answer", json=answer).raise_for_status()
        read = working.result()
    assert "said no in palaver: not on Friday" in read[-1]
    assert [(desk.home / "work" / name).exists() for name in ("one", "two")] == [True, False]


def test_the_next_session_in_the_project_knows_the_last_one(desk: Desk):
    if desk.program.name == "codex":
        pytest.skip("codex exec reports no end of its session")
    said = "We decided to use UTF-8 for the export instead of Latin-1."
    desk.work(said)

    def recorded() -> bool:
        with desk.palaver.rest() as api:
            return any(one["turns"] for one in api.get("/api/v1/sessions").json()["sessions"])

    eventually(recorded)
    assert not desk.ran.exists()
    read = desk.work()[0]
    assert "Work in this project:" in read
    assert said in read
    assert f"You are the agent {desk.agent} in palaver" in read, "the same agent as before"


@pytest.mark.thorough
def test_a_resumed_session_has_its_token_and_its_message_once(desk: Desk):
    desk.meet()
    desk.post(f"@{desk.name} the parser drops the last line")
    first = desk.work()[-1]
    resumed = desk.work("Go on.", resumed=True)[-1]
    assert "Go on." in resumed
    assert first.count("the parser drops the last line") == 1
    assert resumed.count("the parser drops the last line") == (0 if desk.program.name == "gemini" else 1)
    assert len(tokens_in(first)) == 1
    assert tokens_in(resumed) == tokens_in(first), "Gemini CLI forgets what its hooks said, and is told again"


@pytest.mark.thorough
def test_a_compacted_session_has_the_token_it_had(desk: Desk):
    if desk.program.name != "claude":
        pytest.skip("only Claude Code compacts on command without a terminal")
    first = desk.work()[-1]
    desk.work("/compact", resumed=True)
    desk.post(f"@{desk.name} the parser drops the last line")
    later = desk.work("Go on.", resumed=True)[-1]
    assert "this session was compacted" in later
    assert later.count("Follow the script.") == 1, "the task in the person's words"
    assert tokens_in(later) == tokens_in(first)
    assert later.count("the parser drops the last line") == 1


WRITTEN = ["def greet(name, punctuation):", "    greeting = f'Hello {name}' + punctuation", "    return greeting", ""]
PATCH = "\n".join(
    ["*** Begin Patch", "*** Add File: greet.py", *(f"+{line}" for line in WRITTEN[:-1]), "*** End Patch"]
)


def writing(program: str, folder: Path) -> Call:
    """The call with which a program writes greet.py."""
    path, content = str(folder / "greet.py"), "\n".join(WRITTEN)
    calls = {
        "claude": Call("Write", {"file_path": path, "content": content}),
        "codex": Call("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF\n"}),
        "gemini": Call("write_file", {"file_path": path, "content": content}),
        "opencode": Call("write", {"filePath": path, "content": content}),
    }
    return calls[program]


@pytest.mark.thorough
def test_a_line_that_a_program_wrote_says_why_it_is_there(desk: Desk):
    work = desk.home / "work"
    desk.calls = [writing(desk.program.name, work)]
    if desk.program.name == "claude":
        (desk.home / ".claude").mkdir()
        (desk.home / ".claude" / "settings.json").write_text('{"permissions": {"defaultMode": "acceptEdits"}}', "utf-8")
    desk.work("Greet people with their name, please.")
    assert (work / "greet.py").read_text() == "\n".join(WRITTEN)
    about = {"path": "greet.py", "line": WRITTEN[1], "before": WRITTEN[:1], "after": WRITTEN[2:], "project": str(work)}
    if desk.program.name == "codex":  # codex exec reports no end of its session
        assert started_with(desk.env, "watch", "--once").returncode == 0

    def told() -> dict[str, Any]:
        with desk.palaver.rest() as api:
            found: dict[str, Any] = api.post("/api/why", json=about).raise_for_status().json()
        return found if found["is_known"] else {}

    origin = eventually(told)
    assert "Greet people with their name, please." in origin["request"]["text"]
    assert desk.name in (origin["program"].casefold().replace(" ", "-"), "gemini-cli")


def tokens_in(read: str) -> list[str]:
    """The credentials that a model reads."""
    return re.findall(r"agent_id \S+, token (\S+)\. Pass both", read)
