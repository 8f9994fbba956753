"""`palaver hook EVENT`: run by the hooks of coding agents. It starts fast, because it imports only what it needs.

It reads the client's JSON on standard input, asks the server, and prints the answer in the client's format. Whatever
goes wrong, it prints nothing and exits with 0: a hook must never disturb its client. `palaver doctor` shows the last
problem. `palaver hook wait` stays until a message shall wake the idle session, or the client has ended.
"""

from __future__ import annotations

import _thread
import json
import os
import re
import select
import socket
import sys
from contextlib import suppress
from time import monotonic

from palaver import child_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Send = Callable[[str, bytes, float], tuple[int, bytes]]

SECONDS, START_SECONDS = 2.0, 8.0
"""Time for the server to answer, unless PALAVER_HOOK_SECONDS says otherwise. It is longer at the start of a session:
many may start at once, and the model needs its briefing. The settings of the clients allow more than that."""
PERMISSION_SECONDS = {"claude-code": 3600, "codex": 60, "opencode": 3600}
"""How long a person is asked in the inbox. Only then Codex asks at its own prompt; the others do so at once."""
CONNECT_SECONDS = 0.5
"""Time to reach the server. One that is down must not hold up the client."""
CONFIRM_SECONDS = 0.1
"""Time to confirm that the text was written. If it is not enough, the next event confirms it."""
WAIT_SECONDS = 20 * 86_400.0
"""How long one request of `palaver hook wait` is held. Then there is another one."""
PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""How long it waits before it tries to reach the server again."""
SILENT_SECONDS = 60
"""After this time without a word, the system asks whether the other machine is still there."""
WAKE = 2
"""The exit code that wakes Claude Code."""
RUNG = "palaver: a message for you arrived."
"""The prompt that wakes Codex."""
NOT_TYPED = (RUNG, "palaver: you were called.", "<task-notification>", '<channel source="palaver"')
"""How prompts begin that no person typed. Claude Code reports a wake as such a notification, or as a channel's."""
SHOWN_FOLDER = "hooks"
"""Has a file for each session with the id of the last text that was written. It also locks the session's hooks."""
SHOWN_KEPT = 30 * 86_400
MOST_INPUT = 4_000_000
MOST_ANSWER = 400_000
MOST_PROMPT = 20_000
MOST_FILES = 50
"""So many files of one edit are looked at."""
MOST_ERROR = 10_000
MOST_FIXES = 20
"""So many fixes of a session are told once only."""
FAILED = re.compile(r"(?:exit(?:ed with)? code:?|exit status:?) -?[1-9]", re.IGNORECASE)
DEFAULT_URL = "http://127.0.0.1:39765"
PROBLEM_FILE = "hook-problem.json"
RECORDING_PROBLEM_FILE = "recording-problem.json"
CONNECTION_FILE = "connection.json"

EVENTS = ("session-start", "prompt", "stop", "pre-compact", "session-end")
WAIT = "wait"
PERMISSION = "permission"
EDIT = "edit"
FAILURE = "failure"
SHELLS = ("sh", "bash", "dash", "zsh", "fish", "ash", "ksh", "env")

HELP = """Usage: palaver hook EVENT [--client CLIENT] [--home DIR]

  Answer a hook of a coding agent. 'palaver setup' puts this command into the settings of the client.

  EVENT   session-start, prompt, stop, pre-compact or session-end; or wait: stay until a message to the agent
          arrives while its session is idle. Then write it to standard error and exit with 2, which wakes Claude
          Code, or run 'codex queue', which wakes Codex; or permission: ask a person in the inbox whether a tool may
          run; or edit: stop an edit once if another agent edits the same file, or claims it;
          or failure: say what ended the error of a tool in an earlier session
  CLIENT  claude-code (the default), codex, gemini-cli, cursor or opencode

  The JSON of the client is read from standard input. The answer is printed in the format of the client. If
  anything fails, nothing is printed and the exit code is 0; 'palaver doctor' shows the last problem.
  The server is PALAVER_URL (with PALAVER_TOKEN), or the one in connection.json in PALAVER_HOME, or the running
  server. It has 2 seconds to answer, 8 at the start of a session; PALAVER_HOOK_SECONDS sets another time.
"""


