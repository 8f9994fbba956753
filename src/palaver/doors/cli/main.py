"""The `palaver` command line.

Commands must be fast, so this module imports nothing heavy except click. `commands.json` describes all commands; `make
reference` writes it. The module of a command is imported when the command runs.
"""

from __future__ import annotations

import difflib
import json
import os
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from palaver import __version__
from palaver.doors.cli import options
from palaver.errors import PalaverError, Unauthorized, Unavailable
from palaver.text.control_characters import without_control_characters

PERMISSION = "Change its owner or mode (chmod u+rwX), or choose another folder with --home or PALAVER_HOME."

COMMANDS = {
    "search": "search:search",
    "why": "why:why",
    "fix": "fix:fix",
    "fixes": "fix:fixes",
    "claim": "claims:claim",
    "release": "claims:release",
    "claims": "claims:claims",
    "guard install": "claims:install",
    "guard remove": "claims:remove",
    "guard check": "claims:check",
    "events": "watch:events",
    "session append": "sessions:append",
    "conversation search": "sessions:search",
    "import": "imports:import_files",
    "export": "imports:export",
}
"""Commands that are not operations, each with its module and function."""

ADMIN_COMMANDS = {
    "setup": "manage.setup:setup",
    "serve": "serve:serve",
    "mcp": "serve:mcp",
    "hook": "serve:hook",
    "watch": "watch:watch",
    "spawn": "spawn:spawn",
    "service install": "manage.service:install",
    "service remove": "manage.service:remove",
    "reindex": "sessions:reindex",
    "verify": "sessions:verify",
    "workspace create": "manage.admin:create_workspace",
    "workspace list": "manage.admin:list_workspaces",
    "workspace delete": "manage.admin:delete_workspace",
    "workspace upgrade": "manage.admin:upgrade_workspaces",
    "token create": "manage.admin:create_token",
    "token list": "manage.admin:list_tokens",
    "token revoke": "manage.admin:revoke_token",
    "application list": "manage.admin:list_applications",
    "application revoke": "manage.admin:revoke_application",
    "user add": "manage.admin:add_user",
    "user list": "manage.admin:list_users",
    "user remove": "manage.admin:remove_user",
    "audit": "manage.admin:audit",
    "demo": "manage.admin:demo",
    "backup": "manage.admin:backup",
    "restore": "manage.admin:restore",
    "purge": "manage.admin:purge",
    "privacy": "manage.privacy:privacy",
    "forget": "manage.privacy:forget",
    "doctor": "manage.doctor:doctor",
    "config": "manage.config:config",
    "completion": "manage.config:completion",
}
"""Commands for administration. Help lists them in a section of their own."""

GROUPS = {
    "thread": "Create, read, change, close and export threads.",
    "message": "Show, edit or delete a message.",
    "agent": "Register, show and remove agents.",
    "template": "Manage templates for new threads.",
    "archive": "Show imported conversations.",
    "note": "Create, read and change notes.",
    "media": "Show videos, podcasts, books and articles.",
    "chat": "Read chats and write messages in them.",
    "character": "Show characters.",
    "prompt": "Create, read and change prompts.",
    "saved": "Save searches, list and remove them.",
    "session": "Record, read, delete and export agent sessions.",
    "point": "List and close what sessions left open.",
    "conversation": "Search agent sessions.",
    "webhook": "Send events to other programs, and take messages from them.",
    "guard": "Let git refuse to commit files that others hold.",
    "service": "Run the server in the background.",
    "workspace": "Create, list, upgrade and delete workspaces.",
    "token": "Create, list and revoke tokens.",
    "application": "List and revoke applications that connected with OAuth.",
    "user": "Add, list and remove users.",
}

ALIASES = {"conv": "conversation"}

HELP = """A message bus and a memory shared by AI agents and people.

Commands work on the data of this machine, or on a running server if --url or PALAVER_URL is set.
A thread can be given by its id or its exact topic. Every argument can also be given as an option:
'session show A S' is the same as 'session show --agent A --session S'."""

EPILOG = """\b
Exit codes:
  0  done                 3  not found
  1  failed               4  not allowed
  2  wrong usage          5  not available now
\b
Environment:
  PALAVER_HOME            directory with all data
  PALAVER_DATABASE_URL    sqlite:///DIRECTORY or postgresql://…
  PALAVER_URL             server to use instead of the local data
  PALAVER_TOKEN           token for the server, for the local data and for 'palaver mcp'
  NO_COLOR                no colours and no bold
  'palaver config' shows all other settings.
\b
First steps:
  palaver serve
  palaver thread create plans
  palaver post plans "Shall we begin?"
  palaver search begin"""


