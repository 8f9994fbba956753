#!/usr/bin/env python3
"""A stand-in for `systemctl --user`, which starts the ExecStart of a unit. Its state is in $FAKE_SYSTEMD."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

state = Path(os.environ["FAKE_SYSTEMD"])
units = Path(os.environ.get("XDG_CONFIG_HOME") or Path(os.environ["HOME"], ".config"), "systemd", "user")
unit = units / "palaver.service"
link = units / "default.target.wants" / "palaver.service"
pid_file = state / "pid"


def parts(text: str) -> list[str]:
    found = re.findall(r'"((?:[^"\\]|\\.)*)"', text)
    return [re.sub(r"\\(.)", r"\1", one.replace("%%", "%")) for one in found]


def pid() -> int:
    try:
        running = int(pid_file.read_text())
        os.kill(running, 0)
        return 0 if Path(f"/proc/{running}/stat").read_text().rpartition(")")[2].split()[0] == "Z" else running
    except (OSError, ValueError):
        return 0


def stop() -> None:
    if running := pid():
        os.kill(running, signal.SIGTERM)
        while pid():
            pass
    pid_file.unlink(missing_ok=True)


def start() -> None:
    kept = ("PATH", "HOME", "PYTHONPATH", "FAKE_SYSTEMD")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    command: list[str] = []
    for line in unit.read_text("utf-8").splitlines():
        if line.startswith("Environment="):
            name, _, value = parts(line)[0].partition("=")
            env[name] = value
        elif line.startswith("ExecStart="):
            command = [one.replace("$$", "$") for one in parts(line)]
    with (state / "log").open("ab") as log:
        process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    pid_file.write_text(str(process.pid))


with (state / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\n")
match sys.argv[1:]:
    case ["--user", "show", "--property=Version"]:
        if (state / "away").exists():
            sys.exit("Failed to connect to bus: No medium found")
        print("Version=252")
    case ["--user", "is-active", *_]:
        sys.exit(0 if pid() else 3)
    case ["--user", "enable", _]:
        link.parent.mkdir(exist_ok=True)
        link.unlink(missing_ok=True)
        link.symlink_to(unit)
    case ["--user", "restart", _]:
        stop()
        start()
    case ["--user", "disable", "--now", _]:
        stop()
        link.unlink(missing_ok=True)
