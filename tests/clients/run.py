"""Real clients against palaver, with a scripted model. Run by `make clients`: python run.py [CLIENT …]

Each client runs in an empty HOME, and HTTPS goes to a dead proxy: nothing of the tester's is touched or sent anywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from tests.clients.install import NotInstalled, install, install_newest, path_of
from tests.clients.model import Model, start_model
from tests.clients.programs import PROGRAMS, Program, Start, guide_code, guide_url
from tests.clients.script import CHECKS, Visit, play
from tests.clients.tap import Tap, listen_between
from tests.helpers import NO_TLS, PATIENCE, Server, free_port, start_server

PATIENCE_WITH_CLIENT = 150.0
IN_TESTS = ("claude", "ts-v1", "python-v1")
"""The clients that `make test` runs: quick ones, one for each way to read an answer."""
TESTS = {"test": IN_TESTS, "test-all": (*IN_TESTS, "codex", "gemini", "opencode")}
"""The clients that `make test` and `make test-all` install."""


@dataclass
class Palaver:
    """A palaver that can be killed and started again on the same home and port."""

    home: Path
    port: int = field(default_factory=free_port)
    settings: dict[str, str] = field(default_factory=dict)
    server: Server | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def start(self) -> None:
        self.server = self._stack.enter_context(start_server(self.home, port=self.port, **self.settings))
        with self.rest() as api:  # the MCP door opens a moment after the others, and clients do not wait long
            api.request("DELETE", "/mcp")

    def restart(self) -> None:
        assert self.server
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.process.wait()
        self.start()

    def rest(self) -> httpx.Client:
        return httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=PATIENCE, verify=NO_TLS)


@contextmanager
def start_palaver(home: Path, **settings: str) -> Iterator[Palaver]:
    palaver = Palaver(home, settings=settings)
    with palaver._stack:
        palaver.start()
        yield palaver


@dataclass
class Outcome:
    """What became of one client."""

    client: str
    version: str
    protocol: str = ""
    seconds: float = 0
    verdicts: dict[str, str] = field(default_factory=dict)
    said: str = ""
    """What the client wrote, for finding out why a check failed."""

    agent_id: str = ""
    tap: Tap | None = None
    model: Model | None = None

    @property
    def is_good(self) -> bool:
        return all(self.verdicts.get(check) in ("ok", "–") for check in CHECKS)


def visit(
    program: Program, version: str, place: Path, palaver: Palaver, query: str | None = None, **options: Any
) -> Outcome:
    """Connect one client by the guide's words, let it play the script, and judge."""
    outcome = Outcome(program.name, version)
    began = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix=f"{program.name}-", dir=palaver.home.parent))
    with listen_between(palaver.port) as tap:
        plan = Visit(program.name, palaver.rest, tap, palaver.restart, **options)
        with start_model(play(plan)) as model:
            plan.model = model
            url = _address(tap.port, query)
            start = Start(home, place, url, model.base_url)
            outcome.said = _run_client(program, start, plan)
            with plan.check("tools"):
                last = outcome.said.strip()[-300:]
                assert model.tools, f"the model was not offered palaver's tools; the client wrote: {last}"
            if model.error:
                with plan.check("restart" if "memory" in plan.verdicts else "author"):
                    raise model.error
    outcome.tap, outcome.model, outcome.verdicts, outcome.agent_id = tap, model, plan.verdicts, plan.agent_id
    outcome.protocol = _protocol(tap)
    for check in CHECKS:
        alone = check == "restart" and plan.all_connected is not None
        outcome.verdicts.setdefault(check, "–" if alone else "not reached")
    outcome.seconds = time.monotonic() - began
    return outcome


def _address(port: int, query: str | None) -> str:
    """The guide's address, with another port and, if wanted, another query."""
    url = guide_url().replace(":39765/", f":{port}/")
    return url if query is None else url.split("?")[0] + query


