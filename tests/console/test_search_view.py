"""Searching, filters, and opening a result at the match."""

from __future__ import annotations

import re

import httpx
from playwright.sync_api import Route, ViewportSize, expect
from tests.console.conftest import Opening, both_sizes
from tests.helpers import Thread, word


def test_results_come_as_one_types_and_open_at_the_match_and_back_returns(
    window: Opening, thread: Thread, rest: httpx.Client
):
    unique = word("fox")
    for number in range(80):
        thread.post(f"filler {number}")
    wanted = thread.post(f"the quick {unique} & <b>friends</b>", author="Ann")
    for number in range(80):
        thread.post(f"more filler {number}")
    page = window("#/threads")
    expect(page.locator(".threads a").first).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type(unique)
    expect(page.locator(".hit")).to_have_count(1)
    expect(page.locator(".hit mark")).to_have_text(unique)
    expect(page.locator(".hit .snippet")).to_have_text(f"the quick {unique} & <b>friends</b>")
    expect(page.get_by_text("1 result")).to_be_visible()
    page.keyboard.press("Enter")
    found = page.locator(f"#m-{wanted['id']}")
    expect(found).to_be_in_viewport()
    expect(found).to_have_class(re.compile("found"))
    assert f"#/threads/{thread.id}?message={wanted['id']}" in page.url
    page.wait_for_function("CSS.highlights.has('found')")
    assert page.evaluate("[...CSS.highlights.get('found')].map(String)") == [unique]
    page.go_back()
    expect(page.locator(".hit")).to_have_count(1)
    expect(page.get_by_label("Search everything", exact=True)).to_have_value(unique)


def test_enter_opens_the_best_result_of_a_search_that_still_runs(window: Opening, thread: Thread):
    unique = word("fox")
    posted = thread.post(f"the quick {unique}", author="Ann")
    page = window("#/search?q=quick")
    expect(page.locator(".hit").first).to_be_visible()
    held: list[Route] = []
    page.route("**/api/knowledge/search", lambda route: held.append(route))
    with page.expect_request("**/api/knowledge/search"):
        page.get_by_label("Search everything").fill(unique)
    page.keyboard.press("Enter")
    for route in held:
        route.continue_()
    page.unroute("**/api/knowledge/search")
    expect(page.locator(f"#m-{posted['id']}")).to_be_in_viewport()


def test_a_link_to_a_message_opens_the_thread_there(window: Opening, thread: Thread):
    wanted = [thread.post(f"number {number}") for number in range(150)][70]
    page = window(f"#/threads/{thread.id}?message={wanted['id']}")
    expect(page.locator(f"#m-{wanted['id']}")).to_be_in_viewport()
    page.locator(".to-end").click()
    expect(page.locator(".message", has_text="number 149")).to_be_in_viewport()


def test_one_thread_can_be_searched_alone(window: Opening, thread: Thread, rest: httpx.Client):
    unique = word()
    thread.post(f"{unique} here")
    Thread(rest).post(f"{unique} there")
    page = window(f"#/threads/{thread.id}")
    page.get_by_label("Search in this thread").click()
    page.get_by_label("Search in this thread", exact=True).fill(unique)
    expect(page.locator(".hit")).to_have_count(1)
    expect(page.locator(".hit .snippet")).to_have_text(f"{unique} here")
    page.get_by_label("Search everything instead").click()
    expect(page.locator(".hit")).to_have_count(2)


def test_an_invalid_query_is_answered_with_a_hint(window: Opening):
    page = window("#/search")
    for source in ("Everything", "Threads"):
        page.get_by_role("button", name=source, exact=True).click()
        for typed in ("*", '"') if source == "Everything" else ("*", '"unbalanced', "(a OR", "AND"):
            page.get_by_label("Search everything", exact=True).fill(typed)
            expect(page.locator(".hint, .empty p").first).to_contain_text(".")
            expect(page.locator(".empty.bad")).to_have_count(0)


