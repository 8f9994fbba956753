"""A question that names who said it: what that speaker said comes first, and the name is no word to look for."""

from __future__ import annotations

import httpx
import pytest
from tests.helpers import Mcp, Thread, word
from tests.search.test_time import ask

from palaver.search.question import parse
from palaver.search.speaker import _possible_names


def chat(api: httpx.Client, *said: tuple[str, str]) -> None:
    id = api.post("/api/chats", json={"title": word()}).json()["id"]
    for sender, content in said:
        api.post(f"/api/chats/{id}/messages", json={"sender": sender, "content": content}).raise_for_status()


def senders(answer: dict) -> list[str]:
    return [hit["sender"] for hit in answer["results"]]


@pytest.mark.parametrize(
    "query",
    [
        "What did {name} say about the {topic}?",
        "What has {name} ever written about the {topic}",
        "{name} said the {topic} is what?",
        "messages by {name} about the {topic}",
        "what is {name}'s opinion on the {topic}?",
        "According to {name}, which colour has the {topic}?",
        "Was hat {name} zum {topic} gesagt?",
        "Was sagt {name} zu {topic}?",
        "laut {name} ist {topic} welche Farbe?",
    ],
)
def test_what_the_speaker_said_comes_first_and_others_follow(api: httpx.Client, query: str):
    speaker, other, topic = word("Bo"), word("Ann"), word()
    chat(api, (other, f"{speaker} {speaker} and the {topic}: {speaker} says {topic}"), (speaker, f"a blue {topic}"))
    asked = query.format(name=speaker, topic=topic)
    found = senders(ask(api, asked))
    assert found[0] == speaker
    assert other in found


def test_a_speaker_has_a_first_name_and_a_handle(api: httpx.Client):
    first, last, handle, topic = word("Bo"), word("Ng"), word("bo"), word()
    full, dashed = f"{first} {last}", f"{handle}-b"
    chat(api, ("Ann", f"{first} {last} {handle} b {topic}"), (full, f"one {topic}"), (dashed, f"other {topic}"))
    for name, sender in [(first, full), (last.upper(), full), (full.lower(), full), (dashed, dashed)]:
        assert senders(ask(api, f"What did {name} say about the {topic}?"))[0] == sender


def test_what_a_speaker_said_is_found_among_many_others_whatever_its_words(api: httpx.Client):
    speaker, topic = word("Bo"), word()
    chat(
        api, (speaker, f"a {topic}"), *[("Ann", f"the {topic} of {n} that {speaker} {speaker} had") for n in range(30)]
    )
    chat(api, (speaker, "nothing of the kind"))
    assert senders(ask(api, f"What did {speaker} say about the {topic}?", limit=2))[0] == speaker
    found = ask(api, f"What did {speaker} say about the {topic}?", limit=40)["results"]
    assert {"nothing of the kind", f"a {topic}"} <= {hit["snippet"] for hit in found}
    assert sum(f"the {topic}" in hit["snippet"] for hit in found) == 30


def test_a_name_of_which_nothing_is_known_is_a_word(api: httpx.Client):
    unknown, topic = word("Bo"), word()
    chat(api, ("Ann", f"the {topic} is red"), ("Cleo", f"{unknown} wants a {topic}"))
    found = ask(api, f"What did {unknown} say about the {topic}?")["results"]
    # The workspace has texts of other tests, too.
    assert [hit["sender"] for hit in found if topic in hit["snippet"]] == ["Cleo", "Ann"]


def test_an_agent_is_asked_for_by_its_display_name(mcp: Mcp, thread: Thread, api: httpx.Client):
    name, topic = word("Bo"), word()
    joined = mcp.call("bus_connect", thread_name=f"about {topic}", display_name=name, ide="Codex", model="m")
    thread_id, author = joined["thread"]["thread_id"], joined["agent"]["agent_id"]
    thread.post(f"{name} {topic} {name}", author=None)
    mcp.call("msg_post", thread_id=thread_id, content=f"a blue {topic}", author=author)
    answer = ask(api, f"What did {name} say about the {topic}?", sources=["bus"])
    assert senders(answer)[0] == name


@pytest.mark.parametrize("asking", ["Who said", "Wer hat gesagt:", "Qui a dit", "¿Quién dijo"])
def test_who_said_something_is_not_a_question_for_the_word_said(api: httpx.Client, asking: str):
    topic, other = word(), word()
    chat(api, ("Bob", f"a {topic} of {other}"))
    answer = ask(api, f"{asking} {topic} {other}?")
    assert answer["matched"] == "all words"  # Bob's message need not say "said"


@pytest.mark.parametrize(
    "text",
    ["what it says on the door", "did you say so?", "the client asked for it", "questions of the day", "he said so"],
)
def test_pronouns_and_things_are_no_speakers(text: str):
    assert list(_possible_names(parse(text).words)) == []
