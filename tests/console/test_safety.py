"""Security (injection, links, CSP) and accessibility (keyboard, contrast, phones)."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser, Error, Page, expect
from tests.console.conftest import Opening
from tests.helpers import Server, Thread, word

import palaver

BAD = [
    "<img src=x onerror=alert(1)>",
    "<script>alert(2)</script>",
    "[click](javascript:alert(3))",
    "![x](https://example.com/spy.png)",
    "<a href='javascript:alert(4)'>x</a>",
    '"><svg onload=alert(5)>',
    "```html\n<img src=x onerror=alert(6)>\n```",
    "[x](data:text/html,<script>alert(7)</script>)",
    "{{constructor.constructor('alert(8)')()}}${alert(9)}",
]

IS_CLEAN = """() => !document.querySelector(
    "#app img:not([src^='/uploads/'], [src^='/console/']), #app script, #app iframe, #app [onload], #app [onerror], #app [onclick]"
) && ![...document.querySelectorAll('a')].some((a) => /^(javascript|data):/i.test(a.getAttribute('href') ?? ''))"""


def clean(page: Page) -> bool:
    return bool(page.evaluate(IS_CLEAN))


def test_attacks_in_every_field_stay_text(window: Opening, rest: httpx.Client):
    unique, page = word(), window("#/threads")
    for number, bad in enumerate(BAD):
        thread = Thread(rest, topic=f"{bad} {unique}{number}")
        rest.put(thread.path, json={"summary": bad})
        agent = rest.post("/api/agents/register", json={"display_name": f"{bad} {number}", "model": bad}).json()
        message = thread.post(
            f"{unique} {bad}", author=agent["agent_id"], metadata={"images": [{"url": bad, "name": bad}]}
        )
        answer = thread.post(bad, author=f"{bad}", reply_to_msg_id=message["id"], mentions=[bad])
        rest.post(f"/api/messages/{message['id']}/reactions", json={"reaction": bad[:64], "agent_id": f"human:{bad}"})
        rest.put(f"/api/messages/{answer['id']}", json={"content": f"{bad} edited"})
        page.evaluate(f"location.hash = '#/threads/{thread.id}'")
        expect(page.locator(".message")).to_have_count(2)
        expect(page.locator(".head h1")).to_have_text(thread.topic)
        expect(page.locator(".pill .label")).to_have_text(bad[:64].strip())
        assert clean(page)
        page.get_by_role("button", name="edited").press("Enter")
        expect(page.locator(".versions li").last).to_contain_text(bad.split("\n")[0])
        assert clean(page)
        page.keyboard.press("Escape")
    bad = "\n\n".join(BAD)  # all at once: each attack in each field
    made = [
        ("notes", rest.post("/api/notes", json={"title": bad, "content": f"{unique} {bad}", "keywords": BAD})),
        ("prompts", rest.post("/api/prompts", json={"name": bad, "user_prompt": bad, "details": bad, "author": bad})),
        ("characters", rest.post("/api/characters", json={"name": bad, "description": bad, "tags": BAD})),
        ("media", rest.post("/api/media", json={"title": bad, "media_type": "video", "content": bad, "url": bad})),
    ]
    for source, kept in made:
        assert kept.status_code == 201, kept.text
        page.evaluate(f"location.hash = '#/open/{source}/{kept.json()['id']}'")
        expect(page.locator(".head h1")).to_have_text(bad)
        expect(page.locator(".page-body")).to_be_visible()
        assert clean(page)
    for number, bad in enumerate(BAD):
        turns = f"/api/v1/agents/{unique}/sessions/{unique}{number}/messages"
        rest.post(turns, json={"role": "user", "content": f"{unique} {bad}"})
    for shelf in ("notes", "prompts", "characters", "media", "sessions"):
        page.evaluate(f"location.hash = '#/library/{shelf}'")
        expect(page.locator(f".shelves [aria-current][href='#/library/{shelf}']")).to_be_visible()
        expect(page.locator(".cards a").first).to_be_visible()
        assert clean(page)
    for place in ("agents", "overview"):
        page.evaluate(f"location.hash = '#/{place}'")
        expect(page.locator(".people li, .bars li").first).to_be_visible()
        assert clean(page)
    page.evaluate(f"location.hash = '#/search?q={unique}&source=bus'")
    expect(page.locator(".hit")).to_have_count(len(BAD))
    assert clean(page)
    page.evaluate(f"location.hash = '#/search?q={unique}'")
    expect(page.locator(".hit").nth(len(BAD))).to_be_visible()
    expect(page.locator(".hit .snippet", has_text="<img src=x onerror=alert(1)>").first).to_be_visible()
    assert clean(page)


def test_markdown_is_shown_and_its_links_are_safe(window: Opening, thread: Thread):
    thread.post(
        "# Head\n\n1. one\n2. two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`code` [out](https://example.com) ~~no~~"
    )
    page = window(f"#/threads/{thread.id}")
    prose = page.locator(".message .prose")
    expect(prose.locator("h3")).to_have_text("Head")
    expect(prose.locator("ol li")).to_have_count(2)
    expect(prose.locator("td")).to_have_count(2)
    expect(prose.locator("a")).to_have_attribute("rel", "noopener noreferrer")


def test_a_link_that_resolves_to_another_server_opens_in_a_new_tab_and_a_relative_one_is_no_link(
    window: Opening, thread: Thread, place: Server
):
    foreign = [
        r"/\evil.example/a",
        "//evil.example/b",
        r"/\\evil.example/c",
        "https://evil.example/d",
        "/\t/evil.example/e",
    ]
    ours = ["/docs", "#/library", f"{place.url}/docs"]
    thread.post("\n\n".join(f"[{number}](<{href}>)" for number, href in enumerate([*foreign, *ours, "x.html"])))
    page = window(f"#/threads/{thread.id}")
    links = page.locator(".message .prose a")
    expect(links).to_have_count(len(foreign) + len(ours))
    found = links.evaluate_all("links => links.map(a => [new URL(a.href).host, a.target, a.rel])")
    outside = ["evil.example", "_blank", "noopener noreferrer"]
    inside = [place.url.removeprefix("http://"), "", ""]
    assert found == [outside] * len(foreign) + [inside] * len(ours)
    expect(page.locator(".message .no-link")).to_have_count(1)


def test_a_very_long_message_is_folded(window: Opening, thread: Thread):
    thread.post("\n\n".join(f"line {number}" for number in range(400)))
    page = window(f"#/threads/{thread.id}")
    unfold = page.get_by_role("button", name="Show all")
    assert page.locator(".message").bounding_box()["height"] < 600  # type: ignore[index]
    unfold.click()
    expect(unfold).to_have_count(0)
    expect(page.get_by_text("line 399", exact=True)).to_be_visible()


def test_no_text_can_become_a_script_even_by_mistake(browser: Browser, place: Server):
    page = browser.new_page()
    page.goto(place.url)
    expect(page.get_by_label("New thread")).to_be_visible()
    with pytest.raises(Error, match="TrustedHTML"):
        page.evaluate("document.createElement('div').innerHTML = '<b>x</b>'")
    page.close()


def test_the_page_allows_no_inline_script_and_no_other_place(place: Server, rest: httpx.Client):
    answer = rest.get("/")
    policy = answer.headers["content-security-policy"]
    assert not [word for word in ("unsafe", "http") if word in policy]
    wanted = {"default-src 'self'", "frame-ancestors 'none'", "require-trusted-types-for 'script'"}
    assert wanted <= set(policy.split("; "))
    assert not [word for word in ("<script>", " style=", " onload=") if word in answer.text]
    assert answer.headers["cache-control"] == "no-store"


def test_files_are_kept_for_ever_under_their_stamp_and_nothing_else_is_served(rest: httpx.Client):
    page = rest.get("/").text
    script = page.partition('type="module" src="')[2].partition('"')[0]
    kept = rest.get(script)
    assert (kept.status_code, kept.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    assert "immutable" in kept.headers["cache-control"]
    for path in (
        "/console/../doors/web.py",
        "/console/index.html",
        "/console/0000/js/app.js",
        "/console/%2e%2e/house.py",
    ):
        assert rest.get(path).status_code == 404


def test_every_shared_module_is_in_the_joined_file(rest: httpx.Client):
    """A shared module outside it would be loaded a second time, with a state of its own."""
    folder = Path(palaver.__file__).parent / "console"
    names = {path.relative_to(folder).as_posix() for path in (folder / "js").rglob("*.js")}
    together = rest.get("/console/js/start.js").text
    apart = {name for name in names if f"// {name}\n" not in together and not name.startswith("js/views/")}
    alone = {"js/preload.js", "js/data/event_stream_worker.js", "js/syntax/highlighter.js"}
    alone |= {"js/texts/de.js"}
    assert apart == alone  # none of these imports a shared module


def test_everything_can_be_done_with_the_keyboard(window: Opening, thread: Thread):
    unique = word()
    thread.post(f"first {unique}", author="Ann")
    thread.post("second", author="Bob")
    page = window("#/threads")
    row = page.locator(f"[data-thread='{thread.id}']")
    expect(row).to_be_visible()
    page.keyboard.press("j")
    while not row.evaluate("row => row === document.activeElement"):
        page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator(".message")).to_have_count(2)
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.keyboard.press("k")
    expect(page.locator(".message").first).to_be_focused()
    page.keyboard.press("r")
    page.keyboard.type("an answer")
    page.keyboard.press("Enter")
    expect(page.locator(".message .quote")).to_contain_text("first")
    expect(page.get_by_label("Message", exact=True)).to_have_value("")
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("dialog")).to_contain_text("search everything")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Go to a page or run an action")).to_be_focused()
    page.keyboard.type(unique)
    page.keyboard.press("Enter")
    expect(page.locator(".hit")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator(".message.found")).to_contain_text(unique)


def test_menus_and_dialogs_are_walked_and_left_by_keyboard_and_focus_returns(window: Opening, thread: Thread):
    thread.post("x")
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".message")).to_have_count(1)
    menu = page.get_by_label("Thread menu")
    menu.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("menuitem", name="Search in this thread")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
    page.keyboard.press("Escape")
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Topic")).to_be_focused()
    inside = "document.querySelector('dialog').contains(document.activeElement)"
    for _ in range(6):
        page.keyboard.press("Tab")
        assert page.evaluate(f"{inside} || document.activeElement === document.body")
    page.keyboard.press("Escape")
    expect(page.locator("dialog")).to_have_count(0)
    expect(menu).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    for _ in range(9):
        page.keyboard.press("Tab")
    expect(page.locator("details.menu[open]")).to_have_count(0)


def test_enter_in_a_delete_dialog_deletes_nothing(window: Opening, thread: Thread, rest: httpx.Client):
    thread.post("keep me")
    page = window(f"#/threads/{thread.id}")
    page.get_by_label("Thread menu").click()
    page.get_by_role("menuitem", name="Delete").click()
    expect(page.locator("dialog").get_by_role("button", name="Cancel")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("dialog")).to_have_count(0)
    assert rest.get(thread.path).status_code == 200


NO_CLIPBOARD = "Object.defineProperty(navigator, 'clipboard', { value: undefined });"  # as over plain HTTP


def test_text_is_copied_also_where_the_browser_has_no_clipboard_api(window: Opening, thread: Thread):
    thread.post("one\n\n```\nx = 1\ny = 2\n```")
    page = window("healthz")
    page.add_init_script(NO_CLIPBOARD)
    page.goto(page.url.replace("healthz", f"#/threads/{thread.id}"))
    box = page.get_by_label("Message", exact=True)
    page.get_by_label("Copy the code").click()
    expect(page.locator(".code .copy")).to_have_text("Copied")
    box.press("Control+v")
    expect(box).to_have_value("x = 1\ny = 2")
    page.locator(".message:not(.pending)").hover()
    page.locator(".message").get_by_label("More").click()
    page.get_by_role("menuitem", name="Copy text").click()
    expect(page.locator(".notices")).to_contain_text("Text copied.")
    box.fill("")
    box.press("Control+v")
    expect(box).to_have_value("one\n\n```\nx = 1\ny = 2\n```")


def test_a_new_token_is_copied_from_its_dialog_without_the_clipboard_api(window: Opening):
    page = window("healthz")
    page.add_init_script(NO_CLIPBOARD)
    page.goto(page.url.replace("healthz", "#/administration"))
    page.get_by_role("button", name="New token").click()
    page.get_by_label("Name").fill(word("copied"))
    page.get_by_role("button", name="Create").click()
    secret = page.locator("dialog code").inner_text()
    page.locator("dialog").get_by_label("Copy").click()
    expect(page.locator(".notices")).to_contain_text("Copied.")
    page.get_by_role("button", name="Done").click()
    search = page.get_by_label("Search everything", exact=True)
    search.press("Control+v")
    expect(search).to_have_value(secret)


def test_it_says_so_when_nothing_could_be_copied(window: Opening, thread: Thread):
    thread.post("```\nx\n```")
    page = window("healthz")
    page.add_init_script(NO_CLIPBOARD + "document.execCommand = () => false;")
    page.goto(page.url.replace("healthz", f"#/threads/{thread.id}"))
    page.get_by_label("Copy the code").click()
    expect(page.locator(".code .copy")).to_have_text("Not copied")
    page.locator(".message:not(.pending)").hover()
    page.locator(".message").get_by_label("More").click()
    page.get_by_role("menuitem", name="Copy link").click()
    expect(page.locator(".notices")).to_contain_text("does not allow copying")


def test_every_focused_element_shows_it(window: Opening, thread: Thread, rest: httpx.Client):
    message = thread.post("see [this](https://example.org)")
    rest.post(f"/api/messages/{message['id']}/reactions", json={"reaction": "agree", "agent_id": "human:Zoe"})
    page = window(f"#/threads/{thread.id}")
    expect(page.locator(".message")).to_have_count(1)
    shown = """() => {
        const here = document.activeElement;
        if (here === document.body) return "";
        const rings = [here, here.closest("label, .bar, .compose, .button")].filter(Boolean).map((e) => getComputedStyle(e));
        const isSeen = rings.some((s) => (s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0) || s.boxShadow !== "none");
        return isSeen ? "" : here.outerHTML.slice(0, 160);
    }"""
    for path in (f"threads/{thread.id}", "search?q=see", "library", "agents", "overview", "import"):
        page.evaluate(f"location.hash = '#/{path}'")
        expect(page.locator(".pane .head h1").first).to_be_visible()
        page.evaluate("document.activeElement?.blur()")
        for _ in range(20):
            page.keyboard.press("Tab")
            assert page.evaluate(shown) == "", path


def test_it_fits_a_phone(window: Opening, thread: Thread):
    thread.post("a" * 300 + " " + "word " * 80 + "\n\n```\n" + "x" * 300 + "\n```")
    page = window("#/threads", viewport={"width": 390, "height": 800}, has_touch=True, is_mobile=True)
    fits = "() => Math.max(document.documentElement.scrollWidth, innerWidth) <= 390"
    page.locator(f"[data-thread='{thread.id}']").click()
    expect(page.locator(".message")).to_be_visible()
    assert page.evaluate(fits)
    expect(page.locator(".list")).to_be_hidden()
    page.get_by_label("Message", exact=True).fill("from the train")
    page.get_by_label("Send").click()
    expect(page.locator(".message")).to_have_count(2)
    page.locator(".message").last.tap()
    page.get_by_label("React", exact=True).tap()
    expect(page.get_by_label("Another reaction")).to_be_in_viewport(ratio=1)
    page.get_by_role("button", name="important").tap()
    expect(page.locator(".pill")).to_have_text("important")
    page.get_by_label("Back to threads").click()
    expect(page.locator(f"[data-thread='{thread.id}']")).to_be_visible()
    for name in ("threads", "search?q=word", "library", "agents", "overview", "import", "log"):
        page.evaluate(f"location.hash = '#/{name}'")
        expect(page.locator(f"[data-view='{name.partition('?')[0]}'] .scroll, .list").first).to_be_visible()
        assert page.evaluate(fits), name


CONTRAST = """() => {
    const channel = (v) => ((v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
    const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (colour) => {
        paint.clearRect(0, 0, 1, 1); paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
        return [...paint.getImageData(0, 0, 1, 1).data];
    };
    const ground = (element) => {
        const layers = [];
        for (let e = element; e; e = e.parentElement) {
            const colour = rgba(getComputedStyle(e).backgroundColor);
            layers.push(colour);
            if (colour[3] === 255) break;
        }
        return layers.reverse().reduce((under, [r, g, b, a]) => [r, g, b].map((v, i) => (v * a + under[i] * (255 - a)) / 255), [255, 255, 255]);
    };
    const poor = [];
    for (const element of document.querySelectorAll("#app *")) {
        const own = [...element.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || element.dataset.initials;
        const style = getComputedStyle(element);
        if (!own || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || element.closest(":disabled, .hidden, .skip")) continue;
        const text = rgba(style.color);
        if (text[3] < 255) continue;
        const [a, b] = [light(text), light(ground(element))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < 4.5) poor.push(`${element.className || element.tagName}: ${element.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
    }
    return poor;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read_and_all_controls_have_names(
    window: Opening, thread: Thread, rest: httpx.Client, scheme: str
):
    agent = rest.post("/api/agents/register", json={"display_name": word("Rook"), "model": "m-1"}).json()
    first = thread.post("the *first* `one`", author="Ann", priority="urgent")
    thread.post("for people", metadata={"visibility": "human_only"}, reply_to_msg_id=first["id"])
    thread.post("an agent's", author=agent["agent_id"])
    rest.post(f"/api/messages/{first['id']}/reactions", json={"reaction": "agree", "agent_id": "human:human"})
    rest.put(f"/api/messages/{first['id']}", json={"content": "the *first* `one`, edited"})
    note = rest.post("/api/notes", json={"title": "A note", "content": "> *words*", "keywords": ["tag"]}).json()["id"]
    seen = {
        f"threads/{thread.id}?message={first['id']}": ".message.found",
        "threads": ".threads a",
        "search?q=first": ".hit",
        "library": ".cards a",
        f"open/notes/{note}?edit=1": ".sheet",
        f"open/notes/{note}": ".prose",
        "agents": ".people li",
        "log": ".log .scroll",
        "overview": ".tiles",
        "import": ".drop",
    }
    page = window("#/threads", color_scheme=scheme)
    for path, there in seen.items():
        page.evaluate(f"location.hash = '#/{path}'")
        expect(page.locator(there).first).to_be_visible()
        assert page.evaluate(CONTRAST) == []
        nameless = """() => [...document.querySelectorAll("button, a[href], input, select, textarea, summary")]
            .filter((e) => e.checkVisibility() && !e.closest("[aria-hidden=true]"))
            .filter((e) => !(e.textContent.trim() || e.getAttribute("aria-label") || e.labels?.length || e.querySelector("img[alt]:not([alt=''])")))
            .map((e) => e.outerHTML.slice(0, 120))"""
        assert page.evaluate(nameless) == []


def test_reduced_motion_is_respected(window: Opening):
    page = window("#/threads", reduced_motion="reduce")
    page.get_by_label("New thread").click()
    longest = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll('*')].map((e) => parseFloat(getComputedStyle(e).transitionDuration) || 0))"
    )
    assert longest <= 0.001
