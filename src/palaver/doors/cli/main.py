"""The command line: every operation as a command, and the commands that look after the house.

Help must come at once, so this file imports click and nothing else of weight. The table below says what there is; the
commands themselves are made from the operations when one of them is called. A test holds the table to the operations.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import click

from palaver import __version__
from palaver.doors.cli import target
from palaver.errors import PalaverError, Unauthorized, Unavailable

PERMISSION = "Change its owner or its rights (chmod u+rwX), or name another folder with --home or PALAVER_HOME."

OPERATIONS = {
    "status": "How much there is, and who is here.",
    "thread create": "Create a thread, or get the existing one with this topic.",
    "thread list": "List threads, the latest first.",
    "thread show": "Get one thread: topic, status, rules, current_seq.",
    "thread update": "Change a thread's topic, status, rules, summary or metadata; what is left out stays as it is.",
    "thread close": "Close a thread: it stays readable and searchable, but takes no more messages.",
    "thread archive": "Archive a thread: it leaves the list but stays searchable.",
    "thread unarchive": "Bring an archived thread back into the list.",
    "thread delete": "Delete a thread you created and all its messages for good.",
    "thread export": "A thread as a Markdown transcript.",
    "post": "Post a message to a thread.",
    "thread read": "Read the messages of a thread in order, with their reactions.",
    "message show": "Get one message by its id, with its reactions.",
    "wait": "Wait for messages after after_seq.",
    "message edit": "Change the text of a message you wrote.",
    "message history": "The earlier versions of a message, oldest first.",
    "message delete": "Delete a message you wrote, with its history and reactions.",
    "react": "Add a reaction (a label or emoji) to a message.",
    "unreact": "Remove your reaction from a message.",
    "reactions": "All labels on a message, oldest first.",
    "agent create": "Register as an agent.",
    "agents": "List the agents: who is online, what they can do, where they wait.",
    "agent show": "One agent, by id, slug or name.",
    "agent rm": "Remove an agent for good: its registration, its secrets and its tokens.",
    "template list": "All templates a thread can begin with, built-in ones first.",
    "template show": "One template, with its rules and default metadata.",
    "template create": "Add a template of your own.",
    "template delete": "Delete a template of your own.",
    "session list": "Sessions, the latest first.",
    "session show": "The turns of a session, in order.",
    "session delete": "Delete a session for good: its transcript and its place in the index.",
    "session export": "A session as Markdown, or as the JSON lines it is kept in.",
    "archive list": "List imported conversations, the latest first.",
    "archive show": "Show an imported conversation with all its messages.",
    "note add": "Keep a note: a title, a text, keywords to find it by.",
    "note show": "One note, whole.",
    "note edit": "Change a note: what you leave out stays as it is.",
    "note list": "Notes, those changed last first.",
    "media show": "One medium, with its text, its chunks and its transcript.",
    "media list": "Media, those changed last first, without their texts.",
    "chat show": "One chat; its messages are read apart.",
    "chat list": "Chats, those spoken in last first.",
    "chat say": "Say something in a chat.",
    "chat messages": "The messages of a chat, in order.",
    "character show": "One character, with everything on the card.",
    "character list": "Characters, those changed last first.",
    "prompt add": "Keep a prompt.",
    "prompt show": "One prompt, by its id or its name.",
    "prompt edit": "Change a prompt: what you leave out stays as it is.",
    "prompt list": "Prompts, those changed last first.",
    "note rm": "Delete a note: nobody finds it any more.",
    "note restore": "Bring back a note that was deleted.",
    "media rm": "Delete a media: nobody finds it any more.",
    "media restore": "Bring back a media that was deleted.",
    "chat rm": "Delete a chat: nobody finds it any more.",
    "chat restore": "Bring back a chat that was deleted.",
    "character rm": "Delete a character: nobody finds it any more.",
    "character restore": "Bring back a character that was deleted.",
    "prompt rm": "Delete a prompt: nobody finds it any more.",
    "prompt restore": "Bring back a prompt that was deleted.",
    "get": "Open what a search has found, by its uri: the part that matters with what stands around it, or all of it.",
    "context": "The best evidence for a question, from everything that is kept here, as one text within a budget.",
    "media transcript": "Get the transcript of a recording as text, SRT, WebVTT or JSON.",
}

# Commands that are no operations: where they stand, and what they do.
HOUSE = {
    "search": ("search:search", "Find anything that was said or kept here, the best match first."),
    "serve": ("serve:serve", "Run the server: console, REST, events and MCP on one port."),
    "mcp": ("serve:mcp", "Be an MCP server on standard input and output."),
    "watch": ("watch:watch", "Read the sessions of Claude Code and Codex, and follow them as they are written."),
    "events": ("events:events", "Follow what happens, one line for each event."),
    "session append": ("sessions:append", "Record a turn of a session."),
    "conversation search": ("sessions:search", "Find earlier turns of an agent's sessions by their words."),
    "import": ("archive:bring", "Import chat histories: files, folders and zips."),
    "export": ("archive:export", "Write imported conversations as Markdown or JSON lines."),
    "reindex": ("sessions:reindex", "Make the index of sessions again from their transcripts."),
    "verify": ("sessions:verify", "Compare the transcripts with the index."),
    "workspace create": ("admin:create_workspace", "Make a workspace: a world of its own."),
    "workspace list": ("admin:list_workspaces", "The workspaces there are."),
    "workspace delete": ("admin:delete_workspace", "Delete a workspace for good, with its tokens."),
    "token create": ("admin:create_token", "Make a token for a person or an agent, and print it."),
    "token list": ("admin:list_tokens", "The tokens there are; never their secrets."),
    "token revoke": ("admin:revoke_token", "End a token at once."),
    "user add": ("admin:add_user", "Let a person into a workspace: makes a token and prints it."),
    "user list": ("admin:list_users", "Who can come in, and how far."),
    "user remove": ("admin:remove_user", "End every token of a person or an agent."),
    "audit": ("admin:audit", "Who did what: logins, token changes, denials, exports, deletions."),
    "demo": ("demo:demo", "Fill a workspace with a story, to look around in."),
    "backup": ("backup:backup", "Copy everything into one file, while servers go on working."),
    "restore": ("backup:restore", "Put a backup back, into a place where nothing is yet."),
    "purge": ("backup:purge", "Take away for good what was deleted: no file holds a byte of it."),
    "doctor": ("doctor:doctor", "Check the installation and the data, and say what to do."),
    "config": ("config:config", "Every setting: its value, where it comes from, what it is for."),
    "eval": ("eval:evaluate", "Measure the search with labelled questions."),
    "completion": ("config:completion", "Print the script that lets your shell complete commands."),
}

# Listed apart from what people do every day.
CHORES = frozenset(
    [
        "serve",
        "mcp",
        "watch",
        "reindex",
        "verify",
        "workspace",
        "token",
        "user",
        "backup",
        "restore",
        "purge",
        "audit",
        "demo",
        "doctor",
        "config",
        "completion",
    ]
)

GROUPS = {
    "thread": "Open, read, change, close and export threads.",
    "message": "Look at a message, edit or delete it.",
    "agent": "Register agents and look at one.",
    "template": "What threads can begin with.",
    "archive": "Look at imported conversations.",
    "note": "Keep, read and change notes.",
    "media": "Look at videos, podcasts, books and articles.",
    "chat": "Read chats, and say something in one.",
    "character": "Look at characters.",
    "prompt": "Keep, read and change prompts.",
    "session": "Record, read, delete and export agents' sessions.",
    "conversation": "Find what was said in agents' sessions.",
    "workspace": "Make, list and delete workspaces.",
    "token": "Make, list and revoke tokens.",
    "user": "Who can come in: add, list and remove them.",
}

ALIASES = {"conv": "conversation"}

HELP = """A bus and a memory shared by agents and people.