class HookProblem(Exception):
    """Why there is no answer."""


def main(words: list[str]) -> int:
    if "--help" in words or "-h" in words:
        sys.stdout.write(HELP)
        return 0
    client = words[words.index("--client") + 1] if "--client" in words[:-1] else "claude-code"
    if "--home" in words[:-1]:
        os.environ["PALAVER_HOME"] = words[words.index("--home") + 1]
    event = next((word for word in words if word in (*EVENTS, WAIT, PERMISSION, EDIT, FAILURE)), "")
    if client == "claude-code" and os.environ.get("CURSOR_VERSION"):
        return 0  # Cursor also runs the hooks of Claude Code, beside its own
    try:
        if not event:
            raise HookProblem(f"unknown event: {' '.join(words)}")
        if event == WAIT:
            return wait(client)
        answer(event, client)
    except Exception as problem:  # whatever it is, the client must go on
        note_problem(event, client, problem)
    return 0


def answer(event: str, client: str) -> None:
    usual = START_SECONDS if event == "session-start" else SECONDS
    until = monotonic() + float(os.environ.get("PALAVER_HOOK_SECONDS") or usual)
    given = read_input(until)
    session, folder = session_of(client, given)
    url, token, is_here = server()
    if event in ("pre-compact", "session-end") and given.get("transcript_path"):
        record(str(given["transcript_path"]), "" if is_here else url, token)
    told = about(client, session, folder, client_process() if is_here else None)
    if event == PERMISSION:
        return ask_permission(client, given, told, url, token)
    if event == EDIT:
        return report_edit(client, given, told, url, token, until, is_here)
    if event == FAILURE:
        return report_failure(client, given, told, url, token, until)
    if event == "session-start" and (failed := read_file(RECORDING_PROBLEM_FILE)):
        told["not_recorded"] = str(failed.get("problem"))[:500]
    prompt = given.get("prompt") if event == "prompt" else None
    if isinstance(prompt, str) and not prompt.lstrip().startswith(NOT_TYPED) and (is_here or has_recall(folder)):
        told["prompt"] = prompt[:MOST_PROMPT].replace("\0", "")
    if isinstance(source := given.get("source") or given.get("trigger"), str):
        told["source"] = source[:60]
    if event in ("session-start", "session-end") or (event == "pre-compact" and told.get("source") != "auto"):
        with suppress(OSError):  # the context no longer has what was told. Gemini CLI reports each turn with "auto"
            os.unlink(ShownFile(f"{FAILURE}-{client}-{session}", until).path)
    send = sender(url, token)
    with ShownFile(f"{client}-{session}", until) as shown:
        said = ask(url, send, event, told | {"confirmed": shown.ids}, until)
        made = in_format_of(client, event, str(said["text"]), given) if said.get("text") else {}
        if made:
            sys.stdout.write(json.dumps(made) + "\n")
            sys.stdout.flush()
            shown.put(str(said.get("delivery") or ""))
        elif event == "session-end":
            os.unlink(shown.path)
    if made:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the client has all of the output and need not wait
        with suppress(HookProblem):  # the next event confirms it, too
            ask(url, send, "confirm", {**told, "confirmed": shown.ids}, monotonic() + CONFIRM_SECONDS)
    if event == "session-start":
        remove_old_files(os.path.dirname(shown.path))


def session_of(client: str, given: dict[str, Any]) -> tuple[str, str]:
    """The id of the client's session, and the folder that it works in."""
    session = str(given.get("session_id") or given.get("conversation_id") or f"{client}-{os.getppid()}")[:256]
    roots = given.get("workspace_roots")
    folder = given.get("cwd") or (roots[0] if isinstance(roots, list) and roots else "") or os.getcwd()
    return session, str(folder)


