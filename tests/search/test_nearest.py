"""Candidates by meaning: the nearest vectors are found, in scope, and what is out of scope changes nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evaluate
from labelled_questions import Line, Talk, World
from palaver.app import App
from palaver.model.people import Caller
from palaver.model.search import ResultItem
from palaver.operations.search.knowledge import SearchKnowledge, search_knowledge
from palaver.search.question import parse
from palaver.search.ranking import score
from palaver.search.vectors import encoders, nearest
from palaver.search.vectors.nearest import Nearest, SignIndex
from palaver.search.vectors.onnx_models import MiniLM
from palaver.settings import Settings
from palaver.store.engines.database import Change, Scope
from palaver.store.search import found_passages, vectors
from palaver.store.search.vectors import Missing, StoredVector
from palaver.store.workspaces import Workspace

MODEL = encoders.stored_name("minilm")
SAID = [
    "The cat gets tuna from a tin every morning, and biscuits at night.",
    "Our flight to Lisbon leaves at seven from terminal two.",
    "I moved the nightly backups to the new storage server.",
    "The plumber fixed the leaking tap in the kitchen.",
    "We chose green tiles for the bathroom.",
    "My sister plays the cello in an orchestra.",
]


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM()


@pytest.fixture
async def here(database_url: str, tmp_path: Path) -> AsyncIterator[Workspace]:
    app = App(Settings(home=tmp_path, database_url=database_url, model="minilm"))
    yield await app.create_workspace("nearest")
    await app.close()


def stored(rows: np.ndarray, first: int = 1) -> list[StoredVector]:
    packed = encoders.packed(rows)
    return [StoredVector(first + n, 1_000 + n, vector) for n, vector in enumerate(packed)]


async def say(here: Workspace, model: MiniLM, texts: Sequence[str], talk: str = "talk") -> None:
    """Store messages with their vectors."""
    lines = tuple(Line(str(n), "Ann", text, datetime(2026, 3, 1, tzinfo=UTC)) for n, text in enumerate(texts, 1))
    await evaluate.add_conversations(here, World("w", (Talk(talk, "", lines),), ()))

    def put(change: Change) -> None:
        rows = [row for row in change.all("live_passages", after=-1, limit=1000) if row["text"] in texts]
        made = encoders.packed(model([row["text"] for row in rows]))
        vectors.put(
            change, MODEL, [(Missing(row["id"], row["text"]), one) for row, one in zip(rows, made, strict=True)]
        )

    await here.change(put)


async def ask(here: Workspace, query: str) -> list[str]:
    request = SearchKnowledge(query=query, dedupe=False)
    answer = await search_knowledge.work(here, Caller("human"), request)
    return [item.snippet or "" for item in answer.results if isinstance(item, ResultItem)]


async def test_a_question_finds_what_has_none_of_its_words(here: Workspace, model: MiniLM):
    await say(here, model, SAID)
    assert (await ask(here, "What do I feed my pet?"))[0].startswith("The cat gets tuna")
    assert (await ask(here, "Who in my family makes music?"))[0].startswith("My sister plays")


async def test_keywords_that_no_passage_has_are_found_by_their_meaning(here: Workspace, model: MiniLM):
    await say(here, model, SAID)
    assert (await ask(here, "pet food"))[0].startswith("The cat gets tuna")
    assert (await ask(here, "musician"))[0].startswith("My sister plays")


@pytest.mark.parametrize("query", ["green tiles", "tiles", "nightly backups storage"])
async def test_keywords_that_a_passage_has_are_found_by_their_words_only(
    here: Workspace, model: MiniLM, query: str, monkeypatch: pytest.MonkeyPatch
):
    await say(here, model, SAID)
    encoded = list[str]()
    monkeypatch.setattr(nearest, "question_vector", lambda read, text: encoded.append(text))
    assert await ask(here, query)
    assert encoded == []
    await ask(here, f"{query} giraffe")
    assert encoded == [f"{query} giraffe"]


@pytest.mark.parametrize("query", ["pet-food", "/home/pet/food", "9f3c2ab7", "feedpetz", "pet foo*"])
async def test_ids_paths_and_unknown_words_have_no_meaning(here: Workspace, model: MiniLM, query: str):
    await say(here, model, SAID)
    assert await ask(here, query) == []


async def test_a_question_in_another_language_is_found_by_its_meaning(here: Workspace, model: MiniLM):
    await say(here, model, ["Das Haus hat einen neuen Anstrich.", "Der Hausmeister repariert die Heizung im Keller."])
    assert "Heizung" in (await ask(here, "Wer kümmert sich um die kaputten Heizkörper?"))[0]


@pytest.mark.parametrize(
    "query, is_latin", [("où est le café ?", True), ("路径编号必须连续吗", False), ("где?", False)]
)
def test_the_model_reads_latin_letters(query: str, is_latin: bool):
    assert parse(query).is_latin is is_latin


async def test_a_question_about_something_else_finds_nothing_unrelated(here: Workspace, model: MiniLM):
    await say(here, model, SAID)
    assert await ask(here, "Which chemical element has the symbol W?") == []


async def test_vectors_that_are_made_later_are_found(here: Workspace, model: MiniLM):
    await say(here, model, SAID[1:])
    assert not any("tuna" in one for one in await ask(here, "What do I feed my pet?"))
    await say(here, model, SAID[:1], "later")
    assert "tuna" in (await ask(here, "What do I feed my pet?"))[0]


async def test_questions_do_not_make_the_index_grow(here: Workspace, model: MiniLM):
    await say(here, model, SAID[:3])
    sizes = []
    for n, text in enumerate(["The parrot eats seeds.", *SAID[3:]]):
        index = await here.read(nearest.index_of)
        assert index is not None
        sizes.append(len(index))
        await say(here, model, [text], f"later {n}")
    assert sizes[-1] == sizes[-2] + 1


async def test_a_passage_without_a_vector_is_found_by_its_words(here: Workspace, model: MiniLM):
    await say(here, model, SAID)
    line = Line("1", "Ann", "The xylophone arrives on Monday.", None)
    await evaluate.add_conversations(here, World("w", (Talk("bare", "", (line,)),), ()))
    assert "xylophone" in (await ask(here, "When does the xylophone arrive?"))[0]


@pytest.mark.parametrize("missing", [1, 2, 4])
async def test_an_answer_with_the_words_is_first_whichever_passages_have_vectors(
    here: Workspace, model: MiniLM, missing: int
):
    await say(here, model, SAID[missing:])
    without = tuple(Line(str(n), "Ann", one, None) for n, one in enumerate(SAID[:missing]))
    await evaluate.add_conversations(here, World("w", (Talk("bare", "", without),), ()))
    assert (await ask(here, "Where does the flight to Lisbon leave?"))[0].startswith("Our flight to Lisbon")


async def test_a_missing_vector_is_estimated_by_the_words(here: Workspace, model: MiniLM):
    bare = ["The airplane to Lisbon departs at eight.", "The cello is being repaired in Lisbon."]
    await say(here, model, SAID)
    lines = tuple(Line(str(n), "Ann", text, None) for n, text in enumerate(bare, 1))
    await evaluate.add_conversations(here, World("w", (Talk("bare", "", lines),), ()))
    request = SearchKnowledge(query="When does the flight to Lisbon leave?", dedupe=False, explain=True)
    answer = await search_knowledge.work(here, Caller("human"), request)
    found = {one.snippet: one.uri for one in answer.results if isinstance(one, ResultItem)}
    near, far = ((answer.explanations or {})[found[text]]["meaning"] for text in bare)
    assert near > far > 0


def test_weights_change_gradually_with_the_share_of_vectors():
    none, half, every = (np.array(score.weights_of("people", share)) for share in (0.0, 0.5, 1.0))
    assert none.tolist() == list(score.in_order(score.weights()["people"]))
    assert every == pytest.approx(score.in_order(score.weights()["people with meaning"]))
    assert half == pytest.approx((none + every) / 2)


async def test_a_large_index_is_loaded_in_the_background(
    here: Workspace, model: MiniLM, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nearest, "LOAD_SECONDS", -1.0)  # one part a question
    monkeypatch.setattr(nearest, "AT_ONCE", 2)
    await say(here, model, SAID)
    await nearest.load_wanted(here)  # nobody has asked yet
    assert await here.read(nearest.index_of) is None
    await say(here, model, ["The parrot eats seeds."], "meanwhile")
    await nearest.load_wanted(here)
    index = await here.read(nearest.index_of)
    assert index is not None
    assert len(index) >= len(SAID) + 1
    assert "tuna" in (await ask(here, "What do I feed my pet?"))[0]


async def test_a_process_without_a_background_loads_a_large_index_with_its_questions(
    here: Workspace, model: MiniLM, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(nearest, "LOAD_SECONDS", -1.0)
    monkeypatch.setattr(nearest, "AT_ONCE", 2)
    await say(here, model, SAID)
    for _ in range(len(SAID) // 2 + 2):
        found = await ask(here, "What do I feed my pet?")
    assert "tuna" in found[0]


async def test_a_model_that_is_off_changes_nothing(database_url: str, tmp_path: Path, model: MiniLM):
    app = App(Settings(home=tmp_path, database_url=database_url, model="words"))
    here = await app.create_workspace("words")
    await say(here, model, SAID)
    assert await here.read(nearest.index_of) is None
    assert await ask(here, "Does anybody own a zebra?") == []
    await app.close()


@dataclass
class Fake:
    """A reader that allows the passages in some scopes."""

    allowed: set[int]


@given(st.integers(1, 400), st.integers(1, 60), st.data())
def test_the_nearest_in_scope_are_the_nearest_of_the_scope(count: int, wanted: int, data: st.DataObject):
    """Passages outside the scope do not change which ones are found, or their order."""
    chance = np.random.default_rng(data.draw(st.integers(0, 1000)))
    rows = chance.standard_normal((count, 100))
    question = chance.standard_normal(100)
    allowed = {id for id in range(1, count + 1) if chance.random() < 0.3}
    index = SignIndex(MODEL)
    index.add(stored(rows))
    alone = SignIndex(MODEL)
    if allowed:
        alone.add([row for row in stored(rows) if row.passage_id in allowed])

    can_list = data.draw(st.booleans())

    def found(index: SignIndex) -> list[int]:
        near = Nearest(index, question)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(nearest, "COMPARED", wanted)
            patch.setattr(nearest, "FEW_IN_SCOPE", 0.4)
            more = {0, *allowed, *range(1, count, 7)}  # the list may have others
            patch.setattr(found_passages, "listed", lambda *_: more if can_list else None)
            patch.setattr(found_passages, "in_scopes", lambda _, ids, __: [id for id in ids if id in allowed])
            return near.in_scope(Fake(allowed), [Scope(("chats",))], wanted)  # type: ignore[arg-type]

    signs = [np.frombuffer(row.vector, np.int8) > 0 for row in stored(rows)]
    by_hand = sorted(allowed, key=lambda id: (int((signs[id - 1] != (question > 0)).sum()), id))
    assert set(found(index)) == set(by_hand[:wanted])
    if allowed:
        assert found(alone) == found(index)


def test_an_index_grows_and_knows_equal_signs():
    chance = np.random.default_rng(3)
    rows = chance.standard_normal((3_000, 384))
    index = SignIndex(MODEL)
    for at in range(0, 3_000, 700):
        index.add(stored(rows[at : at + 700], first=1 + at))
    assert len(index) == 3_000
    near = Nearest(index, rows[41])
    similar = near.similarity([42, 43, 9_999])
    assert similar[42] == pytest.approx(float(np.abs(rows[41]).sum() / np.linalg.norm(rows[41]) / 384**0.5))
    assert abs(similar[43]) < 0.3
    assert 9_999 not in similar
    assert near.best_first([{42, 43}, {44}], [0.0, 0.1], 1.0, (), 0.0)[0] == 42
    assert near.best_first([{42, 43}, {44}], [0.0, 5.0], 1.0, {43}, 9.0)[:2] == [43, 44]


def test_a_model_with_other_dimensions_replaces_the_index():
    index = SignIndex(MODEL)
    index.add(stored(np.random.default_rng(1).standard_normal((5, 384))))
    index.add(stored(np.random.default_rng(1).standard_normal((4, 64))))
    assert len(index) == 4
