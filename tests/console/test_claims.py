"""The files that agents hold, on the page of agents."""

from __future__ import annotations

import httpx
from playwright.sync_api import ViewportSize, expect
from tests.console.conftest import Opening, both_sizes, both_themes
from tests.helpers import word


@both_themes
@both_sizes
def test_a_person_sees_who_holds_files_and_ends_the_claim(
    window: Opening, rest: httpx.Client, viewport: ViewportSize, scheme: str
):
    name, project = word("Painter"), word("project-")
    agent = rest.post("/api/connect", json={"thread_name": word(), "display_name": name, "project": project}).json()
    who = {name: agent["agent"][name] for name in ("agent_id", "token")}
    page = window("#/agents", viewport=viewport, color_scheme=scheme)
    pattern = f"src/{word()}/**"
    claim = {"patterns": [pattern], "project": project, "because": "the export", **who}
    rest.post("/api/claims", json=claim).raise_for_status()
    line = page.locator(".claims li", has_text=pattern)
    expect(line).to_contain_text(f"held by {name} until")
    expect(line).to_contain_text("the export")
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    line.get_by_role("button", name="End claim").click()
    expect(page.locator("dialog")).to_contain_text(f"{name} holds {pattern}")
    page.locator("dialog").get_by_role("button", name="End claim").click()
    expect(line).to_have_count(0)
    assert rest.get("/api/claims", params={"project": project}).json()["claims"] == []
