"""A cloned folder is hostile: nothing in it runs, and its `palaver.toml` changes no settings."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest
from tests.conftest import Engine
from tests.helpers import PATIENCE, environment, eventually, started, word
from tests.importers.samples import jsonl, typed

import palaver
from palaver import child_process
from palaver.doors.hook import EVENTS

SOURCE = Path(palaver.__file__).parent
PROGRAM = Path(sys.executable).parent / "palaver"

MODULES = ("palaver/__init__", "palaver/__main__", "sitecustomize", "json", "tomllib", "numpy/__init__", "orjson")
"""Modules that palaver and Python import. Each writes a file where it is imported from this folder."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path.resolve() / "repository"
    for module in MODULES:
        path = root / f"{module}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"open({str(root / 'ran')!r}, 'w').close()\n")
    (root / ".git").mkdir()
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    # Hooks must not reach a server of the tester, which has the default port.
    (tmp_path / "home" / "server.json").write_text('{"host": "127.0.0.1", "port": 1}')
    return tmp_path / "home"


# Code


@pytest.mark.parametrize("event", EVENTS)
def test_a_hook_runs_nothing_of_the_folder(repository: Path, home: Path, event: str):
    unique, id = word(), str(uuid4())
    transcript = home / f"{id}.jsonl"
    transcript.write_bytes(jsonl(typed(f"look at {unique}", id, cwd=str(repository))))
    given = {"session_id": id, "cwd": str(repository), "transcript_path": str(transcript), "prompt": "go on"}
    env = {name: value for name, value in environment(home).items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(PROGRAM), "hook", event],
        input=json.dumps(given),
        env=env,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    if event in ("pre-compact", "session-end"):  # the process that records has done its work
        eventually(lambda: unique in started(home, "conversation", "search", "claude-code", unique).stdout)
    assert not (repository / "ran").exists()


