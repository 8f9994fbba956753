"""`make bench ARGS=console`: what the console costs in Chromium.

A thread of 10,000 messages is scrolled up by 2,000 messages, and a session of 10,000 steps from its start to its end. Other
figures: a key in the box beside 500 threads, 100 messages that arrive at once, and the first visit.

On a shared machine a frame is late when others work. So each frame is also measured by the processor time of the page's
main thread: script, style, layout and paint. The targets are compared with this time.
"""

from __future__ import annotations

import json
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any
from uuid import uuid4

from playwright.sync_api import Browser, Page, sync_playwright

from measure import percentile
from ours import Ours

MESSAGES = 10_000
STEPS = 10_000
THREADS = 500
AT_ONCE = 100
SLOW_DOWN = 4
FRAME_LIMIT = 33.0
KEY_LIMIT = 4.0
AT_ONCE_LIMIT = 500.0
VISIT_LIMIT = 150_000
REQUEST_LIMIT = 20

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CATEGORIES = ["devtools.timeline", "toplevel"]
SCRIPT = {"EventDispatch", "FunctionCall", "RunMicrotasks", "TimerFire", "FireAnimationFrame", "EvaluateScript"}
CODE = (
    'def wait(attempt: int) -> float:\n    """Seconds until the next try."""\n    return min(60.0, 0.5 * 2**attempt)\n'
)
TABLE = "| attempt | seconds |\n|---|---|\n| 1 | 1.0 |\n| 5 | 16.0 |"

COUNT_FRAMES = """() => {
    window.frames_ = [];
    const count = (at) => { window.frames_.push(at); window.counting = requestAnimationFrame(count); };
    window.counting = requestAnimationFrame(count);
    window.longTasks = [];
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((one) => one.duration)))
        .observe({ type: "longtask" });
}"""
DRAG = """async ([selector, seconds, from, to]) => {
    const box = document.querySelector(selector);
    const start = performance.now();
    for (let part = 0; part < 1; ) {
        part = Math.min(1, (await new Promise(requestAnimationFrame) - start) / seconds / 1000);
        box.scrollTop = (from + (to - from) * part) * (box.scrollHeight - box.clientHeight);
    }
}"""
SHOWN = """(seq) => new Promise((done) => {
    const check = () => {
        if (document.querySelector(`.message[data-seq="${seq}"]`)) setTimeout(() => done(performance.now()));
        else requestAnimationFrame(check);
    };
    requestAnimationFrame(check);
})"""


@dataclass
class Line:
    what: str
    figure: str
    target: str
    is_met: bool | None = None


def message(number: int) -> str:
    """Mostly short messages, some with lists, quotes, code and tables."""
    if number % 10 == 1:
        return f"The retry of run {number} waits longer now:\n\n```python\n{CODE}```\n\nPlease look at it."
    if number % 10 == 4:
        return f"Measured in run {number}:\n\n{TABLE}\n\n> It was **1.0** each time before."
    if number % 3 == 0:
        return f"Message **{number}**: the importer read `conversations.json` again.\n\n- one thing\n- another thing"
    return f"Number {number}: the build is green, and @rook looks at the log. " + "More words follow here. " * (
        number % 5
    )


def turns(count: int) -> list[dict[str, Any]]:
    """A coding session: a question, calls with output, edits, failures, and an answer, again and again."""
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    made: list[dict[str, Any]] = []

    def add(role: str, content: str, **tool: Any) -> None:
        at = (start + timedelta(seconds=2 * len(made))).isoformat()
        made.append({"id": uuid4().hex, "role": role, "content": content, "ts": at, **({"tool": tool} if tool else {})})

    steps = 0
    while steps < count:
        call = f"c{steps}"
        match steps % 8:
            case 0:
                add("user", f"Part {steps}: make the **retry** wait longer, and run `pytest`.")
            case 7:
                add("assistant", message(steps * 10 + 1))
            case 3:
                edit = json.dumps({"file_path": "/src/retry.py", "old_string": "return 1.0\n", "new_string": CODE})
                add("tool", f"[tool Edit] {edit}", call=call)
                add("tool", "The file has been updated.", call=call)
            case kind:
                command = json.dumps({"command": f"pytest -q tests/test_{steps}.py"})
                add("tool", f"[tool Bash] {command}", call=call)
                output = "\n".join(f"tests/test_{steps}.py::test_{n} PASSED" for n in range(kind * 6))
                add("tool", output or "ok", call=call, **({"is_error": True} if kind == 5 else {}))
        steps += 1
    return made


