"""Makes docs/pictures/demo.svg, the recording in the README: `python tools/record_demo.py`.

Real commands run in a real terminal: Claude Code with a scripted model on the loopback, and palaver. Their output, with
its bold parts, becomes an animated SVG. Waiting times are shortened; nothing else is changed.
"""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
from dataclasses import dataclass
from fcntl import ioctl
from functools import partial
from html import escape
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.clients import model as scripted  # noqa: E402
from tests.clients.install import install, path_of  # noqa: E402
from tests.clients.programs import PROGRAMS, Start  # noqa: E402
from tests.clients.run import start_palaver  # noqa: E402
from tests.helpers import eventually  # noqa: E402

PICTURE = ROOT / "docs" / "pictures" / "demo.svg"
COLUMNS, ROWS = 100, 24
ANSWER = (
    "close() wrote the footer before the last buffer was flushed.\n"
    "I decided to flush first in exporter/csv.py, and added a test with 1,001 rows."
)
STORY = (
    "palaver setup claude-code --yes --keep-history | tail -n 1",
    'claude -p "Why does the CSV export lose its last row?"',
    "rm -r ~/.claude/projects      # Claude Code does this after 30 days",
    "palaver search why did the csv export lose a row --limit 1",
)
TYPING, THINKING, READING = 0.035, 0.7, 2.2
"""Seconds for a typed character, until an answer appears, and to read it."""

WIDTH, LINE, LEFT, TOP, LETTER = 840, 20, 16, 52, 7.83
STYLE = """
text { font: 13px ui-monospace, 'SF Mono', Menlo, Consolas, monospace; fill: #d4d8de; white-space: pre; }
.bold { font-weight: 700; fill: #ffffff; } .prompt { fill: #7fd18b; } .title { fill: #8a919c; }
"""


@dataclass(frozen=True)
class Shown:
    """A line of the recording, and when it appears."""

    text: str
    at: float
    typed: float = 0.0
    """How long it takes to type it; 0 for output."""


def run_in_terminal(command: str, env: dict[str, str], folder: Path) -> list[str]:
    """The lines that a command writes to a terminal of this width, with its codes for bold."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        ["bash", "-c", command], env=env, cwd=folder, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    written = b""
    try:
        while part := os.read(ours, 65_536):
            written += part
    except OSError:  # the other end was closed
        pass
    if process.wait() != 0:
        raise SystemExit(f"{command}: {written.decode()}")
    text = re.sub(r"\x1b(?!\[[01]?m)(?:\[[0-9;?<>=]*[a-zA-Z]|\].*?(?:\x07|\x1b\\)|[78=>])", "", written.decode())
    return [line.rstrip("\r") for line in text.rstrip().split("\n")]


def play() -> list[tuple[str, list[str]]]:
    """Run the story. Returns each command with the lines it wrote."""
    program = next(one for one in PROGRAMS if one.name == "claude")
    place = install(program)
    scripted.CLOSING = ANSWER
    with tempfile.TemporaryDirectory() as there, start_palaver(Path(there, "palaver")) as palaver:
        home, work = Path(there, "home"), Path(there, "home", "exporter")
        work.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], cwd=work, check=True)
        with scripted.start_model(_no_calls()) as model:
            start = Start(home, place, f"http://127.0.0.1:{palaver.port}/mcp?tools=core", model.base_url)
            bins = f"{Path(sys.executable).parent}:{path_of(program, place)}"
            env = {
                "PATH": f"{bins}:{os.environ['PATH']}", "HOME": str(home), "TERM": "xterm", "LANG": "C.UTF-8",
                "PALAVER_HOME": str(palaver.home), "PALAVER_HOOK_SECONDS": "30", "DO_NOT_TRACK": "1",
                "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1,localhost",
            }  # fmt: skip
            env |= program.environment(start)
            told = []
            for command in STORY:
                told.append((command, run_in_terminal(command, env, work)))
                if command.startswith("claude"):
                    with palaver.rest() as api:
                        eventually(partial(_is_recorded, api), 60)
            return told


def _is_recorded(api: httpx.Client) -> bool:
    found = api.get("/api/knowledge/search", params={"q": "flushed", "sources": "sessions"})
    return bool(found.json()["results"])


def _no_calls() -> scripted.Script:
    """A model that calls no tool and answers at once."""
    return
    yield


def timed(told: list[tuple[str, list[str]]]) -> tuple[list[Shown], float]:
    shown, at = [], 0.5
    for command, lines in told:
        typed = len(command) * TYPING
        shown.append(Shown(command, at, typed))
        at += typed + THINKING
        wrapped = [part for line in lines if line for part in _wrapped(line)]
        shown += [Shown(line, at) for line in wrapped]
        at += (READING if wrapped else 0.0) + 0.3
    return shown, at + 3.0


def _wrapped(line: str) -> list[str]:
    """A line in pieces of the terminal's width. Codes for bold take no room."""
    if len(re.sub(r"\x1b\[\d?m", "", line)) <= COLUMNS:
        return [line]
    plain = re.sub(r"\x1b\[\d?m", "", line)
    return [plain[n : n + COLUMNS] for n in range(0, len(plain), COLUMNS)]


def picture(shown: list[Shown], seconds: float) -> str:
    repeat = f"{seconds:.1f}s linear infinite"
    height = TOP + LINE * len(shown) + 16
    parts, styles = [], [STYLE]
    for number, line in enumerate(shown):
        y = TOP + LINE * number
        begin, end = 100 * line.at / seconds, 100 * (line.at + line.typed) / seconds
        if line.typed:
            width = LETTER * (len(line.text) + 2)
            steps = f"{{ from, {begin:.2f}% {{ width: 0 }} {end:.2f}%, to {{ width: {width:.0f}px }} }}"
            styles.append(f"@keyframes k{number} {steps} #c{number} rect {{ animation: k{number} {repeat} }}")
            parts.append(
                f'<clipPath id="c{number}"><rect x="{LEFT}" y="{y - 15}" width="{width:.0f}" height="20"/></clipPath>'
            )
            inner = f'<tspan class="prompt">$ </tspan>{escape(line.text)}'
            parts.append(f'<text x="{LEFT}" y="{y}" clip-path="url(#c{number})">{inner}</text>')
        else:
            steps = f"{{ from, {begin:.2f}% {{ opacity: 0 }} {begin + 0.01:.2f}%, to {{ opacity: 1 }} }}"
            styles.append(f"@keyframes k{number} {steps} #l{number} {{ animation: k{number} {repeat} }}")
            parts.append(f'<text id="l{number}" x="{LEFT}" y="{y}">{_bold(line.text)}</text>')
    dots = "".join(
        f'<circle cx="{20 + 18 * n}" cy="16" r="5.5" fill="{colour}"/>'
        for n, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        f'role="img" aria-label="Claude Code works, its files are deleted, and palaver still finds the decision">'
        f"<style>{''.join(styles)}</style>"
        f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#1b1f27"/>{dots}{"".join(parts)}</svg>\n'
    )


def _bold(line: str) -> str:
    """The codes for bold text as elements."""
    parts = re.split(r"\x1b\[(1|0)?m", line)
    found, is_bold = [escape(parts[0])], False
    for code, text in zip(parts[1::2], parts[2::2], strict=True):
        is_bold = code == "1"
        found.append(f'<tspan class="bold">{escape(text)}</tspan>' if is_bold else escape(text))
    return "".join(found)


if __name__ == "__main__":
    PICTURE.write_text(picture(*timed(play())), "utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")