Commands work on the data of this machine, or through a running server when --url or PALAVER_URL names one.
Wherever a thread is asked for, its id or its exact topic will do. What has its place on the line may also be said by
name: 'session show A S' is 'session show --agent A --session S'."""

EPILOG = """\b
Exit codes:
  0  done                 3  not found
  1  failed               4  not allowed
  2  used wrongly         5  not available now
\b
Environment:
  PALAVER_HOME            directory with all data
  PALAVER_DATABASE_URL    sqlite:///DIRECTORY or postgresql://…
  PALAVER_URL             the server to ask instead of opening the data here
  PALAVER_TOKEN           who you are, for that server, for the data here and for 'palaver mcp'
  NO_COLOR                no colours and no bold
  'palaver config' shows all the others.
\b
Begin with:
  palaver serve
  palaver thread create plans
  palaver post plans "Shall we begin?"
  palaver search begin"""


class Group(click.Group):
    """Commands by their full names: this group holds those that begin with its own."""

    def __init__(self, path: str, **extra: Any) -> None:
        super().__init__(path or "palaver", params=target.options(*target.EVERYWHERE, hidden=bool(path)), **extra)
        self.path = path

    def summaries(self, table: dict[str, str]) -> dict[str, str]:
        """What there is directly below, each with a line of help."""
        found: dict[str, str] = {}
        for full, summary in table.items():
            if full.startswith(self.path):
                name, _, deeper = full.removeprefix(self.path).strip().partition(" ")
                found.setdefault(name, GROUPS.get(name, name.capitalize() + " commands.") if deeper else summary)
        return found

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.summaries(OPERATIONS | _house()))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        cmd_name = ALIASES.get(cmd_name, cmd_name)
        full = f"{self.path}{cmd_name}"
        if full in OPERATIONS:
            from palaver.doors.cli import operation_commands

            return operation_commands.command(full)
        if full in HOUSE:
            module, _, name = HOUSE[full][0].partition(":")
            command: click.Command = getattr(import_module(f"palaver.doors.cli.{module}"), name)
            return command
        if cmd_name in self.list_commands(ctx):
            return Group(full + " ", help=GROUPS.get(full), no_args_is_help=True)
        return None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1, cutoff=0.5)
            ctx.fail(f"There is no command '{self.path}{args[0]}'." + (f" Did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        there = self.summaries(OPERATIONS | _house())
        chores = {name: line for name, line in there.items() if not self.path and name in CHORES}
        for title, table in (("Commands", there.keys() - chores.keys()), ("Looking after the house", chores.keys())):
            if rows := [(name, line) for name, line in there.items() if name in table]:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        names = self.summaries(OPERATIONS | _house()).items()
        found = [CompletionItem(name, help=summary) for name, summary in names if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run a command and end the process with its exit code."""
        arguments = args[0] if args else extra.get("args")
        sys.exit(ended(lambda: self._run(sys.argv[1:] if arguments is None else list(arguments))))

    def _run(self, arguments: list[str]) -> Any:
        self._main_shell_completion({}, "palaver")
        with self.make_context("palaver", arguments, obj=target.Where()) as ctx:
            return self.invoke(ctx)


