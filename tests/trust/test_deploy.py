"""The files for running it elsewhere say what is true here."""

from __future__ import annotations

import configparser
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
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


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
def test_systemd_has_no_complaint_about_the_unit(tmp_path: Path):
    """`make try-deploy` runs it. Here only its text is checked, with a program that exists."""
    unit = (ROOT / "deploy" / "palaver.service").read_text("utf-8")
    (tmp_path / "palaver.service").write_text(unit.replace("/opt/palaver/bin/palaver", "/bin/true"), "utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(tmp_path / "palaver.service")],
        capture_output=True,
        text=True,
    )
    assert [line for line in done.stderr.splitlines() if "palaver.service" in line] == []


@pytest.mark.skipif(not shutil.which("hadolint"), reason="there is no hadolint")
def test_hadolint_has_no_complaint_about_the_dockerfile():
    done = subprocess.run(["hadolint", "--ignore", "DL3006", ROOT / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_both_stages_of_the_image_have_the_same_base():
    """The second one has the virtual environment of the first, so their Pythons must be the same."""
    docker = (ROOT / "Dockerfile").read_text("utf-8")
    assert re.findall(r"^FROM (\S+)", docker, re.MULTILINE) == ["${BASE}", "${BASE}"]
    assert docker.index("ARG BASE=") < docker.index("FROM ")


@pytest.mark.parametrize("name", ["debian-root", "make-wheel", "try-image", "try-systemd"])
def test_the_scripts_can_be_parsed_and_run(name: str):
    path = ROOT / "tools" / name
    assert os.access(path, os.X_OK)
    assert subprocess.run(["sh", "-n", path]).returncode == 0


@pytest.mark.thorough
def test_the_same_sources_give_the_same_wheel(tmp_path: Path):
    """Also in another folder, with other times of the files and another mask."""
    copy = tmp_path / "elsewhere"
    for name in ("src", "pyproject.toml", "README.md", "LICENSE"):
        source = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__")
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=ignored, copy_function=shutil.copy)
        else:
            shutil.copy(source, copy / name)
    first, second = built(ROOT, tmp_path / "one"), built(copy, tmp_path / "two", umask=0o077)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def built(folder: Path, into: Path, umask: int = 0o022) -> Path:
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-qq", "--no-build-isolation", "--no-deps", "--no-cache-dir", "-w", into, folder],
        env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"},
        umask=umask,
        check=True,
    )  # fmt: skip
    (wheel,) = into.glob("*.whl")
    return wheel


def test_the_list_of_what_is_shipped_has_every_package_with_its_hashes(tmp_path: Path):
    made = [sbom(tmp_path / name) for name in ("one.json", "two.json")]
    assert made[0] == made[1]
    found = json.loads(made[0])
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    lock = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    pinned = set(re.findall(r"^([\w.-]+)(?:\[.*\])?==([^ ;\\\n]+)", lock, re.MULTILINE))
    listed = [one for one in found["components"] if one.get("purl", "").startswith("pkg:pypi/")]
    assert {(one["name"], one["version"]) for one in listed} == pinned
    hashes = [one["value"] for part in listed for one in part["properties"] if one["name"] == "palaver:sha256"]
    assert sorted(hashes) == sorted(re.findall(r"sha256:([0-9a-f]{64})", lock))
    assert {one["name"] for one in found["components"]} >= {"lit-html", "marked", "minilm.onnx"}
    references = {one["bom-ref"] for one in found["components"]}
    assert set(found["dependencies"][0]["dependsOn"]) <= references


def sbom(path: Path) -> bytes:
    environ = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    subprocess.run([sys.executable, ROOT / "tools" / "sbom.py", path], check=True, capture_output=True, env=environ)
    return path.read_bytes()


def test_a_known_vulnerability_is_found_in_a_downloaded_list(tmp_path: Path):
    lock = (ROOT / "requirements" / "runtime.txt").read_text("utf-8")
    version = re.findall(r"^starlette==([\d.]+)", lock, re.MULTILINE)[0]

    def entry(**affected: object) -> dict[str, object]:
        return {
            "id": "X-1",
            "summary": "bad",
            "affected": [{"package": {"ecosystem": "PyPI", "name": "Starlette"}, **affected}],
        }

    fixed = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": version}]}
    open_ = {"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "0.2"}, {"introduced": "0.3"}]}
    for given, code in (
        (entry(versions=[version]), 1),
        (entry(ranges=[open_]), 1),
        (entry(ranges=[fixed], versions=["0.1"]), 0),
        (entry(versions=[version]) | {"withdrawn": "2024-01-01T00:00:00Z"}, 0),
    ):
        with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
            archive.writestr("X-1.json", json.dumps(given))
        done = audited("--osv", str(tmp_path / "all.zip"))
        assert (done.returncode, "starlette" in done.stdout) == (code, code == 1), done.stdout + done.stderr
    assert audited().returncode == 2
    assert "Not checked" in audited().stdout


def audited(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, ROOT / "tools" / "audit.py", *args], capture_output=True, text=True)