def fill(ours: Ours) -> tuple[str, str]:
    """Returns the addresses of the thread and the session."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: ours.create_thread(f"topic {number}"), range(THREADS)))
    thread = ours.create_thread("a long thread")
    for number in range(1, MESSAGES + 1):
        body = {"author": f"agent{number // 3 % 5}", "content": message(number)}
        ours.client.post(f"/api/threads/{thread}/messages", json=body).raise_for_status()
    ours.client.put(f"/api/threads/{thread}/read-mark", json={"seq": MESSAGES}).raise_for_status()
    all_turns = turns(STEPS)
    for first in range(0, len(all_turns), 1000):
        path = "/api/v1/agents/coder/sessions/long/messages"
        ours.client.put(path, json={"turns": all_turns[first : first + 1000]}).raise_for_status()
    [agent] = {one["agent_id"] for one in ours.client.get("/api/v1/sessions").json()["sessions"]}
    place = json.dumps({"agent_id": agent, "session_id": "long"}, separators=(",", ":"))
    return f"#/threads/{thread}", f"#/open/sessions/{agent}%2Flong?loc={place}"


class Trace:
    """The processor time of the page's main thread, from a trace of Chromium."""

    def __init__(self, content: bytes) -> None:
        events = json.loads(content)["traceEvents"]
        frames = [one for one in events if one["name"] == "FireAnimationFrame"]
        main = {(one["pid"], one["tid"]) for one in frames or events if one["name"] != "process_name"}
        ours = [one for one in events if (one["pid"], one["tid"]) in main and one.get("ph") == "X"]
        self.tasks = outermost([one for one in ours if one["name"].endswith("RunTask")])
        self.script = outermost([one for one in ours if one["name"] in SCRIPT])
        self.frames = sorted({one["ts"] for one in frames})
        self.keys = sorted(one["ts"] for one in ours if one["name"] == "EventDispatch"
                           and one["args"]["data"]["type"] == "keydown")  # fmt: skip

    def by_frame(self) -> list[float]:
        """Milliseconds of each frame. A frame has many callbacks at one time."""
        starts = [at for before, at in pairwise(self.frames) if at - before > 2000]
        return self._between(starts, self.tasks)

    def script_by_key(self) -> list[float]:
        return self._between(self.keys, self.script)

    @staticmethod
    def _between(starts: list[float], spent: list[tuple[float, float]]) -> list[float]:
        sums = [0.0] * len(starts)
        for at, milliseconds in spent:
            if place := bisect_right(starts, at):
                sums[place - 1] += milliseconds
        return sums[:-1]


