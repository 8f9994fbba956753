"""Administration commands: workspaces, tokens, settings, the doctor."""

from __future__ import annotations

import errno
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw
import pytest
from tests.doors.test_cli import Terminal, terminal
from tests.helpers import started

from palaver.errors import Invalid
from palaver.settings import load

__all__ = ["terminal"]


# Workspaces and tokens


def test_a_workspace_is_made_once_and_listed(terminal: Terminal):
    terminal.ok("workspace", "create", "w")
    assert terminal.ok("workspace", "list").split() == ["NAME", "default", "w"]
    assert terminal.run("workspace", "create", "w").exit_code == 2
    assert terminal.run("workspace", "create", "Not A Name").exit_code == 2


def test_a_workspace_is_named_in_small_letters_however_it_is_typed(terminal: Terminal):
    terminal.ok("workspace", "create", "TeamA")
    terminal.ok("token", "create", "--workspace", "TeamA", "--human", "ann")
    assert [token["workspace"] for token in terminal.json("token", "list", "--workspace", "TEAMA")] == ["teama"]
    assert terminal.run("workspace", "create", "teama").exit_code == 2
    terminal.ok("workspace", "delete", "TeamA", "--yes")
    assert terminal.ok("workspace", "list").split() == ["NAME", "default"]


def test_a_new_token_stands_alone_on_stdout(terminal: Terminal):
    result = terminal.run("token", "create", "--agent", "bob")
    assert result.exit_code == 0
    assert result.stdout.startswith("plv_")
    assert result.stdout == result.stdout.strip() + "\n"
    assert "lets agent 'bob' read, write in workspace 'default'" in result.stderr