def _house() -> dict[str, str]:
    return {name: summary for name, (_, summary) in HOUSE.items()}


def ended(work: Callable[[], Any]) -> int:
    """How it ended, as an exit code. What went wrong is one line on stderr."""
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
        return _failed(f"{problem.format_message()} See '{path} --help'.", 2)
    except click.ClickException as problem:
        return _failed(problem.format_message(), 1)
    except Unauthorized as problem:
        return _failed(_with_a_token(problem.message), problem.exit_code)
    except PalaverError as problem:
        return _failed(problem.message, problem.exit_code)
    except BrokenPipeError:
        # Whoever read along has enough. Nothing may be flushed into the closed pipe when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except (KeyboardInterrupt, click.Abort):
        return 130
    except PermissionError as problem:
        what = f"'{problem.filename}'" if problem.filename else "A file or folder"
        return _failed(f"{what} may not be read or written by you. {PERMISSION}", Unavailable.exit_code)
    except Exception as problem:
        if os.environ.get("PALAVER_LOG_LEVEL") == "debug":
            raise
        what = f"{type(problem).__name__}: {problem}".rstrip(": ")
        return _failed(f"unexpected {what} (PALAVER_LOG_LEVEL=debug shows where).", 1)


def _with_a_token(message: str) -> str:
    """What to do in a terminal, where nobody sends headers. The token of an agent_id is another one."""
    if "agent_id" in message:
        return message
    message = "A token is required." if "Authorization" in message else message
    return f"{message} Set PALAVER_TOKEN to a valid token; 'palaver token create' makes one."


def _failed(message: str, code: int) -> int:
    click.echo("palaver: " + " ".join(message.split()), err=True)
    return code


def _version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"palaver {__version__}")
        ctx.exit()


palaver = Group("", help=HELP, epilog=EPILOG, no_args_is_help=True)
palaver.params.append(
    click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_version,
        help="Print the version.",
    )
)


def main() -> None:
    os.umask(0o077)  # whatever is written, data or export, is for its owner alone
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that cannot show an emoji is no reason to fail
    palaver.main()