def _run_client(program: Program, start: Start, plan: Visit) -> str:
    """Connect the client, then run it to its end. What it wrote."""
    env = {name: os.environ[name] for name in ("LANG", "TERM", "TMPDIR", "USER") if name in os.environ}
    env |= {"PATH": f"{path_of(program, start.place)}:{os.environ['PATH']}", "HOME": str(start.home), "CI": "true"}
    env |= {"HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost", "DO_NOT_TRACK": "1"}
    env |= program.environment(start)
    work = start.home / "work"
    work.mkdir()
    for name, content in program.settings(start).items():
        (start.home / name).parent.mkdir(parents=True, exist_ok=True)
        (start.home / name).write_text(content, "utf-8")
    said = ""
    with plan.check("connects"):
        for code in guide_code(program.guide_row) if program.guide_row else ():
            code = code.replace(guide_url(), start.mcp_url)
            if code.startswith("~/"):
                config = start.home / code[2:]
            elif code.startswith("{"):
                config.parent.mkdir(parents=True, exist_ok=True)
                config.write_text(code, "utf-8")
            elif shlex.split(code)[0] == program.name:
                code_of_exit, written = _run(["sh", "-c", code], env, work, 60)
                said += f"$ {code}\n{written}"
                assert code_of_exit == 0, f"`{code}` ended with {code_of_exit}: {written[-500:]}"
    with plan.check("exit"):
        code_of_exit, written = _run(program.command(start), env, work, PATIENCE_WITH_CLIENT)
        said += written
        assert code_of_exit == 0, f"ended with {code_of_exit}: {written.strip()[-500:]}"
    with plan.check("connects"):
        first = next(
            (e for e in plan.tap.exchanges if e.message.get("method") in ("initialize", "server/discover")), None
        )
        assert first, f"the client did not talk MCP to palaver; it wrote: {said.strip()[-500:]}"
        assert first.status == 200, f"palaver answered {first.status}: {first.answer[:300]!r}"
    return said


