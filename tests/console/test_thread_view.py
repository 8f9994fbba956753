"""Threads: messages, reactions, drafts, unread marks and live updates."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import FilePayload, Page, Route, expect
from tests.console.conftest import Opening, Slow
from tests.helpers import Thread, eventually, start_server, word

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


def test_a_message_appears_in_another_window(window: Opening, thread: Thread):
    one, other = window(f"#/threads/{thread.id}"), window(f"#/threads/{thread.id}")
    expect(other.get_by_text("No messages yet.")).to_be_visible()
    one.get_by_label("Message", exact=True).fill("hello from **here**")
    one.get_by_label("Message", exact=True).press("Enter")
    expect(other.locator(".message .prose strong", has_text="here")).to_be_visible()
    expect(one.locator(".message")).to_have_count(1)
    expect(one.get_by_label("Message", exact=True)).to_have_value("")


def test_a_message_from_elsewhere_marks_the_thread_unread_until_it_is_read(
    window: Opening, thread: Thread, rest: httpx.Client
):
    page = window("#/threads")
    row = page.locator(f"[data-thread='{thread.id}']")
    expect(row).to_be_visible()
    thread.post("news for you", author="Bob")
    expect(row.locator(".news")).to_have_text("1")
    expect(row.locator(".last")).to_contain_text("Bob: news for you")
    row.click()
    expect(page.locator(".message")).to_have_count(1)
    expect(row.locator(".news")).to_have_count(0)


def test_a_reaction_becomes_a_pill_that_counts_and_names(window: Opening, thread: Thread, rest: httpx.Client):
    message = thread.post("shall we?")
    for agent in (None, "human:Zoe"):
        rest.post(f"/api/messages/{message['id']}/reactions", json={"reaction": "agree", "agent_id": agent})
    page = window(f"#/threads/{thread.id}")
    pill = page.locator(".pill")
    expect(pill).to_have_text("agree ×2")
    expect(pill).to_have_attribute("title", "anonymous, Zoe")
    pill.click()
    expect(pill).to_have_text("agree ×3")
    expect(pill).to_have_attribute("aria-pressed", "true")
    eventually(lambda: len(rest.get(f"/api/messages/{message['id']}/reactions").json()) == 3)
    pill.click()
    expect(pill).to_have_text("agree ×2")
    eventually(lambda: len(rest.get(f"/api/messages/{message['id']}/reactions").json()) == 2)


def test_pills_are_below_the_message_one_for_each_label(window: Opening, thread: Thread, rest: httpx.Client):
    message = thread.post("as the guide shows it")
    given = [("agree", "a"), ("agree", "b"), ("important", "a"), ("Agree", "a"), ("👍", "b")]
    for label, name in given:
        rest.post(f"/api/messages/{message['id']}/reactions", json={"reaction": label, "agent_id": f"human:{name}"})
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".pill")).to_have_text(["agree ×2", "important", "Agree", "👍"])
    expect(page.locator(".pill").first).to_have_attribute("title", "a, b")
    text, pills = page.locator(".message .prose").bounding_box(), page.locator(".message .pills").bounding_box()
    assert text
    assert pills
    assert pills["y"] >= text["y"] + text["height"]
    page.locator(".message:not(.pending)").hover()
    page.get_by_label("React", exact=True).click()
    offered = page.locator(".picker .labels button").all_inner_texts()
    assert {"agree", "disagree", "important", "done", "flag", "👍", "👎"} <= set(offered)


def test_the_picker_accepts_own_labels_and_another_window_sees_them(window: Opening, thread: Thread):
    thread.post("look")
    page, other = window(f"#/threads/{thread.id}"), window(f"#/threads/{thread.id}")
    page.locator(".message:not(.pending)").hover()
    page.get_by_label("React", exact=True).click()
    page.get_by_role("button", name="important").click()
    expect(other.locator(".pill")).to_have_text("important")
    page.locator(".message:not(.pending)").hover()
    page.get_by_label("React", exact=True).click()
    page.get_by_label("Another reaction").fill("a/b 100%")
    page.get_by_label("Another reaction").press("Enter")
    expect(other.locator(".pill", has_text="a/b 100%")).to_be_visible()
    page.locator(".pill", has_text="a/b 100%").click()
    expect(other.locator(".pill", has_text="a/b 100%")).to_have_count(0)


def test_pills_look_right_in_both_themes(window: Opening, thread: Thread, rest: httpx.Client):
    message = thread.post("x")
    rest.post(f"/api/messages/{message['id']}/reactions", json={"reaction": "done"})
    colours = set()
    for scheme in ("light", "dark"):
        page = window(f"#/threads/{thread.id}", color_scheme=scheme)
        expect(page.locator("body")).to_have_attribute("data-theme", scheme)
        colours.add(page.locator(".pill").evaluate("pill => getComputedStyle(pill).backgroundColor"))
    assert len(colours) == 2


def test_the_theme_follows_the_system_until_it_is_chosen(window: Opening):
    page = window(color_scheme="light")
    body = page.locator("body")
    expect(body).to_have_attribute("data-theme", "light")
    page.emulate_media(color_scheme="dark")
    expect(body).to_have_attribute("data-theme", "dark")
    page.get_by_label("Theme: system").click()
    expect(body).to_have_attribute("data-theme", "light")
    page.reload()
    expect(body).to_have_attribute("data-theme", "light")
    page.get_by_label("Theme: light").click()
    expect(body).to_have_attribute("data-theme", "dark")


def test_replies_edits_and_deletions_are_seen_everywhere(window: Opening, thread: Thread):
    first = thread.post("the question", author="Ann")
    page, other = window(f"#/threads/{thread.id}"), window(f"#/threads/{thread.id}")
    page.locator(f"#m-{first['id']}").hover()
    page.get_by_label("Reply", exact=True).click()
    page.get_by_label("Message", exact=True).fill("the answer")
    page.get_by_label("Send").click()
    expect(other.locator(".message .quote")).to_contain_text("Ann the question")

    mine = page.locator(".message", has=page.locator(".quote"))
    mine.hover()
    mine.get_by_label("More").click()
    page.get_by_role("menuitem", name="Edit").click()
    page.get_by_label("Edit the message").fill("the better answer")
    page.get_by_role("button", name="Save").click()
    expect(other.locator(".message .prose", has_text="the better answer")).to_be_visible()
    other.get_by_role("button", name="edited").click()
    expect(other.locator(".versions li")).to_have_count(2)
    expect(other.locator(".versions")).to_contain_text("the answer")
    other.keyboard.press("Escape")
    expect(other.locator("dialog")).to_have_count(0)

    mine.hover()
    mine.get_by_label("More").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.locator("dialog").get_by_role("button", name="Delete").click()
    expect(other.locator(".message")).to_have_count(1)


def test_a_draft_is_kept_until_it_is_sent(window: Opening, thread: Thread, rest: httpx.Client):
    page = window(f"#/threads/{thread.id}")
    page.get_by_label("Message", exact=True).fill("half a thou")
    page.goto(page.url.partition("#")[0] + "#/threads/" + Thread(rest).id)
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    page.go_back()
    expect(page.get_by_label("Message", exact=True)).to_have_value("half a thou")
    page.reload()
    expect(page.get_by_label("Message", exact=True)).to_have_value("half a thou")


def test_a_draft_keeps_its_reply_images_and_audience(window: Opening, thread: Thread, rest: httpx.Client):
    asked, other = thread.post("what do you really think?", author="Ann"), Thread(rest)
    page = window(f"#/threads/{thread.id}")
    page.locator(".message:not(.pending)").hover()
    page.locator(".message").get_by_label("Reply").click()
    page.get_by_role("button", name="People only").click()
    page.locator(".compose input[type=file]").set_input_files(
        FilePayload(name="dot.png", mimeType="image/png", buffer=PNG)
    )
    expect(page.locator(".compose .images img")).to_have_count(1)
    say = page.get_by_label("Message", exact=True)
    say.fill("between us")

    def is_whole() -> None:
        expect(say).to_have_value("between us")
        expect(page.get_by_role("button", name="People only")).to_have_attribute("aria-pressed", "true")
        expect(page.locator(".compose .answering")).to_contain_text("what do you really think?")
        expect(page.locator(".compose .images img")).to_have_count(1)

    page.locator(f"[data-thread='{other.id}']").click()
    expect(say).to_have_value("")
    expect(page.get_by_role("button", name="People only")).to_have_attribute("aria-pressed", "false")
    page.go_back()
    is_whole()
    page.reload()
    is_whole()
    say.press("Enter")
    expect(page.locator(".message[data-seq]")).to_have_count(2)
    message = thread.messages()[-1]
    assert (message["content"], message["reply_to_msg_id"]) == ("between us", asked["id"])
    assert message["metadata"]["visibility"] == "human_only"
    expect(page.get_by_role("button", name="People only")).to_have_attribute("aria-pressed", "false")
    eventually(lambda: "between us" not in kept(page))


def test_shift_enter_begins_a_new_line(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    box = page.get_by_label("Message", exact=True)
    box.fill("one")
    box.press("Shift+Enter")
    box.press_sequentially("two")
    box.press("Enter")
    expect(page.locator(".message .prose br")).to_have_count(1)
    assert thread.messages()[0]["content"] == "one\ntwo"


def test_messages_for_people_only_are_marked_and_hidden_from_agents(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    page.get_by_role("button", name="People only").click()
    page.get_by_label("Message", exact=True).fill("between us")
    page.get_by_label("Send").click()
    message = page.locator(".message.for-humans")
    expect(message).to_contain_text("Only people can read this")
    expect(message).to_contain_text("between us")
    assert thread.messages()[0]["metadata"] == {"visibility": "human_only"}


def test_agents_are_suggested_while_typing_and_are_mentioned(window: Opening, thread: Thread, rest: httpx.Client):
    slug = word("rook")
    agent = rest.post("/api/agents/register", json={"display_name": slug.upper(), "slug": slug}).json()
    page = window(f"#/threads/{thread.id}")
    page.get_by_label("Message", exact=True).press_sequentially(f"please, @{slug[:8]}")
    page.locator(".names li").first.wait_for()
    page.keyboard.press("Enter")
    expect(page.get_by_label("Message", exact=True)).to_have_value(f"please, @{slug} ")
    page.keyboard.press("Enter")
    expect(page.locator(".message .mention")).to_have_text(f"@{slug}")
    assert thread.messages()[0]["mentions"] == [agent["agent_id"]]


def test_agents_that_load_while_typing_are_suggested(window: Opening, thread: Thread, rest: httpx.Client):
    slug = word("rook")
    rest.post("/api/agents/register", json={"display_name": slug.upper(), "slug": slug})
    page = window("healthz")
    answer = Slow(page, "**/api/agents?*")
    page.goto(page.url.replace("healthz", f"#/threads/{thread.id}"))
    eventually(answer.is_given)
    page.get_by_label("Message", exact=True).fill(f"please, @{slug[:8]}")
    answer.arrives()
    expect(page.locator(".names li")).to_have_text(f"{slug.upper()} @{slug}")


def test_an_image_can_be_attached(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    page.locator(".compose input[type=file]").set_input_files(
        [FilePayload(name="plan <b>.png", mimeType="image/png", buffer=PNG)]
    )
    expect(page.locator(".compose .images img")).to_have_count(1)
    page.get_by_label("Send").click()
    expect(page.locator(".message .images img")).to_have_attribute("alt", "plan <b>.png")


def test_threads_can_be_opened_renamed_pinned_and_archived(window: Opening, rest: httpx.Client):
    topic, better = word("topic "), word("better ")
    page = window("#/threads")
    page.get_by_label("New thread").click()
    page.get_by_label("Topic").fill(topic)
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".head h1")).to_have_text(topic)

    page.get_by_label("Thread menu").click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_label("Topic").fill(better)
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".head h1")).to_have_text(better)
    row = page.locator(".threads a", has_text=better)
    page.get_by_label("Thread menu").click()
    page.get_by_role("menuitem", name="Pin").click()
    expect(page.locator(".threads a").first).to_contain_text(better)

    with page.expect_download() as download:
        page.get_by_label("Thread menu").click()
        page.get_by_role("menuitem", name="Export").click()
    assert better in download.value.path().read_text("utf-8")

    page.get_by_label("Status").select_option("review")
    expect(row.locator(".status")).to_have_text("review")
    page.get_by_label("Thread menu").click()
    page.get_by_role("menuitem", name="Archive").click()
    expect(row).to_have_count(0)
    page.get_by_role("button", name="All", exact=True).click()
    expect(row.locator(".status")).to_have_text("archived")


def test_closed_threads_are_not_listed_as_open(window: Opening, thread: Thread, rest: httpx.Client):
    rest.put("/api/read-marks")
    closed, done = Thread(rest), Thread(rest)
    rest.post(f"{closed.path}/close")
    rest.put(done.path, json={"status": "done"})
    page = window("#/threads")
    expect(page.locator(f"[data-thread='{thread.id}']")).to_be_visible()
    expect(page.locator(f"[data-thread='{done.id}']")).to_have_count(0)
    expect(page.locator(f"[data-thread='{closed.id}']")).to_have_count(0)
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.locator(f"[data-thread='{closed.id}'] .status")).to_have_text("closed")
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.locator(f"[data-thread='{closed.id}']")).to_have_count(0)


def test_a_phone_shows_a_long_topic(window: Opening, rest: httpx.Client):
    thread = Thread(rest, "Retries of the exporter at night")
    page = window(f"#/threads/{thread.id}", viewport={"width": 390, "height": 844})
    head = page.get_by_role("heading", name=thread.topic)
    expect(head).to_be_visible()
    assert head.evaluate("one => one.scrollWidth <= one.clientWidth && one.scrollHeight <= one.clientHeight + 1")


def test_the_list_is_filtered_by_topic_and_name(window: Opening, thread: Thread):
    name = word("Nora")
    thread.post("x", author=name)
    page = window("#/threads")
    page.get_by_label("Filter threads").fill(name.lower())
    expect(page.locator(".threads a")).to_have_count(1)
    page.get_by_label("Filter threads").fill("there is no such thread")
    expect(page.get_by_text("No matching threads")).to_be_visible()


def test_scrolling_up_to_use_a_menu_keeps_the_place(window: Opening, thread: Thread, rest: httpx.Client):
    for number in range(40):
        thread.post(f"number {number}", author=f"a{number}")
    rest.put("/api/read-marks")
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".message").last).to_be_in_viewport()
    further_up = page.locator(".message[data-seq='6']")
    further_up.hover()
    page.get_by_label("React", exact=True).click()
    expect(further_up).to_be_in_viewport()
    expect(page.get_by_label("Another reaction")).to_be_in_viewport()
    page.keyboard.press("Escape")
    page.locator(".message").last.hover()
    page.get_by_label("React", exact=True).click()
    expect(page.get_by_label("Another reaction")).to_be_in_viewport(ratio=1)


def test_changes_during_the_load_of_a_thread_are_not_lost(window: Opening, thread: Thread, rest: httpx.Client):
    first, second = thread.post("first"), thread.post("second")
    page = window("#/threads")
    row = page.locator(f"[data-thread='{thread.id}']")
    expect(row.locator(".last")).to_contain_text("second")
    answer = Slow(page, "**/messages?newest=true*")
    row.click()
    eventually(answer.is_given)
    say = page.get_by_label("Message", exact=True)
    say.fill("from here")
    say.press("Enter")
    expect(row.locator(".last")).to_contain_text("from here")
    rest.put(f"/api/messages/{first['id']}", json={"content": "first, but better"})
    rest.delete(f"/api/messages/{second['id']}")
    thread.post("from elsewhere", author="Bob")
    expect(row.locator(".last")).to_contain_text("from elsewhere")
    answer.arrives()
    expect(page.locator(".message .prose")).to_have_text(["first, but better", "from here", "from elsewhere"])
    expect(page.locator(".talk .head .name p")).to_contain_text("3 messages")


def test_changes_during_the_load_of_the_list_are_not_lost(window: Opening, thread: Thread, rest: httpx.Client):
    doomed = Thread(rest)
    page = window("#/threads")
    row = page.locator(f"[data-thread='{thread.id}']")
    expect(row).to_be_visible()
    answer = Slow(page, "**/api/threads/glance*")
    page.get_by_role("button", name="All", exact=True).click()
    eventually(answer.is_given)
    thread.post("just now", author="Bob")
    rest.delete(f"/api/threads/{doomed.id}")
    expect(row.locator(".last")).to_contain_text("just now")
    expect(page.locator(f"[data-thread='{doomed.id}']")).to_have_count(0)
    answer.arrives()
    expect(page.locator(".threads a").first).to_be_visible()
    page.wait_for_timeout(300)
    expect(row.locator(".last")).to_contain_text("just now")
    expect(row.locator(".news")).to_have_text("1")
    expect(page.locator(f"[data-thread='{doomed.id}']")).to_have_count(0)


@pytest.mark.thorough
def test_many_new_threads_are_loaded_with_few_requests(window: Opening, tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as api:
        for name in ("first", "second"):
            Thread(api).post(name, author="Ann")
        page = window("#/threads", at=server)
        rows = page.locator("[data-thread]")
        expect(rows).to_have_count(2)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/api/threads" in request.url else None)
        made = [Thread(api) for _ in range(80)]  # more than a page of the list
        for thread in made:
            thread.post("new", author="Bob")
            thread.post("and more", author="Bob")
        page.locator(".list").evaluate("list => list.scrollTo(0, list.scrollHeight)")
        expect(rows).to_have_count(82)
        expect(page.locator(f"[data-thread='{made[0].id}'] .last")).to_contain_text("and more")
        assert len(asked) < len(made)
        page.close()


def test_the_states_of_many_threads_are_loaded_with_few_requests(window: Opening, tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as api:
        some = [Thread(api) for _ in range(40)]
        page = window("#/threads", at=server)
        expect(page.locator("[data-thread]").first).to_be_visible()
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url) if "/api/threads" in request.url else None)
        held: list[Route] = []
        page.route(
            re.compile("/api/threads"), lambda route: held.append(route)
        )  # the first answer comes after all events
        with page.expect_request(re.compile("/api/threads")):
            for thread in some[1:]:
                api.post(f"/api/threads/{thread.id}/archive")
        for route in held:
            route.continue_()
        page.unroute(re.compile("/api/threads"))
        expect(page.locator("[data-thread]")).to_have_count(1)
        assert len(asked) < len(some) / 2
        api.post(f"/api/threads/{some[5].id}/unarchive")
        expect(page.locator("[data-thread]")).to_have_count(2)
        page.close()


def test_after_an_outage_the_console_catches_up_without_loss_or_repeat(window: Opening, tmp_path: Path):
    with start_server(tmp_path) as server, server.client() as api:
        thread = Thread(api)
        thread.post("before")
        page = window(f"#/threads/{thread.id}", at=server)
        expect(page.locator(".message")).to_have_count(1)
        port = server.port
    expect(page.locator(".away")).to_contain_text("cannot be reached")
    page.get_by_label("Message", exact=True).fill("in between")
    page.get_by_label("Message", exact=True).press("Enter")
    expect(page.locator(".compose .problem")).to_contain_text("Your text is saved")
    with start_server(tmp_path, port=port) as server, server.client() as api:
        api.post(f"/api/threads/{thread.id}/messages", json={"author": "Ann", "content": "meanwhile"})
        expect(page.locator(".away")).to_have_count(0)
        expect(page.locator(".message", has_text="meanwhile")).to_have_count(1)
        expect(page.locator(".compose .problem")).to_contain_text("The server is back")
        page.get_by_label("Message", exact=True).press("Enter")
        expect(page.locator(".message", has_text="in between")).to_have_count(1)
        expect(page.locator(".message")).to_have_count(3)
        wanted = ["before", "meanwhile", "in between"]  # the last one is shown while it is on its way
        path = f"/api/threads/{thread.id}/messages"
        eventually(lambda: [one["content"] for one in api.get(path).json()] == wanted)


def kept(page: Page) -> str:
    """The local storage of this window, with the drafts."""
    return str(page.evaluate("JSON.stringify({...localStorage})"))


def send_slowly(page: Page, text: str) -> Slow:
    """Send a message whose response is held back."""
    expect(page.get_by_text("No messages yet.")).to_be_visible()
    answer = Slow(page, "**/messages")
    say = page.get_by_label("Message", exact=True)
    say.fill(text)
    say.press("Enter")
    eventually(answer.is_given)
    return answer


def test_a_message_written_while_another_is_sent_is_sent_after_it(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    answer = send_slowly(page, "the first")
    say = page.get_by_label("Message", exact=True)
    expect(say).to_have_value("")
    say.fill("the second")
    say.press("Enter")
    expect(say).to_have_value("")
    say.fill("not yet")
    answer.arrives()
    expect(page.locator(".message .prose")).to_have_text(["the first", "the second"])
    expect(say).to_have_value("not yet")
    eventually(lambda: "the second" not in kept(page))
    page.reload()
    expect(say).to_have_value("not yet")
    expect(page.locator(".message .prose")).to_have_text(["the first", "the second"])


def test_an_unsent_message_returns_before_the_text_written_since(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    expect(page.get_by_text("No messages yet.")).to_be_visible()
    held: list[Route] = []
    page.route("**/messages", lambda route: held.append(route))
    say = page.get_by_label("Message", exact=True)
    say.fill("the first")
    say.press("Enter")
    while not held:
        page.wait_for_timeout(10)
    say.fill("more of it")
    held[0].abort()
    page.unroute("**/messages")
    expect(page.get_by_text("Not sent")).to_be_visible()
    expect(say).to_have_value("the first\n\nmore of it")
    say.press("Enter")
    expect(page.locator(".message")).to_have_count(1)
    expect(page.locator(".message .prose")).to_contain_text("more of it")


def test_leaving_and_returning_while_a_message_is_sent_shows_an_empty_box(
    window: Opening, thread: Thread, rest: httpx.Client
):
    other = Thread(rest)
    other.post("elsewhere")
    page = window(f"#/threads/{thread.id}")
    answer = send_slowly(page, "on its way")
    say = page.get_by_label("Message", exact=True)
    page.locator(f"[data-thread='{other.id}']").click()
    expect(page.locator(".message .prose")).to_have_text("elsewhere")
    expect(say).to_have_value("")
    page.locator(f"[data-thread='{thread.id}']").click()
    expect(page.locator(".message .prose")).to_have_text("on its way")
    expect(say).to_have_value("")
    assert "on its way" in kept(page)
    answer.arrives()
    eventually(lambda: "on its way" not in kept(page))
    page.reload()
    expect(page.locator(".message .prose")).to_have_text("on its way")
    expect(say).to_have_value("")


def test_sending_again_after_a_lost_response_makes_no_duplicate(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    send_slowly(page, "once")
    say = page.get_by_label("Message", exact=True)
    page.reload()
    expect(page.locator(".message .prose")).to_have_text("once")
    expect(say).to_have_value("once")
    say.press("Enter")
    eventually(lambda: "once" not in kept(page))
    thread.post("after it")
    expect(page.locator(".message .prose")).to_have_text(["once", "after it"])


def test_changing_the_audience_of_a_possibly_sent_message_makes_a_new_one(window: Opening, thread: Thread):
    page = window(f"#/threads/{thread.id}")
    send_slowly(page, "once")
    page.reload()
    say = page.get_by_label("Message", exact=True)
    expect(say).to_have_value("once")
    page.get_by_role("button", name="People only").click()
    say.press("Enter")
    expect(page.locator(".message .prose")).to_have_text(["once", "once"])
    eventually(  # a message is shown before the server has it
        lambda: [one["metadata"] and one["metadata"]["visibility"] for one in thread.messages()] == [None, "human_only"]
    )


def test_a_loaded_thread_does_not_take_the_focus_from_an_open_menu(window: Opening, thread: Thread):
    thread.post("here I am")
    page = window("#/threads")
    answer = Slow(page, "**/messages?newest=true*")
    page.locator(f"[data-thread='{thread.id}']").click()
    eventually(answer.is_given)
    page.get_by_label("Account:").click()
    item = page.get_by_role("menuitem", name="Change name")
    expect(item).to_be_visible()
    answer.arrives()
    expect(page.locator(".message .prose")).to_have_text("here I am")
    page.wait_for_timeout(50)
    expect(item).to_be_visible()
