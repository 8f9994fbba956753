"""Follow-ups of a message: the turn that answers it, and a later turn that corrects it.

Two lookups serve a whole page: the passages that come after the results (without their texts), and the texts of the
few that may be follow-ups. The hits of the search show which passages are about the same topic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache, partial
from typing import NamedTuple

from palaver.model import visibility
from palaver.model.people import Caller
from palaver.model.search import FoundPassage
from palaver.search.hits import Hits
from palaver.search.results import Results
from palaver.search.sources import SOURCES
from palaver.store.engines.database import Reader
from palaver.store.search import found_passages
from palaver.text.tokenize import stem, tokens

ANSWER_WITHIN = 4
"""An answer comes within this many turns."""
CORRECTION_WITHIN = 400
"""A correction comes within this many turns."""
MOST_CORRECTIONS = 20
"""Later turns about the same topic that are read for one result, the last ones first."""
LONGEST_CORRECTION = 20_000
"""How many characters of a text are read to see whether it takes something back."""
MOST_READ = 150
"""Turns that are read for one page."""
SAME_TOPIC = 0.3
"""A turn is about the same topic if it covers this share of what the result covers of the question."""
LONGEST_QUESTION = 600
"""In a text with more characters, a question in the middle does not count."""
SHORTEST_ANSWER = 200
"""A text that ends with a question and has fewer characters is not an answer."""
KEPT = 300
"""Texts of which it is kept what they take back: several results, and the next question, look at the same ones."""
CLOSE = 200
"""Characters between the words that correct something and the topic."""

_ANSWERING_ROLES = frozenset({"assistant", "ai", "model", "bot", "system", "tool"})
_SILENT_ROLES = frozenset({"system", "tool"})
_ASKS = re.compile(r"[?？؟](?=[\s\"'”’)\]*_]|$)")
_ENDS_ASKING = re.compile(r"[?？؟][\s\"'”’)\]*_]*$")

# Searching for each of these is three times as fast as one regular expression for all of them.
_CORRECTING = (
    "actually", "turns out", "turned out", "no longer", "any more", "anymore", "changed my mind", "changed our minds",
    "changed his mind", "changed her mind", "changed their minds", "change of plan", "change of mind", "plan changed",
    "plans changed", "second thought", "scratch that", "strike that", "never mind", "nevermind", "correction",
    "was wrong", "was mistaken", "were wrong", "my mistake", "instead", "moved to", "moved it", "moved back",
    "switched to", "switched back", "pushed back", "pushed to", "delayed", "postponed", "rescheduled", "called off",
    "canceled", "cancelled", "withdrawn", "superseded", "obsolete", "deprecated", "decided against", "decided not",
    "reverted", "rolled back", "update:", "edit:",
)  # fmt: skip


class FollowUps(NamedTuple):
    answer: FoundPassage | None = None
    later: FoundPassage | None = None


def find_followups(
    read: Reader, caller: Caller, results: Results, passages: Iterable[FoundPassage]
) -> dict[int, FollowUps]:
    """The follow-ups of each passage that the caller may read, by its id."""
    terms, hits, is_hidden = results.question.terms, results.hits, partial(visibility.is_hidden, caller)
    messages = [at for at in passages if SOURCES[at.source].is_conversation and at.position and not is_hidden(at)]
    if not messages:
        return {}
    spans = [(at.document_id, at.position + 1, at.position + CORRECTION_WITHIN) for at in messages]
    after = found_passages.passage_ids_in(read, spans)
    topics = {at.passage_id: hits.weights.own_terms(hits.terms_of(at.passage_id)) if hits else 0 for at in messages}
    next_ids: dict[int, list[int]] = {}
    same_topic: dict[int, list[int]] = {}
    for at in messages:
        following = after.get(at.document_id, {})
        if _speaker(at).lower() not in _ANSWERING_ROLES and asks(at.text):
            places = range(at.position + 1, at.position + 1 + ANSWER_WITHIN)
            next_ids[at.passage_id] = [following[place] for place in places if place in following]
        same_topic[at.passage_id] = _about(topics[at.passage_id], at, following, hits)
    wanted = dict.fromkeys(id for ids in [*next_ids.values(), *same_topic.values()] for id in ids)
    texts = found_passages.by_ids(read, list(wanted)[:MOST_READ]) if wanted else {}
    shown = {id: at for id, at in texts.items() if not is_hidden(at)}
    found = {}
    for at in messages:
        id = at.passage_id
        answer = _answer(at, [shown[other] for other in next_ids.get(id, ()) if other in shown])
        numbers = hits.weights.numbers(topics[id]) if hits else ()
        about = frozenset(stem(word) for number in numbers for word in terms[number].words)
        candidates = sorted((shown[other] for other in same_topic[id] if other in shown), key=lambda at: -at.position)
        later = next((other for other in candidates if corrects(other.text, about)), None)
        if answer or later:
            found[id] = FollowUps(answer, later)
    return found


def _speaker(at: FoundPassage) -> str:
    """Who speaks. All turns of a session have the same author, so there it is the role."""
    return (at.role if at.source == "sessions" else at.author or at.role) or ""


def _answer(question: FoundPassage, next_ones: Sequence[FoundPassage]) -> FoundPassage | None:
    """The message that replies to the question; else the next one by another speaker that says something."""
    for at in next_ones:
        if at.marks.get("reply_to_msg_id") == question.native_id:
            return at
    for at in next_ones:
        is_other = _speaker(at) != _speaker(question) and (at.role or "").lower() not in _SILENT_ROLES
        replies_elsewhere = at.marks.get("reply_to_msg_id") is not None
        if is_other and not replies_elsewhere and at.text.strip() and not asks_back(at.text):
            return at
    return None


def _about(topic: int, at: FoundPassage, following: Mapping[int, int], hits: Hits | None) -> list[int]:
    """The last of the later turns that are about the same topic."""
    if hits is None or not topic:
        return []
    weights, enough = hits.weights, SAME_TOPIC * hits.weights.cover(topic)
    same = [ids for terms, ids in hits.by_terms.items() if terms & topic and weights.cover(terms & topic) >= enough]
    later = [id for place, id in following.items() if place > at.position]
    found = set[int]().union(*(ids.intersection(later) for ids in same))
    return [id for id in later if id in found][-MOST_CORRECTIONS:]


def asks(text: str) -> bool:
    """Whether a text asks something. A long text must end with the question."""
    if len(text) <= LONGEST_QUESTION:
        return bool(_ASKS.search(text))
    return bool(_ENDS_ASKING.search(text[-40:]))


def asks_back(text: str) -> bool:
    """Whether a text is nothing but a question."""
    return len(text) < SHORTEST_ANSWER and bool(_ENDS_ASKING.search(text))


def corrects(text: str, about: AbstractSet[str]) -> bool:
    """Whether a text takes something back, close to a word with one of these stems."""
    return any(not about.isdisjoint(near) for near in _near_corrections(text[:LONGEST_CORRECTION]))


@lru_cache(maxsize=KEPT)
def _near_corrections(text: str) -> tuple[frozenset[str], ...]:
    """The stems of the words close to each word that takes something back."""
    lower, found = text.lower(), list[frozenset[str]]()
    for words in _CORRECTING:
        place = lower.find(words)
        while place >= 0:
            end = place + len(words)
            is_whole = not (place and lower[place - 1].isalnum()) and not lower[end : end + 1].isalpha()
            if is_whole and not (words == "instead" and lower.startswith(" of", end)):
                near = tokens(text[max(0, place - CLOSE) : place + CLOSE])
                found.append(frozenset(stem(token.word) for token in near))
            place = lower.find(words, end)
    return tuple(found)