def test_everything_is_found_and_can_be_narrowed_by_where_who_and_when(
    window: Opening, thread: Thread, rest: httpx.Client
):
    unique, slug = word("zebra"), word("wren")
    agent = rest.post("/api/agents/register", json={"display_name": slug.title(), "slug": slug}).json()["agent_id"]
    thread.post(f"{unique} on the bus", author=agent)
    Thread(rest).post(f"{unique} by somebody else", author="ann")
    rest.post("/api/notes", json={"title": "A note", "content": f"{unique} in a note", "created_at": "2020-03-01"})
    turn = {"role": "assistant", "content": f"{unique} in a session", "ts": "2021-05-01T10:00:00Z"}
    rest.post(f"/api/v1/agents/{slug}/sessions/s1/messages", json=turn)
    page = window(f"#/search?q={unique}")
    hits = page.locator(".hit .snippet")
    expect(hits).to_have_count(4)
    expect(page.get_by_text("4 results")).to_be_visible()
    page.get_by_role("button", name="Notes", exact=True).click()
    expect(hits).to_have_text([f"{unique} in a note"])
    page.get_by_role("button", name="Everything", exact=True).click()
    expect(hits).to_have_count(4)

    page.get_by_text("Filters").click()
    page.get_by_label("Author").fill(slug.title())
    page.get_by_label("Author").press("Enter")
    expect(hits).to_have_count(2)
    page.get_by_label("Author").fill("Ann")
    page.get_by_label("Author").press("Enter")
    expect(hits).to_have_text([f"{unique} by somebody else"])
    page.get_by_label("Author").fill(slug.title())
    page.get_by_label("Author").press("Enter")
    expect(hits).to_have_count(2)
    page.get_by_label("Role").select_option("assistant")
    expect(hits).to_have_text([f"{unique} in a session"])
    page.get_by_role("button", name="Clear").click()
    expect(hits).to_have_count(4)
    page.get_by_label("To", exact=True).fill("2021-12-31")
    page.get_by_label("Sort").select_option("recent")
    expect(hits).to_have_text([f"{unique} in a session", f"{unique} in a note"])
    page.get_by_label("From", exact=True).fill("2021-01-01")
    expect(hits).to_have_text([f"{unique} in a session"])


def test_sessions_are_narrowed_by_their_project_and_show_it(window: Opening, rest: httpx.Client):
    unique, agent, name = word(), word("bot"), word("app")
    for session, project in (("s", f"/nowhere/ann/{name}"), ("t", None)):
        turn = {"role": "user", "content": f"{unique} in {session}", "project": project}
        assert rest.post(f"/api/v1/agents/{agent}/sessions/{session}/messages", json=turn).status_code == 201
    page = window(f"#/search?q={unique}")
    hits = page.locator(".hit")
    expect(hits).to_have_count(2)
    page.get_by_text("Filters").click()
    page.get_by_label("Project").fill(name)
    page.get_by_label("Project").press("Enter")
    expect(hits).to_have_count(1)
    expect(hits).to_contain_text(name)
    page = window("#/library/sessions")
    expect(page.get_by_text(f"{name} · 1 turn")).to_be_visible()


def test_nothing_found_and_nothing_asked_say_so_and_help(window: Opening):
    page = window("#/search")
    expect(page.get_by_text("What are you looking for?")).to_be_visible()
    page.get_by_label("Search everything", exact=True).fill(word())
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.get_by_label("Search help").click()
    expect(page.locator("dialog")).to_contain_text("words that start with this")


def test_back_restores_the_scroll_position_of_the_results(window: Opening, thread: Thread):
    unique = word("elk")
    for number in range(30):
        thread.post(f"{unique} stands here, {number}", author=f"a{number}")
    page = window(f"#/search?q={unique}")
    expect(page.locator(".hit")).to_have_count(30)
    page.locator(".hit").nth(25).scroll_into_view_if_needed()
    down = page.locator(".scroll").evaluate("box => box.scrollTop")
    assert down > 300
    page.locator(".hit").nth(25).click()
    expect(page.locator(".message.found")).to_be_in_viewport()
    page.go_back()
    expect(page.locator(".hit").nth(25)).to_be_in_viewport()
    assert page.locator(".scroll").evaluate("box => box.scrollTop") == down
    page.get_by_role("link", name="Library").click()
    expect(page.get_by_role("heading", name="Library")).to_be_visible()
    page.get_by_label("Search everything", exact=True).fill(unique)
    expect(page.locator(".hit").first).to_be_in_viewport()


def test_a_new_search_starts_at_its_best_result(window: Opening, thread: Thread):
    one, other = word("elk"), word("owl")
    for number in range(30):
        thread.post(f"{one} and {other} stand here, {number}", author=f"a{number}")
    page = window(f"#/search?q={one}")
    expect(page.locator(".hit")).to_have_count(30)
    page.locator(".hit").nth(25).scroll_into_view_if_needed()
    page.get_by_label("Search everything", exact=True).fill(other)
    expect(page.locator(".hit mark").first).to_have_text(other)
    expect(page.locator(".hit").first).to_be_in_viewport()