def _run(command: list[str], env: dict[str, str], cwd: Path, seconds: float) -> tuple[int, str]:
    """Run a command and what it starts. It gets a process group of its own, so that nothing is left when it is killed."""
    process = subprocess.Popen(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return -1, f"{said}\n(killed after {seconds:.0f} s)"
    return process.returncode, said


def _protocol(tap: Tap) -> str:
    """The revision that the client used for its calls."""
    for exchange in reversed(tap.exchanges):
        meta = exchange.message.get("params", {}).get("_meta", {})
        if named := meta.get("io.modelcontextprotocol/protocolVersion"):
            return str(named)
        if exchange.message.get("method") == "initialize":
            return str(exchange.message["params"]["protocolVersion"])
    return "?"


def visit_as_two(program: Program, version: str, place: Path, palaver: Palaver, query: str | None) -> list[Outcome]:
    """Two processes of one program at once. Each passes agent_id and token, and they are two agents."""
    together = threading.Barrier(2)
    outcomes: list[Outcome] = []

    def one() -> None:
        outcome = visit(
            program, version, place, palaver, query, with_token=True, all_connected=together, topic="two at once"
        )
        outcome.client = f"two {program.name}s"
        outcomes.append(outcome)

    threads = [threading.Thread(target=one) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len({outcome.agent_id for outcome in outcomes}) != len(outcomes):
        outcomes[-1].verdicts["author"] = f"both are agent {outcomes[-1].agent_id}"
    return outcomes


SCENARIOS: dict[str, Callable[..., list[Outcome]]] = {"two-claudes": visit_as_two}


def show(outcomes: list[Outcome]) -> None:
    """Print the table, and below it why checks failed."""
    print(f"\n{'client':<14} {'version':<10} {'protocol':<11} " + " ".join(f"{check:<8}" for check in CHECKS))
    for outcome in outcomes:
        marks = {c: "FAILED" if (v := outcome.verdicts[c]) not in ("ok", "–", "not reached") else v for c in CHECKS}
        cells = " ".join(f"{marks[check].replace('not reached', '-'):<8}" for check in CHECKS)
        print(f"{outcome.client:<14} {outcome.version:<10} {outcome.protocol:<11} {cells} {outcome.seconds:4.0f} s")
    for outcome in outcomes:
        for check, verdict in outcome.verdicts.items():
            if verdict not in ("ok", "–", "not reached"):
                print(f"\n{outcome.client}, {check}: {verdict}")


def main() -> int:
    names = [program.name for program in PROGRAMS] + list(SCENARIOS)
    parser = argparse.ArgumentParser(prog="make clients")
    parser.add_argument("client", nargs="*", help=f"Only these clients: {', '.join(names)}.")
    parser.add_argument("--query", help='Use this query instead of the guide\'s, such as "?tools=bus".')
    parser.add_argument("--pinned", action="store_true", help="Run the versions of `make test`, not the newest ones.")
    parser.add_argument(
        "--save", type=Path, help="Write what each client sent to palaver and to the model to this folder."
    )
    parser.add_argument(
        "--install",
        nargs="?",
        const="test",
        choices=TESTS,
        help="Only install the clients that `make test` runs, or `make test-all`.",
    )
    asked = parser.parse_args()
    if asked.install:
        return install_for_tests(TESTS[asked.install])
    if unknown := set(asked.client) - set(names):
        parser.error(f"unknown client: {', '.join(sorted(unknown))}. Known: {', '.join(names)}")
    wanted = asked.client or names
    outcomes: list[Outcome] = []
    for program in PROGRAMS:
        two = f"two-{program.name}s"
        if program.name not in wanted and two not in wanted:
            continue
        try:
            version, place = install_newest(program) if not asked.pinned else (program.version, install(program))
        except NotInstalled as error:
            outcomes.append(Outcome(program.name, "?", "?", 0, dict.fromkeys(CHECKS, "not reached")))
            outcomes[-1].verdicts["connects"] = f"not installed: {error}"
            continue
        print(f"==> {program.name} {version}", flush=True)
        with tempfile.TemporaryDirectory(prefix="palaver-clients-", ignore_cleanup_errors=True) as folder:
            if program.name in wanted:
                with start_palaver(Path(folder) / "one" / "palaver") as palaver:
                    outcomes.append(visit(program, version, place, palaver, asked.query))
            if two in wanted and two in SCENARIOS:
                with start_palaver(Path(folder) / "two" / "palaver") as palaver:
                    outcomes += SCENARIOS[two](program, version, place, palaver, asked.query)
    if asked.save:
        save(asked.save, outcomes)
    show(outcomes)
    return 0 if outcomes and all(outcome.is_good for outcome in outcomes) else 1


def install_for_tests(names: Collection[str]) -> int:
    """Without a registry some tests are skipped, which is fine at a desk and a failure in CI."""
    for program in PROGRAMS:
        if program.name in names:
            try:
                install(program)
            except NotInstalled as error:
                print(f"CLIENT NOT INSTALLED: no tests with {program.name} ({error})", file=sys.stderr)
                if os.environ.get("CI") == "true":
                    return 1
    return 0


def save(folder: Path, outcomes: list[Outcome]) -> None:
    """Write what each client wrote and sent, for finding out why a check failed."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, outcome in enumerate(outcomes):
        lines = [outcome.said, ""]
        for exchange in outcome.tap.exchanges if outcome.tap else ():
            lines += [
                f"> {exchange.method} {exchange.target} {exchange.headers}",
                exchange.body.decode("utf-8", "replace"),
            ]
            lines += [f"< {exchange.status} {exchange.answer_headers}", exchange.answer.decode("utf-8", "replace"), ""]
        if outcome.model:
            asked = json.dumps(outcome.model.requests, indent=1, ensure_ascii=False)
            (folder / f"{number}-{outcome.client}-model.json").write_text(asked, "utf-8")
        (folder / f"{number}-{outcome.client}.txt").write_text("\n".join(lines), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
