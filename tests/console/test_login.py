"""Logging in and out, sessions, and the permissions of tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect
from tests.console.conftest import Opening
from tests.helpers import Server, Thread, start_server, started, word


@dataclass(frozen=True)
class Closed:
    server: Server
    boss: httpx.Client
    """A client of an admin of the default workspace."""
    elsewhere: str
    """The token of an admin of another workspace."""

    def token(self, name: str, *, kind: str = "human", scopes: Sequence[str] = ("read", "write"), **more: str) -> str:
        made = self.boss.post("/api/tokens", json={"kind": kind, "name": name, "scopes": list(scopes), **more})
        assert made.status_code == 201, made.text
        return str(made.json()["secret"])


ELSEWHERE = "team"


def made_at_the_data(home: Path, *command: str) -> str:
    done = started(home, *command)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    home = tmp_path_factory.mktemp("closed")
    secret = made_at_the_data(home, "token", "create", "--human", "boss", "--scope", "read,write,admin")
    made_at_the_data(home, "workspace", "create", ELSEWHERE)
    far = made_at_the_data(home, "user", "add", "gus", "--workspace", ELSEWHERE, "--scope", "read,write,admin")
    with start_server(home, PALAVER_AUTH="token") as server, server.client() as boss:
        boss.headers["authorization"] = f"Bearer {secret}"
        yield Closed(server, boss, far)


def log_in(page: Page, secret: str) -> None:
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Log in").click()


def test_a_person_logs_in_talks_and_logs_out(window: Opening, closed: Closed):
    page = window("#/threads", at=closed.server)
    log_in(page, "plv_nonsense")
    expect(page.locator(".problem")).to_contain_text("not valid")
    log_in(page, closed.token("anna"))
    page.get_by_label("New thread").click()
    topic = word("topic ")
    page.get_by_label("Topic").fill(topic)
    page.get_by_role("button", name="Create").click()
    page.get_by_label("Message", exact=True).fill("from anna")
    page.get_by_label("Message", exact=True).press("Enter")
    expect(page.locator(".message .author")).to_have_text("anna")
    page.locator(".message:not(.pending)").hover()
    page.get_by_label("React", exact=True).click()
    page.get_by_role("button", name="important").click()
    expect(page.locator(".pill")).to_have_attribute("title", "you")
    page.locator(".pill").click()
    expect(page.locator(".pill")).to_have_count(0)
    page.reload()
    expect(page.locator(".message .author")).to_have_text("anna")

    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert page.evaluate("document.cookie") == ""
    page.get_by_label("Account: anna").click()
    page.get_by_role("menuitem", name="Log out", exact=True).click()
    expect(page.get_by_label("Token")).to_be_visible()
    assert page.context.cookies() == []
    with closed.server.client(cookies={cookie["name"]: cookie["value"]}) as thief:
        assert thief.get("/api/threads").status_code == 401


def test_logging_out_everywhere_ends_every_login_of_the_token(window: Opening, closed: Closed):
    secret = closed.token("ben")
    one, other = window("#/threads", at=closed.server), window("#/threads", at=closed.server)
    for page in (one, other):
        log_in(page, secret)
        expect(page.get_by_label("New thread")).to_be_visible()
    one.get_by_label("Account: ben").click()
    one.get_by_role("menuitem", name="Log out everywhere").click()
    expect(one.get_by_label("Token")).to_be_visible()
    other.reload()
    expect(other.get_by_label("Token")).to_be_visible()


def test_logging_out_ends_the_other_windows_and_the_next_user_gets_only_their_own_events(
    window: Opening, closed: Closed
):
    elsewhere = closed.elsewhere
    one = window("#/threads", at=closed.server)
    log_in(one, closed.token("kai"))
    expect(one.get_by_label("New thread")).to_be_visible()
    other = window("#/threads", at=closed.server, context=one.context)
    expect(other.get_by_label("Account: kai")).to_be_visible()
    one.get_by_label("Account: kai").click()
    one.get_by_role("menuitem", name="Log out", exact=True).click()
    expect(other.get_by_label("Token")).to_be_visible()
    log_in(other, elsewhere)
    expect(other.get_by_text("No threads yet")).to_be_visible()
    closed.boss.post("/api/threads", json={"topic": "theirs"})
    with closed.server.client() as own:
        own.headers["authorization"] = f"Bearer {elsewhere}"
        own.post("/api/threads", json={"topic": "ours"})
    expect(other.locator(".threads .topic")).to_have_text(["ours"])


def test_the_next_user_of_a_browser_sees_nothing_of_the_previous_one(window: Opening, closed: Closed):
    thread = Thread(closed.boss)
    thread.post("for both", author=None)
    first, second = closed.token("lea"), closed.token("max")
    page = window(f"#/threads/{thread.id}", at=closed.server)
    log_in(page, first)
    expect(page.locator(".message")).to_have_count(1)
    page.get_by_label("Message", exact=True).fill("what lea has not sent")
    thread.post("news", author=None)
    expect(page.locator(".message")).to_have_count(2)
    page.reload()
    expect(page.get_by_label("Message", exact=True)).to_have_value("what lea has not sent")
    page.get_by_label("Account: lea").click()
    page.get_by_role("menuitem", name="Log out", exact=True).click()
    log_in(page, second)
    expect(page.locator(".message")).to_have_count(2)
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    page.get_by_label("Account: max").click()
    page.get_by_role("menuitem", name="Log out", exact=True).click()
    log_in(page, first)
    expect(page.get_by_label("Message", exact=True)).to_have_value("what lea has not sent")


def test_after_a_revoked_token_the_next_user_gets_a_fresh_window(window: Opening, closed: Closed):
    closed.boss.post("/api/threads", json={"topic": word("theirs ")})
    ending = closed.token("nia")
    page = window("#/search?q=theirs", at=closed.server)
    log_in(page, ending)
    expect(page.locator(".hit").first).to_be_visible()
    [id] = [one["id"] for one in closed.boss.get("/api/tokens").json() if one["name"] == "nia"]
    closed.boss.delete(f"/api/tokens/{id}")
    expect(page.get_by_label("Token")).to_be_visible()
    log_in(page, closed.elsewhere)
    expect(page.get_by_text("Nothing found")).to_be_visible()


def test_the_page_contains_the_session_only_for_its_user(closed: Closed):
    with closed.server.client() as client:
        stranger = client.get("/")
        assert '"is_in":false' in unescape(stranger.text)
        assert stranger.headers["cache-control"] == "no-store"
        csrf = cookies(client, closed.token("ola"))
        assert csrf in client.get("/").text
        client.cookies.clear()
        client.headers["cookie"] = "palaver_1=nonsense"
        assert client.get("/").status_code == 200


def cookies(client: httpx.Client, secret: str) -> str:
    answer = client.post("/api/session", json={"token": secret})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["csrf"])


def test_a_login_changes_nothing_without_the_csrf_token(closed: Closed):
    with closed.server.client() as client:
        csrf = cookies(client, closed.token("cleo"))
        assert client.get("/api/threads").status_code == 200
        topic = {"topic": word()}
        assert client.post("/api/threads", json=topic).status_code == 403
        assert client.post("/api/threads", json=topic, headers={"x-palaver-csrf": "guessed"}).status_code == 403
        assert client.delete("/api/session").status_code == 403
        made = client.post("/api/threads", json=topic, headers={"x-palaver-csrf": csrf})
        assert made.status_code == 201
        foreign = {"x-palaver-csrf": csrf, "origin": "https://evil.example"}
        assert client.post("/api/threads", json=topic, headers=foreign).status_code == 403


def test_a_login_ends_with_its_token(closed: Closed):
    with closed.server.client() as client:
        cookies(client, closed.token("dora"))
        [id] = [one["id"] for one in closed.boss.get("/api/tokens").json() if one["name"] == "dora"]
        assert closed.boss.delete(f"/api/tokens/{id}").status_code == 200
        assert client.get("/api/threads").status_code == 401


def test_an_agent_s_token_and_mcp_do_not_open_the_console(closed: Closed):
    with closed.server.client() as client:
        refused = client.post("/api/session", json={"token": closed.token("rook", kind="agent")})
        assert (refused.status_code, "a token of a person" in refused.json()["detail"]) == (400, True)
        cookies(client, closed.token("emil"))
        assert client.post("/mcp", json={}).status_code == 401


def test_only_admins_manage_tokens_and_workspaces(closed: Closed):
    with closed.server.client() as client:
        client.headers["authorization"] = f"Bearer {closed.token('fay')}"
        for method, path in (("GET", "/api/tokens"), ("POST", "/api/tokens"), ("GET", "/api/workspaces")):
            assert client.request(method, path, json={} if method == "POST" else None).status_code == 403


def test_a_workspace_s_admin_reaches_no_other_workspace(closed: Closed):
    with closed.server.client() as admin:
        admin.headers["authorization"] = f"Bearer {closed.elsewhere}"
        assert {one["workspace"] for one in admin.get("/api/tokens").json()} == {ELSEWHERE}
        assert admin.get("/api/workspaces").json() == [ELSEWHERE]
        assert admin.post("/api/workspaces", json={"name": word("w")}).status_code == 405
        elsewhere = {"kind": "human", "name": "x", "workspace": "default"}
        assert admin.post("/api/tokens", json=elsewhere).status_code == 404
        others = next(one["id"] for one in closed.boss.get("/api/tokens").json() if one["workspace"] == "default")
        assert admin.delete(f"/api/tokens/{others}").status_code == 404


def test_a_reader_sees_and_cannot_write(window: Opening, closed: Closed):
    with closed.server.client() as client:
        client.headers["authorization"] = f"Bearer {closed.token('hal')}"
        thread = Thread(client)
        thread.post("read me", author=None)
    page = window(f"#/threads/{thread.id}", at=closed.server)
    log_in(page, closed.token("ida", scopes=["read"]))
    expect(page.locator(".message")).to_contain_text("read me")
    expect(page.get_by_text("You have read-only access.")).to_be_visible()
    expect(page.get_by_label("New thread")).to_have_count(0)


def test_a_reader_sees_questions_and_cannot_answer(window: Opening, closed: Closed):
    asker = {"authorization": f"Bearer {closed.token(word('robo'), kind='agent')}"}
    text = word("May I ")
    asked = {"text": text, "choices": ["yes", "no"], "wait_s": 0}
    assert httpx.post(f"{closed.server.url}/api/questions", json=asked, headers=asker).status_code == 201
    page = window("#/questions", at=closed.server)
    log_in(page, closed.token("rea", scopes=["read"]))
    card = page.locator(".question", has_text=text)
    expect(card).to_contain_text("Your token may only read.")
    expect(card.locator("button")).to_have_count(0)


def test_without_the_permission_the_pages_of_admins_say_so(window: Opening, closed: Closed):
    page = window("#/administration", at=closed.server)
    log_in(page, closed.token("uma", scopes=["read"]))
    for path in ("administration", "log"):
        page.evaluate(f"location.hash = '#/{path}'")
        expect(page.locator(".empty h2")).to_have_text("Admins only")
        expect(page.get_by_text("Something went wrong")).to_have_count(0)
        expect(page.get_by_role("button", name="New token")).to_have_count(0)


def test_only_admins_see_the_audit_log(window: Opening, closed: Closed):
    thread = Thread(closed.boss)
    closed.boss.delete(thread.path)
    page = window(
        "#/administration", at=closed.server, viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True
    )
    log_in(page, closed.token("pia", scopes=["read", "write", "admin"]))
    expect(page.locator(".keys-of tbody tr").first).to_be_visible()
    assert page.evaluate("Math.max(document.documentElement.scrollWidth, innerWidth)") == 390
    page.get_by_role("link", name="Audit log").first.click()
    expect(page.locator(".log tbody tr").first).to_contain_text("log in")
    page.get_by_role("button", name="Deletions").click()
    expect(page.locator(".log tbody tr").first).to_contain_text("delete thread")
    expect(page.locator(".log tbody tr").first).to_contain_text(thread.id)
    assert set(page.locator(".log tbody tr").evaluate_all("rows => rows.map(row => row.dataset.kind)")) == {"deletion"}
    reader = window("#/log", at=closed.server)
    log_in(reader, closed.token("quin"))
    expect(reader.get_by_text("Admins only")).to_be_visible()


def test_a_failed_login_is_in_the_audit_log_of_the_server_s_admin_only(window: Opening, closed: Closed):
    page = window("#/log", at=closed.server)
    log_in(page, "plv_nonsense")
    expect(page.locator(".problem")).to_contain_text("not valid")
    log_in(page, closed.token("una", scopes=["read", "write", "admin"]))
    page.get_by_role("button", name="Denied").click()
    row = page.locator(".log tbody tr", has_text="failed login").first
    expect(row).to_contain_text("unknown caller at 127.0.0.1")
    elsewhere = httpx.get(f"{closed.server.url}/api/audit", headers={"authorization": f"Bearer {closed.elsewhere}"})
    assert elsewhere.status_code == 200
    assert "unknown caller" not in elsewhere.text