def test_a_word_without_results_is_offered_as_a_prefix(window: Opening, thread: Thread):
    unique = word("deploys")
    thread.post(f"{unique}ment")
    page = window(f"#/search?thread={thread.id}&q={unique}s")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.get_by_role("link", name=re.compile("^Try ")).click()
    expect(page.locator(".hit")).to_have_count(1)


def test_links_that_lead_nowhere_say_so(window: Opening, thread: Thread):
    thread.post("still here")
    page = window("#/nonsense/place")
    expect(page.get_by_text("This link does not lead to a page")).to_be_visible()
    page.get_by_role("link", name="Go to threads").click()
    expect(page.locator(".threads a").first).to_be_visible()
    for path in ("#/threads/no-such-thread", "#/open/constructor/1", "#/open/notes/none", "#/open/archive/none"):
        page.goto(page.url.partition("#")[0] + path)
        expect(page.locator(".empty.bad h2")).to_have_text("Not found")
    page.goto(page.url.partition("#")[0] + f"#/threads/{thread.id}?message=gone")
    expect(page.locator(".message")).to_have_text(re.compile("still here"))
    expect(page.locator(".notices")).to_contain_text("does not exist any more")


def test_people_see_people_only_messages_in_the_results(window: Opening, thread: Thread):
    unique = word("quiet")
    thread.post(f"the {unique} budget", metadata={"visibility": "human_only"})
    page = window()
    for where in (f"thread={thread.id}&", "source=bus&", ""):
        page.goto(page.url.partition("#")[0] + f"#/search?{where}q={unique}")
        expect(page.locator(".hit .snippet")).to_have_text(f"the {unique} budget")
        expect(page.locator(".hit mark")).to_have_text(unique)


def test_a_result_shows_its_answer_and_its_later_correction(window: Opening, thread: Thread, rest: httpx.Client):
    unique, other = word("lamp"), word("party")
    thread.post(f"Which colour has the {unique}?", author="Ann")
    answer = thread.post("It is green.", author="Ben")
    plans = Thread(rest)
    plans.post(f"The {other} is on Sunday.", author="Ann")
    later = plans.post(f"Actually, the {other} was moved to Monday.", author="Ann")
    page = window(f"#/search?q={unique}")
    expect(page.locator(".beside").first).to_have_text(re.compile("Answer, Ben: It is green."))
    page.locator(".beside").first.click()
    expect(page.locator(f"#m-{answer['id']}.found")).to_be_in_viewport()
    page.goto(page.url.partition("#")[0] + f"#/search?q=when is the {other} on sunday")
    expect(page.locator(".beside.back").first).to_contain_text("moved to Monday")
    page.locator(".beside.back").first.click()
    expect(page.locator(f"#m-{later['id']}.found")).to_be_in_viewport()


def test_it_says_when_no_result_has_all_of_the_words(window: Opening, thread: Thread):
    one, other = word("alder"), word("birch")
    thread.post(f"{one} here")
    thread.post(f"{other} there")
    page = window(f"#/search?q={one} {other}")
    expect(page.locator(".hit")).to_have_count(2)
    expect(page.locator(".head [role=status]")).to_contain_text("none contains all words")


@both_sizes
def test_an_agent_as_author_finds_what_it_said_in_threads_and_sessions_and_not_its_user(
    window: Opening, thread: Thread, rest: httpx.Client, viewport: ViewportSize
):
    unique, slug = word("flint"), word("rook")
    name = slug.title()
    agent = rest.post("/api/agents/register", json={"display_name": name, "slug": slug}).json()
    path = f"/api/v1/agents/{agent['agent_id']}/sessions/{word()}/messages"
    rest.post(path, json={"role": "user", "content": f"what about {unique}, asked the user?"})
    rest.post(path, json={"role": "assistant", "content": f"{unique} is done, said the agent."})
    thread.post(f"{unique} in a thread", author=slug)
    thread.post(f"{unique} of somebody else", author="Ann")
    page = window("#/agents", viewport=viewport)
    page.locator(".people li", has_text=name).get_by_role("link", name="Search its messages").click()
    expect(page.get_by_role("heading", name=f"Search the messages of {name}")).to_be_visible()
    box = page.get_by_label(f"Search the messages of {name}")
    expect(box).to_be_focused()
    page.keyboard.type(unique)
    expect(page.locator(".hit")).to_have_count(2)
    expect(page.locator(".hit", has_text="said the agent")).to_contain_text(name)
    expect(page.locator(".hit", has_text="in a thread")).to_contain_text(name)
    expect(page.locator(".hit .snippet", has_text="asked the user")).to_have_count(0)
