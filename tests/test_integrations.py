"""The packages in `integrations/`, `server.json` and the install links match the code."""

import base64
import json
import re
import runpy
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from palaver import __version__

ROOT = Path(__file__).resolve().parents[1]
ADDRESS = "http://127.0.0.1:39765/mcp?tools=core"
PAGES = ("README.md", "docs/guides/clients.md")


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return dict(runpy.run_path(str(ROOT / "tools" / "integrations.py"))["pages"]())


def test_every_file_is_up_to_date_and_none_is_left_over(made):
    folders = [path for path in (ROOT / "integrations").rglob("*") if path.is_file()]
    written = {path.relative_to(ROOT).as_posix(): path.read_text("utf-8") for path in folders}
    written |= {path: (ROOT / path).read_text("utf-8") for path in (".claude-plugin/marketplace.json", "server.json")}
    assert written == made, "run `make reference`"


def test_the_registry_can_see_that_the_package_is_ours():
    about: dict[str, Any] = json.loads((ROOT / "server.json").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert f"mcp-name: {about['name']}" in (ROOT / "README.md").read_text("utf-8")
    assert {package["identifier"] for package in about["packages"]} == {project["name"]} == {"palaver-bus"}
    assert {package["version"] for package in about["packages"]} == {about["version"]} == {__version__}
    assert [package["transport"]["type"] for package in about["packages"]] == ["stdio", "streamable-http"]
    assert about["repository"]["url"] == project["urls"]["Homepage"]
    assert set(project["scripts"]) >= {"palaver", "palaver-bus"}


@pytest.mark.parametrize("page", PAGES)
def test_the_install_links_have_the_right_entry(page: str):
    text = (ROOT / page).read_text("utf-8")
    cursor = re.findall(
        r"(?:cursor://anysphere\.cursor-deeplink/mcp/install|https://cursor\.com/\S*install-mcp)\?[^\s)`]+", text
    )
    code = re.findall(r"https://insiders\.vscode\.dev/redirect/mcp/install\?[^\s)`]+", text)
    direct = re.findall(r"vscode:mcp/install\?([^\s)`]+)", text)
    assert cursor
    assert code
    for link in cursor:
        query = parse_qs(urlsplit(link).query)
        assert query["name"] == ["palaver"]
        assert json.loads(base64.b64decode(query["config"][0])) == {"url": ADDRESS}
    for link in code:
        query = parse_qs(urlsplit(link).query)
        assert (query["name"], json.loads(query["config"][0])) == (["palaver"], {"type": "http", "url": ADDRESS})
    for link in direct:
        assert json.loads(unquote(link)) == {"name": "palaver", "type": "http", "url": ADDRESS}