def about(client: str, session: str, folder: str, pid: int | None) -> dict[str, Any]:
    """What every request tells. A server on another machine knows neither the process nor the folder."""
    told: dict[str, Any] = {"client": client, "session": session, "project": folder[:1000]}
    return told | ({"project": project(folder), "folder": folder[:1000]} if pid is None else {"pid": pid})


# Waiting


def wait(client: str) -> int:
    """Wait until a message shall wake the session, and write it. A session has one waiter, and no client waits for it:
    it ends with the client."""
    if client == "claude-code" and (os.environ.get("CLAUDE_CODE_ENTRYPOINT") != "cli" or "AI_AGENT" not in os.environ):
        return 0  # `claude -p`, the SDKs and older versions go on only after their hooks
    given = read_input(monotonic() + SECONDS)
    session, folder = session_of(client, given)
    pid = client_process() or os.getppid()
    if not given or (client == "codex" and pid == 1):
        return 0  # the client has ended already
    own = ShownFile(f"{WAIT}-{pid}-{client}-{session}", 0.0)
    try:
        own.__enter__()
    except HookProblem:
        return 0  # the session has its waiter
    if client == "codex":
        if os.fork():
            return 0  # Codex goes on only after its hooks, so another process waits
        os.setsid()
        os.chdir("/")
        for stream in range(3):
            os.dup2(os.open(os.devnull, os.O_RDWR), stream)
    _thread.start_new_thread(end_with_client, (own.path, pid if client == "codex" else 0))
    written = ""
    with suppress(OSError), open(ShownFile(f"{client}-{session}", 0.0).path, encoding="ascii") as file:
        written = file.read(1000)
    said, told = ask_wait(client, session, folder, pid, {"confirmed": []}, written.split())
    with suppress(OSError):
        os.unlink(own.path)
    if not said.get("text"):
        return 0
    if client == "codex":
        # Its hook for prompts shows the message. So it is no word of the user's, and in no list of processes.
        running = f"/proc/{pid}/exe"
        program = running if os.path.exists(running) else "codex"
        os.execvp(program, ["codex", "queue", "--thread", session, "--message", RUNG])
    with ShownFile(f"{client}-{session}", monotonic() + SECONDS) as shown:
        if client == "opencode":
            os.write(1, json.dumps(in_format_of(client, WAIT, str(said["text"]), {})).encode())
        else:
            os.write(2, f"{said['text']}\n".encode())
        shown.put(*shown.ids[-1:], str(said.get("delivery") or ""))
    if os.fork() == 0:  # only a waiter that ended with 2 wakes, so another process confirms
        os.closerange(0, 3)
        confirm(told, shown.ids)
        os._exit(0)
    return WAKE