def test_tokens_are_listed_without_their_secrets_and_end_when_revoked(terminal: Terminal):
    secret = terminal.ok("token", "create", "--human", "ann", "--scope", "admin,read", "--expires", "30d").strip()
    listed = terminal.ok("token", "list", "--json")
    assert secret not in listed
    (token,) = json.loads(listed)
    assert (token["kind"], token["name"], token["scopes"]) == ("human", "ann", ["read", "admin"])
    left = datetime.fromisoformat(token["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=29) < left <= timedelta(days=30)
    terminal.ok("status", PALAVER_TOKEN=secret)
    terminal.ok("token", "revoke", token["id"])
    assert terminal.run("status", PALAVER_TOKEN=secret).exit_code == 4
    assert terminal.run("token", "revoke", token["id"]).exit_code == 3


def test_a_token_is_revoked_by_itself_too_and_not_said_again(terminal: Terminal):
    secret = terminal.ok("token", "create", "--human", "ann").strip()
    (token,) = terminal.json("token", "list")
    result = terminal.run("token", "revoke", secret)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", f"palaver: Revoked the token {token['id']}.\n")
    assert terminal.run("status", PALAVER_TOKEN=secret).exit_code == 4
    again = terminal.run("token", "revoke", secret)
    assert again.exit_code == 3
    assert secret not in again.output


@pytest.mark.parametrize(
    "args",
    [
        ("--scope", "everything"),
        ("--scope", ""),
        ("--expires", "soon"),
        ("--expires", "0d"),
        ("--expires", "999999w"),
        ("--agent", "a", "--human", "b"),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(terminal: Terminal, args: tuple[str, ...]):
    assert terminal.run("token", "create", *args).exit_code == 2
    assert terminal.json("token", "list") == []


def test_a_token_is_made_in_a_workspace_that_exists(terminal: Terminal):
    assert terminal.run("token", "create", "--workspace", "nowhere").exit_code == 3
    terminal.ok("workspace", "create", "w")
    terminal.ok("token", "create", "--workspace", "w")
    assert [token["workspace"] for token in terminal.json("token", "list", "--workspace", "w")] == ["w"]
    assert terminal.json("token", "list", "--workspace", "default") == []


def test_tokens_are_not_made_through_a_server(terminal: Terminal):
    result = terminal.run("token", "create", PALAVER_URL="http://127.0.0.1:9")
    assert result.exit_code == 2
    assert "only on local data" in result.stderr


# Settings


def test_config_says_where_each_value_comes_from(terminal: Terminal):
    (terminal.home / "palaver.toml").write_text('language = "Latin"\nport = 4000\n')
    settings = {row["setting"]: row for row in terminal.json("config", PALAVER_PORT="5000")}
    assert (settings["language"]["value"], settings["language"]["from"]) == ("Latin", "palaver.toml")
    assert (settings["port"]["value"], settings["port"]["from"]) == (5000, "PALAVER_PORT")
    assert (settings["host"]["value"], settings["host"]["from"]) == ("127.0.0.1", "default")
    assert (settings["home"]["value"], settings["home"]["from"]) == (str(terminal.home), "PALAVER_HOME")
    assert all(row["help"] for row in settings.values())


def test_settings_under_a_table_of_our_name_count_as_if_they_stood_at_the_top(terminal: Terminal):
    (terminal.home / "palaver.toml").write_text('port = 4000\n\n[palaver]\nlanguage = "Latin"\n')
    settings = {row["setting"]: row for row in terminal.json("config")}
    assert (settings["language"]["value"], settings["language"]["from"]) == ("Latin", "palaver.toml")
    assert (settings["port"]["value"], settings["port"]["from"]) == (4000, "palaver.toml")


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("port = 4000\n[palaver]\nport = 5000\n", "port is in palaver.toml twice"),
        ("palaver = 5\n", "must be a table"),
        ("[palaver\n", "is not valid TOML"),
        ("[palaver]\nport = 'many'\n", "port in palaver.toml = 'many' is not valid"),
    ],
)
def test_a_file_of_settings_that_cannot_be_meant_is_refused(terminal: Terminal, text: str, complaint: str):
    (terminal.home / "palaver.toml").write_text(text)
    result = terminal.run("config")
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_config_keeps_a_password_to_itself(terminal: Terminal):
    said = terminal.ok("config", "--database-url", "postgresql://ann:secret@db/palaver")
    assert "postgresql://ann:…@db/palaver" in said
    assert "secret@" not in said


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_for_the_shell(terminal: Terminal, shell: str):
    assert "_PALAVER_COMPLETE" in terminal.ok("completion", shell)


def test_commands_are_completed_without_loading_them(tmp_path: Path):
    asked = {"_PALAVER_COMPLETE": "bash_complete", "COMP_WORDS": "palaver thr", "COMP_CWORD": "1"}
    assert started(tmp_path, **asked).stdout == "plain,thread\n"


# The doctor


def test_the_doctor_finds_healthy_data_well(terminal: Terminal):
    terminal.ok("thread", "create", "plans")
    result = terminal.run("doctor", PALAVER_PORT="9")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert "✓ workspace default: opens; data, search index and transcripts are intact" in lines
    assert [line for line in lines if line.startswith("✗")] == []
    assert any(line.startswith("– server: no server at http://127.0.0.1:9") for line in lines)


def test_the_doctor_sees_a_search_index_that_is_broken(terminal: Terminal):
    terminal.ok("thread", "create", "plans")
    terminal.ok("post", "plans", "some words to find")
    database = apsw.Connection(str(terminal.home / "workspaces" / "default.db"))
    database.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 0)
    database.execute("UPDATE passage_index_data SET block = zeroblob(length(block)) WHERE id > 1000")
    database.close()
    result = terminal.run("doctor")
    assert result.exit_code == 1
    assert "✗ workspace default:" in result.stdout
    assert "→ Stop palaver, then run 'palaver doctor --repair'" in result.stdout


def test_the_doctor_sees_a_file_that_is_no_database(terminal: Terminal):
    terminal.ok("status")
    for side_file in (terminal.home / "workspaces").glob("default.db-*"):
        side_file.unlink()
    (terminal.home / "workspaces" / "default.db").write_bytes(b"this is no database" * 1000)
    result = terminal.run("doctor")
    assert result.exit_code == 1
    assert "✗ workspace default: The database file is damaged." in result.stdout


def test_the_doctor_sees_a_setting_that_cannot_be_read(terminal: Terminal):
    result = terminal.run("doctor", PALAVER_AUTH="maybe")
    assert result.exit_code == 1
    assert "✗ settings: PALAVER_AUTH = 'maybe' is not valid" in result.stdout


def test_the_doctor_makes_nothing_where_nothing_is(terminal: Terminal):
    place = terminal.home / "not yet"
    assert terminal.run("doctor", "--home", str(place)).exit_code == 0
    assert not place.exists()


def test_the_doctor_checks_postgresql_too(terminal: Terminal, postgres):
    result = terminal.run("doctor", "--database-url", postgres.empty())
    assert result.exit_code == 0, result.output
    assert "✓ workspace default: opens" in result.stdout


def test_a_database_that_is_away_is_exit_code_5(terminal: Terminal):
    result = terminal.run("status", "--database-url", "postgresql://nobody@127.0.0.1:9/nothing")
    assert result.exit_code == 5
    assert result.stderr.startswith("palaver: PostgreSQL is not reachable")


@pytest.mark.parametrize(
    "variable, text, advice",
    [
        ("PALAVER_PORT", "many", "use a whole number up to 65,535"),
        ("PALAVER_PORT", "99999", "use a whole number up to 65,535"),
        ("PALAVER_RATE_LIMIT", "-5", "use a whole number"),
        ("PALAVER_SEARCH_TIMEOUT", "soon", "use a number of seconds"),
        ("PALAVER_SEARCH_TIMEOUT", "nan", "use a number of seconds"),
        ("PALAVER_MAX_UPLOAD", "5 elephants", "use a size such as 5MB"),
    ],
)
def test_a_setting_that_cannot_be_meant_says_what_to_write(variable: str, text: str, advice: str):
    with pytest.raises(Invalid) as refused:
        load(environ={variable: text})
    assert refused.value.message == f"{variable} = {text!r} is not valid: {advice}."


def test_settings_are_read_as_people_write_them(tmp_path: Path):
    written = {"PALAVER_MAX_UPLOAD": "1.5 MB", "PALAVER_MAX_IMPORT": "512k", "PALAVER_PORT": " 8080 "}
    settings = load(environ={**written, "PALAVER_SEARCH_TIMEOUT": "2.5", "PALAVER_HOME": str(tmp_path)})
    assert (settings.max_upload, settings.max_import, settings.port) == (1_572_864, 524_288, 8080)
    assert settings.search_timeout == 2.5


def test_a_folder_one_may_not_read_is_named(terminal: Terminal, monkeypatch: pytest.MonkeyPatch):
    def closed(*args: Any) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(terminal.home))

    monkeypatch.setattr("palaver.doors.cli.connection.App", closed)
    done = terminal.run("workspace", "list")
    assert done.exit_code == 5
    assert f"You may not read or write '{terminal.home}'." in done.stderr
    assert "chmod" in done.stderr
