"""Every path, link, make target and import that the documentation names exists."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "palaver"
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
PICTURE = re.compile(r'(?:src|srcset)="([^"]+)"')
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`([^`]+)`")
PATH = re.compile(r"[\w.-]+(/[\w.-]+)+/?|[\w.-]+/|\w+\.py")
FILE = re.compile(r"\.(py|md|sql|toml|js|jsonl|yaml|service|txt|npy)$")
MAKE = re.compile(r"\bmake ([a-z][a-z-]*)")
IMPORT = re.compile(r"^from (palaver[\w.]*) import (.+)$", re.MULTILINE)

FOLDERS = {folder.name for place in (ROOT, PACKAGE) for folder in place.iterdir() if folder.is_dir()}


def spans(text: str) -> Iterator[str]:
    """Inline code, without code blocks."""
    yield from CODE.findall(FENCED.sub("", text))


def paths(text: str) -> Iterator[str]:
    """Inline code that names a file or folder of the repository, from its root or from `src/palaver`."""
    for span in spans(text):
        path = span.partition("::")[0]
        is_path = FILE.search(path) or path.endswith("/") or path.startswith(("docs/", "tests/"))
        if PATH.fullmatch(path) and is_path and ("/" not in path or path.partition("/")[0] in FOLDERS):
            yield path


def exists(path: str) -> bool:
    if "/" not in path:
        return any(next(place.rglob(path), None) for place in (PACKAGE, ROOT / "tests", ROOT / "tools"))
    return (ROOT / path).exists() or (PACKAGE / path).exists()


def anchors(page: Path) -> set[str]:
    """The addresses of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text("utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_paths_and_links_exist(page: Path):
    text = page.read_text("utf-8")
    missing = [path for path in paths(text) if not exists(path)]
    for link in [*LINK.findall(FENCED.sub("", text)), *PICTURE.findall(text)]:
        target, _, anchor = link.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target) if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            missing.append(link)
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_make_targets_and_imports_exist(page: Path):
    text = page.read_text("utf-8")
    blocks = FENCED.findall(text)
    commands = [*spans(text), *(line[2:] for _, block in blocks for line in block.splitlines() if line[:2] == "$ ")]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    missing = [name for command in commands for name in MAKE.findall(command) if name not in targets]
    for module, names in (found for _, block in blocks for found in IMPORT.findall(block)):
        missing += [name for name in names.split(", ") if not hasattr(importlib.import_module(module), name)]
    assert missing == []


def test_a_wrong_path_is_seen():
    wrong = "`store/nowhere.py` `docs/nowhere/` `tests/nowhere` `nowhere.py`, but not `text/html` or `~/notes/a.md`"
    assert [path for path in paths(wrong) if not exists(path)] == [
        "store/nowhere.py",
        "docs/nowhere/",
        "tests/nowhere",
        "nowhere.py",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_tests_exist(page: Path):
    for file, name in re.findall(r"`(tests/[\w/.]+)::(\w+)`", page.read_text("utf-8")):
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE), f"{file}::{name}"


def test_the_readme_says_how_to_run_and_test_a_clone():
    """Each command is in a table, with what it sets up and how long it takes."""
    readme = (ROOT / "README.md").read_text("utf-8")
    for command in ("make serve", "make test"):
        assert re.search(rf"^\| `{command}` \| .*install.* \| .*minute.* \|$", readme, re.MULTILINE), command


def test_every_line_of_the_threat_model_names_a_test():
    rows = re.findall(
        r"^\| (?!(?:it|they) cannot|---)(.+) \|$", (ROOT / "SECURITY.md").read_text("utf-8"), re.MULTILINE
    )
    assert rows
    assert [row for row in rows if "`tests/" not in row] == []