def ask_wait(
    client: str, session: str, folder: str, pid: int, more: dict[str, Any], written: list[str] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Ask until a server answers. Returns the answer, which is empty if it refuses, and what was told. First the server
    hears of what was written: without that it would say it again."""
    from time import sleep

    pause = PAUSE
    while True:
        began = monotonic()
        url, token, is_here = server()
        told = about(client, session, folder, pid if is_here else None) | more
        with suppress(OSError, HookProblem):
            send = sender(url, token)
            if written:
                heard = json.dumps(told | {"confirmed": written}).encode()
                status, _ = send("/api/hooks/confirm", heard, began + START_SECONDS)
                written = written if status >= 500 else None
            status, data = send("/api/hooks/wait", json.dumps(told).encode(), began + WAIT_SECONDS)
            said = parsed(data) if status == 200 else {}
            if said is not None and status < 500:
                return said, told
        pause = PAUSE if monotonic() - began > LONGEST_PAUSE else pause
        sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def confirm(told: dict[str, Any], deliveries: list[str]) -> None:
    url, token, _ = server()
    with suppress(HookProblem):  # the next event confirms it, too
        ask(url, sender(url, token), "confirm", told | {"confirmed": deliveries}, monotonic() + START_SECONDS)


def end_with_client(path: str, pid: int) -> None:
    """End this process with its client, also after kill -9: when the client's process ends or, without a pid, when
    nobody reads the output any more."""
    with suppress(OSError):
        if not pid:
            outputs = select.poll()
            outputs.register(1, 0)
            outputs.register(2, 0)
            outputs.poll()
        elif sys.platform == "linux":
            select.select([os.pidfd_open(pid)], [], [])
        elif sys.platform == "darwin":
            end = select.kevent(pid, select.KQ_FILTER_PROC, select.KQ_EV_ADD, select.KQ_NOTE_EXIT)
            select.kqueue().control([end], 1)
    with suppress(OSError):
        os.unlink(path)
    os._exit(0)


# Asking for permission


def ask_permission(client: str, given: dict[str, Any], told: dict[str, Any], url: str, token: str) -> None:
    """Ask a person in the inbox whether a tool may run. Without an answer, nothing is printed and the client asks."""
    from pathlib import Path

    from palaver.model.privacy import PrivacyRules

    if PrivacyRules(Path(home())).why(str(told.get("folder") or told["project"])):
        return
    _thread.start_new_thread(end_with_prompt, (str(told["session"]),))
    seconds = float(os.environ.get("PALAVER_HOOK_SECONDS") or PERMISSION_SECONDS[client])
    asked = {"tool": given["tool_name"], "input": given["tool_input"], "seconds": int(seconds)}
    said = ask(url, sender(url, token), PERMISSION, told | asked, monotonic() + seconds + SECONDS)
    decision, reason = said.get("decision"), str(said.get("reason"))
    if decision not in ("allow", "deny"):
        return
    made: dict[str, Any] = {"decision": decision, "reason": reason}  # for our plugin in opencode
    if client != "opencode":
        answer = {"behavior": decision} | ({"message": reason} if decision == "deny" else {})
        made = {"hookSpecificOutput": {"hookEventName": "PermissionRequest", "decision": answer}}
    sys.stdout.write(json.dumps(made) + "\n")
    sys.stdout.flush()


def end_with_prompt(session: str) -> None:
    """End this process when its client has ended, or when a person has answered at the client's own prompt: Claude Code
    leaves the hook running, and tells in a file whether it waits. The server then ends the question."""
    folder = os.path.join(os.environ.get("CLAUDE_CONFIG_DIR") or os.path.expanduser("~/.claude"), "sessions")
    has_waited = is_waiting = False
    output = select.poll()
    output.register(1, 0)
    ended: list[tuple[int, int]] = []
    while (is_waiting or not has_waited) and not ended:
        with suppress(OSError):
            told = [read_file(os.path.join(folder, name)) or {} for name in os.listdir(folder)]
            is_waiting = any(one.get("sessionId") == session and one.get("status") == "waiting" for one in told)
        has_waited |= is_waiting
        ended = output.poll(500)
    os._exit(0)


# Before an edit


def report_edit(
    client: str, given: dict[str, Any], told: dict[str, Any], url: str, token: str, until: float, is_here: bool
) -> None:
    """Tell which files an edit changes. If the answer is not to go on, the client stops the edit and shows the text."""
    from zlib import crc32

    from palaver.text.edited_files import changed_lines, edited_files

    folder, arguments = str(told.get("folder") or told["project"]), given.get("tool_input")
    found = edited_files(str(given.get("tool_name")), arguments if isinstance(arguments, dict) else {})
    files: list[dict[str, Any]] = [
        {"path": path, "lines": changed_lines(os.path.join(folder, path), old)} for path, old in found[:MOST_FILES]
    ]
    if not is_here:
        files = places(folder, files)
    if not files:
        return
    told["edit"] = str(crc32(json.dumps([given.get("tool_name"), arguments], sort_keys=True).encode()))
    said = ask(url, sender(url, token), EDIT, told | {"files": files} | machine(is_here), until)
    decision, text = said.get("decision"), str(said.get("text"))
    if decision not in ("stop", "refuse"):
        return
    made: dict[str, Any] = {"text": text}  # for our plugin in opencode
    if client == "gemini-cli":
        made = {"decision": "deny", "reason": text}
    elif client != "opencode":
        refusal = {"permissionDecision": "deny", "permissionDecisionReason": text}
        made = {"hookSpecificOutput": {"hookEventName": "PreToolUse"} | refusal}
    sys.stdout.write(json.dumps(made) + "\n")
    sys.stdout.flush()


def machine(is_here: bool) -> dict[str, Any]:
    return {} if is_here else {"machine": socket.gethostname()}


def places(folder: str, files: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The files with all that a server on another machine cannot see. Those of private projects are left out."""
    from pathlib import Path

    from palaver.model.file_places import place_of
    from palaver.model.privacy import PrivacyRules
    from palaver.model.project_file import read_project_file

    rules, found = PrivacyRules(Path(home())), []
    for file in [] if rules.why(folder) else files:
        place = place_of(file["path"], folder)
        if place and not rules.why(str(place.file.parent)):
            about = {name: getattr(place, name) for name in ("project", "worktree", "branch", "path", "ignores_case")}
            about["is_committed"] = child_process.is_committed(place.worktree, place.path)
            about["claims"] = read_project_file(place.worktree).claims
            found.append(file | about)
    return found


# After a failure


def report_failure(
    client: str, given: dict[str, Any], told: dict[str, Any], url: str, token: str, until: float
) -> None:
    """Say what ended the error of a tool in an earlier session. Each fix is told once in a context."""
    error = error_of(client, given)
    if not error or not has_recall(str(told.get("folder") or told["project"])):
        return
    with ShownFile(f"{FAILURE}-{client}-{told['session']}", until) as shown:
        said = ask(url, sender(url, token), FAILURE, told | {"error": error}, until)
        text, fix = said.get("text"), str(said.get("fix_id"))
        if not text or fix in shown.ids:
            return
        made: dict[str, Any] = {"text": text}  # for our plugin in opencode
        if client != "opencode":
            name = given.get("hook_event_name")
            made = {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}
        sys.stdout.write(json.dumps(made) + "\n")
        sys.stdout.flush()
        shown.put(*shown.ids[-MOST_FIXES:], fix)


def error_of(client: str, given: dict[str, Any]) -> str:
    """The output of a tool that failed, without its middle if it is long; "" if it did not fail. Codex tells no exit
    code, but only an error that ended another session is known to the server."""
    response = given.get("tool_response")
    about = response if isinstance(response, dict) else {}
    text = given.get("error") or "\n".join(texts_in(response))
    ends = f"{text[:MOST_ERROR]}\n{text[-MOST_ERROR:]}" if len(text) > 2 * MOST_ERROR else str(text)
    has_failed = given.get("error") or about.get("error") or about.get("exit_code") or client == "codex"
    has_failed = has_failed or FAILED.search(ends)
    return ends.replace("\0", "") if has_failed and not given.get("is_interrupt") else ""


def texts_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [text for one in inner for text in texts_in(one)]


class ShownFile:
    """The file of a session with the id of the text that was written last. One hook of a session uses it at a time.

    The next event tells the server this id, in case it did not hear the confirmation."""

    def __init__(self, name: str, until: float) -> None:
        safe = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in name)
        self.path = os.path.join(home(), SHOWN_FOLDER, safe[:120])
        self.until = until
        self.ids: list[str] = []
        self.file = -1

    def __enter__(self) -> ShownFile:
        import fcntl
        from time import sleep

        try:
            for folder in (home(), os.path.dirname(self.path)):
                os.makedirs(folder, 0o700, exist_ok=True)
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return self  # without the file a text may be shown twice, but it is shown
        while True:
            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if monotonic() > self.until:
                    raise HookProblem("another hook of this session is still at work") from None
                sleep(0.005)
        self.ids = os.pread(self.file, 1000, 0).decode("ascii", "replace").split()
        return self

    def put(self, *deliveries: str) -> None:
        self.ids = [delivery for delivery in deliveries if delivery]
        if self.file >= 0:
            os.ftruncate(self.file, 0)
            os.pwrite(self.file, " ".join(self.ids).encode(), 0)

    def __exit__(self, *_: object) -> None:
        if self.file >= 0:
            os.close(self.file)