def test_a_child_process_has_nothing_of_the_folder(repository: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", ["", str(repository), *sys.path])
    for name, value in {"PYTHONPATH": ".", "PYTHONSTARTUP": "json.py", "GIT_CONFIG_GLOBAL": "config"}.items():
        monkeypatch.setenv(name, value)
    code = "import json, os, sys, palaver.model.people; print(json.dumps([sys.path, sorted(os.environ)]))"
    done = subprocess.run(
        child_process.python("-c", code), env=child_process.own_environment(), capture_output=True, text=True
    )
    path, names = json.loads(done.stdout)
    assert not {"", ".", str(repository)} & set(path)
    assert [name for name in names if name.startswith(("PYTHON", "GIT_"))] == ["PYTHONPATH"]
    assert not (repository / "ran").exists()


def test_every_child_process_is_started_in_the_same_way():
    """A file that starts a process uses `child_process`, or runs a program that is not Python."""
    starts = re.compile(
        r"Popen\(|subprocess\.run\(|posix_spawn\(|os\.exec|create_subprocess|os\.system|multiprocessing"
    )
    files = {path.relative_to(SOURCE).as_posix(): path.read_text("utf-8") for path in SOURCE.rglob("*.py")}
    others = {name for name, text in files.items() if starts.search(text) and "child_process." not in text}
    # The programs that a person names, and that of the system for services, which is found on PATH.
    assert others == {"child_process.py", "doors/cli/fix.py", "doors/cli/spawn.py", "doors/cli/manage/service.py"}
    named = {name for name, text in files.items() if re.search(r"sys\.executable,|\"-m\"", text)}
    assert named <= {
        "child_process.py",
        "doors/hook.py",
        "doors/local/background_service.py",
        "doors/cli/serve.py",
        "setup/check.py",
    }


# Settings


@pytest.mark.parametrize(
    "text, told",
    [
        ('model = "openai:x"\nmodel_url = "http://192.0.2.1/v1"\n', "model, model_url"),
        ('home = "."\n[palaver]\ndatabase_url = "postgresql://192.0.2.1/x"\n', "home, database_url"),
        ('public_url = "https://192.0.2.1"\nport = 1\nauth = "open"\n', "public_url, port, auth"),
        ('conversation_db = "x.db"\nrecall = true\nprivate = 7\n', "conversation_db, recall, private"),
        ('claims = "always"\n', "claims"),
        ('"\\u001b[2J" = 1\n', "?[2J"),
        ("= nonsense\n", "it is not valid TOML"),
        ("palaver = 5\n", "palaver"),
        ("a = " + "[" * 30_000, "it is not valid TOML"),
        ("#" * 70_000, "it is too long"),
    ],
)
def test_settings_of_the_folder_are_named_and_ignored(repository: Path, home: Path, text: str, told: str):
    before = json.loads(started(home, "config", "--json").stdout)
    (repository / "palaver.toml").write_text(text)
    for folder in (repository, repository / "palaver"):
        os.chdir(folder)
        done = started(home, "config", "--json")
        assert (done.returncode, json.loads(done.stdout)) == (0, before)
        assert told in done.stderr
        assert "Settings belong in palaver.toml in PALAVER_HOME." in done.stderr


def test_data_stays_in_the_home(repository: Path, home: Path, engine: Engine):
    (repository / "palaver.toml").write_text('home = "."\ndatabase_url = "sqlite:///."\nmodel = "openai:x"\n')
    there = {path.name for path in repository.iterdir()}
    done = started(home, "thread", "create", "plans", PALAVER_DATABASE_URL=engine.fresh())
    assert done.returncode == 0
    assert "cannot set home, database_url, model" in done.stderr
    assert {path.name for path in repository.iterdir()} == there


def test_without_palaver_home_the_file_in_the_usual_place_is_read(repository: Path, tmp_path: Path):
    usual = tmp_path / "data" / "palaver"
    usual.mkdir(parents=True)
    (usual / "palaver.toml").write_text("port = 4000\n")
    config = started(tmp_path, "config", "--json", PALAVER_HOME="", XDG_DATA_HOME=tmp_path / "data", HOME=tmp_path)
    rows = {row["setting"]: row for row in json.loads(config.stdout)}
    assert (rows["port"]["value"], rows["port"]["from"]) == (4000, "palaver.toml")


def test_the_home_cannot_be_set_in_the_home(home: Path):
    (home / "palaver.toml").write_text('home = "/elsewhere"\n')
    done = started(home, "config")
    assert done.returncode == 2
    assert "Use --home or PALAVER_HOME." in done.stderr


def test_sessions_of_a_private_project_are_not_recorded(repository: Path, home: Path):
    unique, id = word(), str(uuid4())
    (repository / "palaver.toml").write_text("private = true\nrecall = false\n")
    file = home / "projects" / f"{id}.jsonl"
    file.parent.mkdir()
    file.write_bytes(jsonl(typed(f"a secret {unique}", id, cwd=str(repository / "palaver"))))
    watched = started(home, "watch", "--once", str(file.parent))
    assert (watched.returncode, "the project is private" in watched.stdout + watched.stderr) == (0, True)
    imported = started(home, "import", str(file))
    assert "the project is private" in imported.stdout + imported.stderr
    assert "palaver.toml" not in watched.stderr + imported.stderr
    assert unique not in started(home, "search", unique, "--json").stdout.replace(f'"query": "{unique}"', "")
    assert unique.encode() not in b"".join(path.read_bytes() for path in (home / "sessions").rglob("*.jsonl"))


def test_a_link_out_of_the_folder_is_not_written_through(repository: Path, home: Path):
    for name, other in (("AGENTS.md", None), ("CLAUDE.md", "AGENTS.md")):
        outside = home / "notes.txt"
        outside.write_text("mine\n")
        (repository / name).symlink_to(outside)
        done = started(home, "setup", "--agents-md")
        assert done.returncode == 2
        assert f"{name} is a link to a file outside this folder" in done.stderr
        assert outside.read_text() == "mine\n"
        assert other is None or not (repository / other).exists()
        (repository / name).unlink()
    (repository / "CLAUDE.md").symlink_to("AGENTS.md")
    (repository / "AGENTS.md").write_text("# Rules\n")
    assert started(home, "setup", "--agents-md").returncode == 0
    assert "palaver:begin" in (repository / "AGENTS.md").read_text()
