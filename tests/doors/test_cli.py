"""The command line: what commands there are, how they take arguments, how fast help comes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.helpers import PATIENCE, Server, environment, eventually, free_port

from palaver import __version__
from palaver.doors.cli import main

NOTHING_SET = dict.fromkeys(("PALAVER_URL", "PALAVER_TOKEN", "PALAVER_DATABASE_URL", "PALAVER_AUTH"))


class Terminal:
    """Runs commands in this process, on data of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def run(self, *args: str, input: str | bytes | None = None, **env: str) -> Result:
        return CliRunner(env=NOTHING_SET | {"PALAVER_HOME": str(self.home)} | env).invoke(
            main.palaver, args, input=input
        )

    def ok(self, *args: str, input: str | bytes | None = None, **env: str) -> str:
        result = self.run(*args, input=input, **env)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *args: str, input: str | bytes | None = None, **env: str) -> Any:
        return json.loads(self.ok("--json", *args, input=input, **env))


@pytest.fixture
def terminal(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def from_nothing(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a shell does, Python's own start included."""
    command = [sys.executable, "-m", "palaver", *args]
    return subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=60)


# What there is


def test_every_summary_is_a_sentence():
    assert [name for name, about in main.descriptions().items() if not about["summary"].endswith(".")] == []


@pytest.mark.parametrize("name", [*main.descriptions(), *main.GROUPS])
def test_every_command_explains_itself(terminal: Terminal, name: str):
    said = terminal.ok(*name.split(), "--help")
    assert said.startswith(f"Usage: palaver {name} ")


def test_help_names_the_exit_codes_and_the_environment(terminal: Terminal):
    said = terminal.ok("--help")
    for word in (
        "0  done",
        "3  not found",
        "5  not available",
        "PALAVER_HOME",
        "PALAVER_URL",
        "PALAVER_TOKEN",
        "search",
    ):
        assert word in said


def test_help_imports_nothing_of_weight(tmp_path: Path):
    heavy = "{'pydantic', 'starlette', 'mcp', 'rich', 'httpx', 'apsw', 'orjson', 'asyncio', 'yaml', 'uvicorn'}"
    code = f"import sys, palaver.doors.cli.main as cli; cli.run_to_exit_code(lambda: cli.palaver.run(['--help'])); print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], env=environment(tmp_path), capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "set()", done.stdout + done.stderr


def test_a_server_starts_in_a_fresh_python_and_ends_when_it_is_told_to(tmp_path: Path):
    """The other tests fork a process that has imported everything."""
    port, log = free_port(), tmp_path / "log"
    env, command = environment(tmp_path, PALAVER_PORT=port), [sys.executable, "-m", "palaver", "serve"]
    with log.open("wb") as out, subprocess.Popen(command, env=env, cwd=tmp_path, stdout=out, stderr=out) as process:
        try:
            eventually(Server(tmp_path, f"http://127.0.0.1:{port}", port, env, process, log).is_ready)
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def test_a_server_says_that_it_starts_before_anything_heavy_is_imported(tmp_path: Path):
    code = "import sys; sys.modules['pydantic'] = None; from palaver.doors.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code, "serve"], env=environment(tmp_path), capture_output=True, text=True
    )
    assert (done.stdout, "ModuleNotFoundError" in done.stderr) == (f"Starting palaver {__version__} …\n", True)


