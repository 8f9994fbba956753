"""The files for running it elsewhere say what is true here."""

from __future__ import annotations

import configparser
import dataclasses
import re
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from tests.faults.press import tell

from palaver.doors.cli import main
from palaver.settings import Settings

ROOT = Path(__file__).parents[2]
KNOBS = {f"PALAVER_{knob.name.upper()}" for knob in dataclasses.fields(Settings)}


def test_every_setting_named_in_them_is_one():
    for name in ("deploy/palaver.service", "deploy/compose.yaml", "Dockerfile", "docs/guides/several-servers.md"):
        named = set(re.findall(r"\bPALAVER_[A-Z_]+\b", (ROOT / name).read_text("utf-8"))) - {"PALAVER_NAME"}
        assert named <= KNOBS, name


def test_the_commands_they_call_exist():
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text("utf-8"))
    assert set(compose["services"]) == {"postgres", "palaver"}
    assert compose["services"]["palaver"]["build"] == ".."
    docker = (ROOT / "Dockerfile").read_text("utf-8")
    assert 'CMD ["serve"]' in docker
    assert {"serve", "user add"} <= set(main.ADMIN_COMMANDS)
    for copied in re.findall(r"^COPY (?!--from)(.+) \S+$", docker, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split()), copied


def test_the_unit_keeps_everybody_else_out():
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string((ROOT / "deploy" / "palaver.service").read_text("utf-8"))
    service = unit["Service"]
    assert service["ExecStart"].endswith("palaver serve")
    assert (service["UMask"], service["StateDirectoryMode"]) == ("0077", "0700")
    assert service["ProtectSystem"] == "strict"


def test_running_it_needs_few_packages():
    pinned = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    needed = [Requirement(line) for line in re.findall(r"^([\w.-]+==[^\\\n]+)", pinned, re.MULTILINE)]
    here = [one for one in needed if one.marker is None or one.marker.evaluate()]
    tell(f"{len(here)} packages are installed to run it")
    assert 20 < len(here) <= 50