def remove_old_files(folder: str) -> None:
    """Remove the files of sessions that did not tell their end."""
    from time import time

    for entry in os.scandir(folder):
        if entry.stat().st_mtime < time() - SHOWN_KEPT:
            os.unlink(entry.path)


def read_input(until: float) -> dict[str, Any]:
    """The JSON on standard input. A client may leave its end open, so reading stops when the JSON is whole."""
    data = b""
    while len(data) < MOST_INPUT and select.select([0], [], [], max(0.0, until - monotonic()))[0]:
        part = os.read(0, 1 << 20)
        data += part
        if not part:
            break
        if data.rstrip().endswith(b"}") and (found := parsed(data)) is not None:
            return found
    found = parsed(data) if data.strip() else {}
    if found is None:
        raise HookProblem("the input is not a JSON object")
    return found


def parsed(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def in_format_of(client: str, event: str, text: str, given: dict[str, Any]) -> dict[str, Any]:
    """The answer as the client expects it."""
    if client == "opencode":
        return {"text": text}  # for our plugin (setup/clients/opencode_plugin.js)
    if client == "cursor":
        # Its prompt hook has no way to add text: nothing is written, so nothing counts as shown.
        names = {"session-start": "additional_context", "stop": "followup_message"}
        return {names[event]: text} if event in names else {}
    if event == "stop":
        return {"decision": "deny" if client == "gemini-cli" else "block", "reason": text}
    usual = {"session-start": "SessionStart", "prompt": "BeforeAgent" if client == "gemini-cli" else "UserPromptSubmit"}
    name = given.get("hook_event_name") or usual[event]
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": text}}


# The server


def home() -> str:
    if given := os.environ.get("PALAVER_HOME"):
        return os.path.expanduser(given)
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Application Support/palaver")
    return os.path.join(os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share"), "palaver")


def server() -> tuple[str, str, bool]:
    """The URL of the server, the token for it, and whether it is on this machine. An address that somebody gave may
    lead to another machine, also one on the loopback: a tunnel."""
    if url := os.environ.get("PALAVER_URL"):
        return url.rstrip("/"), os.environ.get("PALAVER_TOKEN", ""), False
    token = os.environ.get("PALAVER_TOKEN", "")
    if (known := read_file(CONNECTION_FILE)) and known.get("url"):
        return str(known["url"]).rstrip("/"), token or str(known.get("token") or ""), False
    if (running := read_file("server.json")) and running.get("port"):
        host = str(running.get("host") or "127.0.0.1")
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
        return f"http://{f'[{host}]' if ':' in host else host}:{running['port']}", token, True
    return DEFAULT_URL, token, True


def read_file(name: str) -> dict[str, Any] | None:
    try:
        with open(os.path.join(home(), name), "rb") as file:
            return parsed(file.read(65_536))
    except OSError:
        return None


def project(folder: str) -> str:
    """The project of a folder that the server cannot look at."""
    from palaver.model.projects import project_of

    return project_of(folder)


def has_recall(folder: str) -> bool:
    """Whether the project allows evidence in its prompts. A server on this machine looks for itself."""
    from pathlib import Path

    from palaver.model.privacy import PrivacyRules
    from palaver.model.project_file import read_project_file

    return read_project_file(folder).has_recall and not PrivacyRules(Path(home())).why(folder)


def ask(url: str, send: Send, event: str, told: dict[str, Any], until: float) -> dict[str, Any]:
    try:
        status, data = send(f"/api/hooks/{event}", json.dumps(told).encode(), until)
    except OSError as problem:
        raise HookProblem(f"No palaver server answers at {url}: {problem}.") from None
    found = parsed(data)
    if status == 200 and found is not None:
        return found
    if status in (401, 403):
        raise HookProblem(f"{url} refused the token. Run 'palaver setup --url URL --token TOKEN'.")
    raise HookProblem(f"{url} answered with status {status}.")


def sender(url: str, token: str) -> Send:
    """A function that sends a POST request: path, body and time limit, to status and content."""
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    return secure_sender(url, headers) if url.startswith("https://") else plain_sender(url, headers)


def plain_sender(url: str, headers: dict[str, str]) -> Send:
    """Each request has a plain socket. Python's HTTP client takes longer to import than the server to answer."""
    rest = url.partition("://")[2]
    address, slash, prefix = rest.partition("/")
    host, _, port = address.rpartition(":") if ":" in address.rpartition("]")[2] else (address, "", "80")

    def send(path: str, body: bytes, until: float) -> tuple[int, bytes]:
        place = (host.strip("[]"), int(port))
        with socket.create_connection(place, timeout=min(CONNECT_SECONDS, remaining(until))) as connection:
            lines = [f"POST {slash}{prefix}{path} HTTP/1.1", f"Host: {address}", f"Content-Length: {len(body)}"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            connection.settimeout(remaining(until))
            notice_loss(connection)
            connection.sendall("\r\n".join([*lines, "Connection: close", "", ""]).encode() + body)
            data = b""
            while len(data) < MOST_ANSWER:
                connection.settimeout(remaining(until))
                part = connection.recv(65_536)
                data += part
                if not part:
                    break
        head, _, content = data.partition(b"\r\n\r\n")
        words = head.split(None, 2)
        if len(words) < 2 or not words[1].isdigit():
            raise HookProblem(f"{url} is not a palaver server.")
        return int(words[1]), content

    return send


def secure_sender(url: str, headers: dict[str, str]) -> Send:
    """All requests have one connection, as its handshake takes long."""
    from http.client import HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    connection = HTTPSConnection(parts.netloc, timeout=CONNECT_SECONDS)

    def send(path: str, body: bytes, until: float) -> tuple[int, bytes]:
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(remaining(until))
        notice_loss(connection.sock)
        try:
            connection.request("POST", parts.path + path, body, headers)
            response = connection.getresponse()
            return response.status, response.read(MOST_ANSWER)
        except HTTPException as problem:
            raise OSError(str(problem)) from None

    return send


def notice_loss(connection: socket.socket) -> None:
    """Let the system notice that the other machine is gone, also while no request is sent."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    after = getattr(socket, "TCP_KEEPIDLE", None) or getattr(socket, "TCP_KEEPALIVE", None)
    if after:
        connection.setsockopt(socket.IPPROTO_TCP, after, SILENT_SECONDS)


def remaining(until: float) -> float:
    return max(0.001, until - monotonic())


# The client


def client_process() -> int:
    """The process id of the client: the first parent that is not a shell; 0 if it cannot be found."""
    pid = os.getppid()
    for _ in range(4):
        try:
            with open(f"/proc/{pid}/stat") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
        except OSError:
            return 0
        if name not in SHELLS:
            return pid
        pid = int(rest.split()[1])
    return 0


def record(transcript: str, url: str, token: str) -> None:
    """Record the session now, in a process that outlives this one. Without a URL the server is on this machine."""
    transcript = os.path.abspath(transcript)
    if not os.path.isfile(transcript):
        return
    env = child_process.own_environment()
    os.chdir("/")  # the child must not work in the project
    if url:
        env |= {"PALAVER_URL": url} | ({"PALAVER_TOKEN": token} if token else {})
    quiet = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ]
    command = child_process.python("-m", "palaver", "watch", "--once", transcript)
    try:
        os.posix_spawn(sys.executable, command, env, file_actions=quiet, setsid=True)
    except NotImplementedError:
        os.posix_spawn(sys.executable, command, env, file_actions=quiet, setpgroup=0)


def note_problem(event: str, client: str, problem: Exception) -> None:
    """Store the last problem, for `palaver doctor`."""
    from time import time

    said = str(problem) if isinstance(problem, HookProblem) else f"{type(problem).__name__}: {problem}"
    note = {"at": int(time()), "event": event, "client": client, "problem": said[:500]}
    try:
        path = os.path.join(home(), PROBLEM_FILE)
        with open(f"{path}.{os.getpid()}", "w", encoding="utf-8") as file:
            json.dump(note, file)
        os.replace(f"{path}.{os.getpid()}", path)
    except OSError:
        pass