def test_help_comes_at_once(tmp_path: Path):
    """In the time it works: how long it waits for others says nothing about it."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert from_nothing(tmp_path, "--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    print(f"palaver --help: best {min(took):.3f} s")
    assert min(took) < 0.3


def test_the_version_is_one_line(tmp_path: Path):
    done = from_nothing(tmp_path, "--version")
    assert done.stdout.startswith("palaver ")
    assert done.stdout.count("\n") == 1


# Arguments and options


def test_fields_become_arguments_and_options(terminal: Terminal):
    made = terminal.json("thread", "create", "plans", "--system-prompt", "Be brief.", "--metadata", '{"a": [1, "ü"]}')
    assert made["topic"] == "plans"
    assert made["system_prompt"] == "Be brief."
    assert made["metadata"] == {"a": [1, "ü"]}


def test_what_has_its_place_may_be_said_by_name(terminal: Terminal):
    thread = terminal.json("thread", "create", "--topic", "plans")
    for line in (["--thread", "plans", "some", "words"], ["--thread-id", thread["id"], "some words"]):
        assert terminal.json("post", *line)["content"] == "some words"
    assert terminal.json("thread", "show", "--thread", "plans")["current_seq"] == 2


def test_lists_are_given_one_by_one(terminal: Terminal):
    terminal.ok("thread", "create", "plans")
    posted = terminal.json("post", "plans", "hi", "--mentions", "ann", "--mentions", "bob", "--images", '{"url": "u"}')
    assert posted["mentions"] == ["ann", "bob"]
    assert posted["metadata"] == {"images": [{"url": "u"}]}


def test_what_is_true_or_false_is_a_flag(terminal: Terminal):
    thread = terminal.json("thread", "create", "plans")
    terminal.ok("thread", "archive", "plans")
    assert terminal.json("thread", "list")["threads"] == []
    assert terminal.json("thread", "list", "--no-include-archived")["threads"] == []
    assert [t["id"] for t in terminal.json("thread", "list", "--include-archived")["threads"]] == [thread["id"]]


def test_numbers_out_of_range_are_clamped_like_everywhere(terminal: Terminal):
    terminal.ok("thread", "create", "plans")
    assert len(terminal.json("thread", "list", "--limit", "9999")["threads"]) == 1


def test_the_rest_of_the_line_is_the_text(terminal: Terminal):
    terminal.ok("thread", "create", "plans")
    assert terminal.json("post", "plans", "shall", "we", "begin?")["content"] == "shall we begin?"
    assert terminal.json("post", "plans", "--", "--not-an-option")["content"] == "--not-an-option"


@pytest.mark.parametrize("words", [(), ("-",)])
def test_without_text_it_is_read_from_standard_input(terminal: Terminal, words: tuple[str, ...]):
    terminal.ok("thread", "create", "plans")
    posted = terminal.json("post", "plans", *words, input="one\n  two ü\n")
    assert posted["content"] == "one\n  two ü"


def test_standard_input_that_is_no_text_is_refused(terminal: Terminal):
    terminal.ok("thread", "create", "plans")
    result = terminal.run("post", "plans", input=b"\xff\xfe")
    assert (result.exit_code, result.stderr) == (2, "palaver: The text on standard input is not UTF-8.\n")


def test_a_thread_is_found_by_its_id_first_and_then_by_its_topic(terminal: Terminal):
    first = terminal.json("thread", "create", "first plans")
    terminal.ok("thread", "create", first["id"])  # somebody names a thread like another one's id
    assert terminal.json("thread", "show", "first plans")["id"] == first["id"]
    assert terminal.json("thread", "show", first["id"])["id"] == first["id"]
    terminal.ok("post", "first plans", "hello")
    assert [hit["thread_id"] for hit in terminal.json("search", "hello", "--thread", "first plans")["results"]] == [
        first["id"]
    ]


def test_general_options_stand_before_the_command_or_after_it(terminal: Terminal, tmp_path: Path):
    other = str(tmp_path / "other")
    terminal.ok("--home", other, "workspace", "create", "w")
    terminal.ok("--home", other, "--workspace", "w", "thread", "create", "plans")
    before = terminal.ok("--home", other, "--workspace", "w", "--format", "json", "thread", "list")
    after = terminal.ok("thread", "list", "--home", other, "--workspace", "w", "--json")
    between = terminal.ok("thread", "--home", other, "--workspace", "w", "list", "--format", "json")
    assert before == after == between
    assert [thread["topic"] for thread in json.loads(before)["threads"]] == ["plans"]
    assert terminal.json("thread", "list")["threads"] == []


def test_the_last_word_on_the_format_counts(terminal: Terminal):
    assert json.loads(terminal.ok("--format", "yaml", "status", "--format", "json"))["threads"] == 0


def test_a_workspace_sees_nothing_of_another(terminal: Terminal):
    terminal.ok("workspace", "create", "w")
    terminal.ok("thread", "create", "plans")
    assert terminal.run("thread", "show", "plans", "--workspace", "w").exit_code == 3
    assert terminal.run("thread", "list", "--workspace", "nowhere").exit_code == 3


def test_a_token_says_who_one_is_on_the_data_here_too(terminal: Terminal):
    terminal.ok("workspace", "create", "w")
    token = terminal.ok("token", "create", "--workspace", "w", "--agent", "bob").strip()
    terminal.ok("thread", "create", "plans", PALAVER_TOKEN=token)
    assert terminal.json("post", "plans", "hi", PALAVER_TOKEN=token)["author"] == "bob"
    assert terminal.json("thread", "list", "--workspace", "w")["total"] == 1
    assert terminal.json("thread", "list")["total"] == 0


def test_lists_are_given_with_commas_or_one_by_one(terminal: Terminal):
    together = terminal.json("note", "add", "t", "c", "--keywords", "red, green", "--keywords", "blue")
    assert together["keywords"] == ["red", "green", "blue"]
    name = terminal.json("prompt", "add", "p", "--keywords", "a,b,")["name"]
    assert terminal.json("prompt", "show", name)["keywords"] == ["a", "b"]
    assert terminal.json("context", "nothing", "--sources", "notes,prompts")["hits"] == 0
    refused = terminal.run("context", "nothing", "--sources", "notes,nonsense")
    assert (refused.exit_code, "'nonsense' is not one of" in refused.output) == (2, True)