@cache
def descriptions() -> dict[str, dict[str, Any]]:
    """All commands by full name, each with its `summary`. Commands made from operations are described completely."""
    found: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("commands.json").read_text("utf-8"))
    return found


class Group(click.Group):
    """The commands whose full names begin with `prefix`, e.g. 'thread '."""

    def __init__(self, prefix: str, **extra: Any) -> None:
        super().__init__(prefix or "palaver", params=options.make(*options.ALL, hidden=bool(prefix)), **extra)
        self.prefix = prefix

    def summaries(self) -> dict[str, str]:
        """The commands and groups directly below this group, each with a line of help."""
        found: dict[str, str] = {}
        for full, about in descriptions().items():
            if full.startswith(self.prefix):
                name, _, deeper = full.removeprefix(self.prefix).strip().partition(" ")
                found.setdefault(name, GROUPS[name] if deeper else about["summary"])
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.summaries())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        full = f"{self.prefix}{cmd_name}"
        if place := (COMMANDS | ADMIN_COMMANDS).get(full):
            module, _, name = place.partition(":")
            command: click.Command = getattr(import_module(f"palaver.doors.cli.{module}"), name)
            return command
        if full in descriptions():
            from palaver.doors.cli import operation_commands

            return operation_commands.command(full, descriptions()[full])
        if cmd_name in self.list_commands(ctx):
            return Group(full + " ", help=GROUPS.get(full), no_args_is_help=True)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1, cutoff=0.5)
            ctx.fail(f"There is no command '{self.prefix}{args[0]}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        admin = {full.partition(" ")[0] for full in ADMIN_COMMANDS} if not self.prefix else set()
        for title, is_admin in (("Commands", False), ("Administration", True)):
            if rows := [(name, line) for name, line in self.summaries().items() if (name in admin) is is_admin]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        names = self.summaries().items()
        found = [CompletionItem(name, help=summary) for name, summary in names if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and exit the process with its exit code."""
        arguments = args[0] if args else extra.get("args")
        sys.exit(run_to_exit_code(lambda: self.run(sys.argv[1:] if arguments is None else list(arguments))))

    def run(self, arguments: list[str]) -> Any:
        self._main_shell_completion({}, "palaver")
        with self.make_context("palaver", arguments, obj=options.Target()) as ctx:
            return self.invoke(ctx)


def run_to_exit_code(work: Callable[[], Any]) -> int:
    """Run a command and return its exit code. Errors are printed as one line on stderr."""
    try:
        code = work()
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.exceptions.NoArgsIsHelpError as problem:
        click.echo(problem.format_message(), err=True)
        return 2
    except click.UsageError as problem:
        path = problem.ctx.command_path if problem.ctx else "palaver"
        message, code = f"{problem.format_message()} See '{path} --help'.", 2
    except click.ClickException as problem:
        message, code = problem.format_message(), 1
    except Unauthorized as problem:
        message, code = problem.message, problem.exit_code
        if "agent_id" not in message:  # an agent's own token is something else than PALAVER_TOKEN
            message = "A token is required." if "Authorization" in message else message
            message += " Set PALAVER_TOKEN to a valid token; 'palaver token create' makes one."
    except PalaverError as problem:
        message, code = problem.message, problem.exit_code
    except BrokenPipeError:
        # The reader closed the pipe. Python must not flush into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (KeyboardInterrupt, click.Abort):
        return 130
    except PermissionError as problem:
        what = f"'{problem.filename}'" if problem.filename else "A file or folder"
        message, code = f"You may not read or write {what}. {PERMISSION}", Unavailable.exit_code
    except Exception as problem:
        if os.environ.get("PALAVER_LOG_LEVEL") == "debug":
            raise
        what = f"{type(problem).__name__}: {problem}".rstrip(": ")
        message, code = f"unexpected {what} (PALAVER_LOG_LEVEL=debug shows where).", 1
    click.echo("palaver: " + without_control_characters(" ".join(message.split())), err=True)
    return code


palaver = Group("", help=HELP, epilog=EPILOG, no_args_is_help=True)
click.version_option(__version__, message="palaver %(version)s", help="Print the version.")(palaver)


def main() -> None:
    os.umask(0o077)  # all written files are private to their owner
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # some terminals cannot show every character
    palaver.main()
