"""Install clients from npm and PyPI into .cache/clients, each version in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.clients.programs import ROOT, Program

CACHE = ROOT / ".cache" / "clients"
TRIES = 3


class NotInstalled(Exception):
    """A client could not be installed, usually because the registry cannot be reached."""


def newest(program: Program) -> str:
    """The newest version that the registry has."""
    if program.is_python:
        listed = _run(
            [sys.executable, "-m", "pip", "index", "versions", "--disable-pip-version-check", program.package]
        )
        versions = re.findall(r"[\w.]+", listed.partition("Available versions:")[2].partition("\n")[0])
        return next(version for version in versions if not program.major or version.startswith(f"{program.major}."))
    wanted = f"{program.package}@{program.major or 'latest'}"
    found = json.loads(_run(["npm", "view", wanted, "version", "--json", "--loglevel", "error"]))
    return str(found[-1] if isinstance(found, list) else found)


def install_newest(program: Program) -> tuple[str, Path]:
    """The newest version and its folder. Where the registry cannot be reached, the version of `make test`."""
    try:
        version = newest(program)
    except NotInstalled:
        return program.version, install(program)
    return version, install(program, version)


def installed(program: Program, version: str = "") -> Path | None:
    """The folder with this version, if it is there."""
    folder = CACHE / f"{program.name}-{version or program.version}"
    return folder if (folder / ".have").exists() else None


def to_test(program: Program) -> Path | None:
    """The folder with the client that tests run: the newest one in `make clients`, else the version of `make test`."""
    if os.environ.get("PALAVER_CLIENTS") != "newest":
        return installed(program)
    found = [folder for folder in CACHE.glob(f"{program.name}-[0-9]*") if (folder / ".have").exists()]
    return max(found, key=lambda folder: [int(part) for part in re.findall(r"\d+", folder.name)], default=None)


def install(program: Program, version: str = "") -> Path:
    """The folder with this version, installed unless it is there already. Older versions are removed."""
    version = version or program.version
    if have := installed(program, version):
        return have
    folder = CACHE / f"{program.name}-{version}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    if program.is_python:
        _run([sys.executable, "-m", "venv", str(folder)])
        pip = [
            str(folder / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-qq",
            "--retries",
            "0",
            "--disable-pip-version-check",
        ]
        _run([*pip, f"{program.package}=={version}", *program.also])
    else:
        if not shutil.which("npm"):
            raise NotInstalled("npm is needed to fetch clients: install Node with npm first")
        (folder / "package.json").write_text('{"private": true}', "utf-8")
        npm = ["npm", "install", "--prefix", str(folder), "--no-fund", "--no-audit", "--no-package-lock"]
        _run([*npm, "--loglevel", "error", "--fetch-retries", "0", f"{program.package}@{version}", *program.also])
    (folder / ".have").touch()
    for other in CACHE.glob(f"{program.name}-[0-9]*"):
        if other.name not in (f"{program.name}-{version}", f"{program.name}-{program.version}"):
            shutil.rmtree(other, ignore_errors=True)
    return folder


def path_of(program: Program, folder: Path) -> str:
    """Folders with the client's commands, for PATH."""
    return f"{folder / 'node_modules' / '.bin'}:{folder / 'node_modules' / program.package / 'bin'}:{folder / 'bin'}"


def _run(command: list[str]) -> str:
    """The output of a command that talks to a registry. It is tried again, as registries sometimes fail."""
    said = ""
    for left in reversed(range(TRIES)):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
            if done.returncode == 0:
                return done.stdout
            said = done.stderr or done.stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            said = str(error)
        if left:
            time.sleep(2)
    lines = [line for line in said.strip().splitlines() if "error" in line.lower()] or [said]
    raise NotInstalled(f"{Path(command[0]).name} {' '.join(command[1:3])} …: {lines[0][:200]}")