def outermost(events: list[dict[str, Any]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    end = 0.0
    for one in sorted(events, key=lambda one: (one["ts"], -one["dur"])):
        if one["ts"] < end:
            continue
        end = one["ts"] + one["dur"]
        found.append((one["ts"], one.get("tdur", one["dur"]) / 1000))
    return found


@contextmanager
def opened(browser: Browser, ours: Ours, path: str, there: str) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(60_000)
    page.goto(f"{ours.url}/{path}")
    page.locator(there).first.wait_for()
    page.wait_for_timeout(1500)
    yield page
    context.close()


def traced(browser: Browser, page: Page, act: Callable[[], object]) -> Trace:
    browser.start_tracing(page=page, categories=CATEGORIES)
    try:
        act()
    finally:
        content = browser.stop_tracing()
    return Trace(content)


def scrolled(browser: Browser, page: Page, name: str, act: Callable[[], object]) -> list[Line]:
    page.evaluate(COUNT_FRAMES)
    trace = traced(browser, page, act)
    frames = page.evaluate("() => { cancelAnimationFrame(window.counting); return window.frames_; }")
    long = page.evaluate("window.longTasks")
    spent = trace.by_frame()
    gaps = [later - earlier for earlier, later in pairwise(frames)]
    p95 = percentile(spent, 95)
    return [
        Line(f"{name}: work of a frame, p50 / p95 / max ms",
             f"{percentile(spent, 50):.1f} / {p95:.1f} / {max(spent):.0f}", f"p95 ≤ {FRAME_LIMIT:.0f}", p95 <= FRAME_LIMIT),
        Line(f"{name}: time between {len(gaps):,} frames, p50 / p95 ms",
             f"{percentile(gaps, 50):.1f} / {percentile(gaps, 95):.1f}", ""),
        Line(f"{name}: tasks over 50 ms, longest ms", f"{len(long)}, {max(long, default=0):.0f}", ""),
    ]  # fmt: skip


def wheel(page: Page, box: str, delta: int, is_done: str) -> None:
    """Turn the wheel, about 60 times a second, until the end."""
    area = page.locator(box).bounding_box()
    assert area
    page.mouse.move(area["x"] + area["width"] / 2, area["y"] + area["height"] / 2)
    until = time.monotonic() + 150
    turned = 0
    while time.monotonic() < until:
        page.mouse.wheel(0, delta)
        time.sleep(0.016)
        turned += 1
        if turned % 25 == 0 and page.evaluate(is_done):
            return
    raise TimeoutError("the wheel did not reach the end")


def drag_up(page: Page, is_done: str) -> None:
    """Drag the scroll bar up, again and again: the page holds only a part of the messages."""
    until = time.monotonic() + 200
    while not page.evaluate(is_done):
        assert time.monotonic() < until, "the messages above were not reached"
        page.evaluate(DRAG, [".talk .scroll", 0.5, 1, 0])


def scrolling(browser: Browser, ours: Ours, thread: str, session: str) -> list[Line]:
    lines = []
    far = f"Number(document.querySelector('.message[data-seq]').dataset.seq) < {MESSAGES * 0.8}"
    with opened(browser, ours, thread, ".message") as page:
        lines += scrolled(browser, page, "thread, wheel", lambda: wheel(page, ".talk .scroll", -300, far))
    with opened(browser, ours, thread, ".message") as page:
        lines += scrolled(browser, page, "thread, scroll bar", lambda: drag_up(page, far))
    last = "(box => box.scrollTop + box.clientHeight > box.scrollHeight - 5)(document.querySelector('.pane > .scroll'))"
    with opened(browser, ours, session, ".step") as page:
        lines += scrolled(browser, page, "replay, wheel", lambda: wheel(page, ".pane > .scroll", 1000, last))
    with opened(browser, ours, session, ".step") as page:
        drag = partial(page.evaluate, DRAG, [".pane > .scroll", 20, 0, 1])
        lines += scrolled(browser, page, "replay, scroll bar", drag)
    return lines


def typing(browser: Browser, ours: Ours, thread: str) -> list[Line]:
    with opened(browser, ours, thread, ".message") as page:
        box = page.locator(".compose textarea")
        box.press_sequentially("warm up the page. ", delay=30)
        trace = traced(browser, page, lambda: box.press_sequentially("Somebody writes a message here. " * 4, delay=40))
    spent = trace.script_by_key()
    p95 = percentile(spent, 95)
    return [Line(f"a key in the box, {THREADS} threads: script, p50 / p95 ms",
                 f"{percentile(spent, 50):.1f} / {p95:.1f}", f"≤ {KEY_LIMIT:.0f}", p95 <= KEY_LIMIT)]  # fmt: skip


def arriving(browser: Browser, ours: Ours) -> list[Line]:
    """Messages of five agents, posted as quickly as one client can, into a page whose processor is slowed down."""
    thread = ours.create_thread("many at once")
    for number in range(20):
        ours.client.post(f"/api/threads/{thread}/messages", json={"author": "ann", "content": message(number)})
    took: list[float] = []
    with opened(browser, ours, f"#/threads/{thread}", ".message") as page:
        page.context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": SLOW_DOWN})

        def post_all() -> None:
            page.evaluate("() => { window.began = performance.now() }")
            with ThreadPoolExecutor(1) as pool:
                sent = pool.submit(post, ours, thread)
                shown = page.evaluate(SHOWN, 20 + AT_ONCE)
                posted = sent.result()
                took.extend((shown - page.evaluate("window.began"), posted))

        trace = traced(browser, page, post_all)
    spent = sum(milliseconds for _, milliseconds in trace.tasks)
    name = f"{AT_ONCE} messages at once, processor {SLOW_DOWN} times slower"
    return [
        Line(f"{name}: work of the page, ms", f"{spent:.0f}", ""),
        Line(f"{name}: from the first post to the last message shown, ms", f"{took[0]:.0f}", ""),
        Line(f"{name}: of that until the last post was answered, ms", f"{took[1]:.0f}", ""),
        Line(f"{name}: from the last answer to the last message shown, ms", f"{took[0] - took[1]:.0f}",
             f"≤ {AT_ONCE_LIMIT:.0f}", took[0] - took[1] <= AT_ONCE_LIMIT),
    ]  # fmt: skip


def post(ours: Ours, thread: str) -> float:
    """Returns the milliseconds until all were answered."""
    began = time.perf_counter()
    for number in range(AT_ONCE):
        body = {"author": f"agent{number % 5}", "content": message(number)}
        ours.client.post(f"/api/threads/{thread}/messages", json=body).raise_for_status()
    return (time.perf_counter() - began) * 1000


def visiting(browser: Browser, ours: Ours, thread: str) -> list[Line]:
    """All that the first visit loads, also while the browser is idle, except the colours of code in view."""
    with opened(browser, ours, thread, ".message") as page:
        page.wait_for_timeout(3000)
        loaded = page.evaluate("performance.getEntriesByType('resource').map((one) => [one.name, one.transferSize])")
        own = page.evaluate("performance.getEntriesByType('navigation')[0].transferSize")
    colours = ("/syntax/", "/highlightjs/")
    sizes = [
        own,
        *(size for name, size in loaded if size and not any(part in name for part in colours)),
    ]  # 0: from the cache
    name = f"first visit to a thread, {THREADS} threads"
    return [
        Line(f"{name}: kB", f"{sum(sizes) / 1000:.0f}", f"≤ {VISIT_LIMIT // 1000}", sum(sizes) <= VISIT_LIMIT),
        Line(f"{name}: requests", f"{len(sizes)}", f"≤ {REQUEST_LIMIT}", len(sizes) <= REQUEST_LIMIT),
    ]


def main() -> int:
    chromium = next(filter(None, map(shutil.which, BROWSERS)), None)
    if chromium is None:
        print("Chromium not found. Run tools/ensure-chromium.")
        return 2
    with Ours() as ours:
        thread, session = fill(ours)
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            lines = visiting(browser, ours, thread) + scrolling(browser, ours, thread, session)
            lines += typing(browser, ours, thread) + arriving(browser, ours)
            browser.close()
    print("| what | figure | target | met |\n|---|---|---|---|")
    for line in lines:
        met = "" if line.is_met is None else "✓" if line.is_met else "✗"
        print(f"| {line.what} | {line.figure} | {line.target} | {met} |")
    return 0 if all(line.is_met is not False for line in lines) else 1
