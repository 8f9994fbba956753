"""What is seen of a passage, and what it counts."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.search.hits import DocumentCover, TermWeights, cover_of
from palaver.search.question import parse
from palaver.search.ranking.features import Features, Passage, TermMatches, features_of, kind_of
from palaver.search.ranking.score import in_order, weighed_sum, weights
from palaver.search.vectors.word_similarity import Similarity


def passage(text: str, *, position: int = 1, document: int = 1, speaker: str = "Ann", title: str = "", at: int = 0):
    return Passage(position + 100 * document, document, position, "people", speaker, title, text, at)


def seen(question: str, *passages: Passage, meaning: Sequence[float] = ()) -> list[Features]:
    asked = parse(question)
    matches = TermMatches(asked, [1.0 + n for n in range(len(asked.terms))], passages)
    found = [
        (one.document_id, one.position, sum(1 << number for number in {n for _, n in places}))
        for one, places in zip(passages, matches.places, strict=True)
    ]
    nothing = [0.0] * len(passages)
    similarity = Similarity(nothing, nothing, [[0.0] * len(matches.terms)] * len(passages), meaning)
    term_weights = TermWeights(tuple(matches.rarity), (0.0,) * len(matches.rarity))
    return features_of(matches, cover_of(found, term_weights), similarity)


def test_more_of_the_question_counts_more():
    both, one, none = seen(
        "blue boat", passage("a blue boat"), passage("a blue car", position=5), passage("x", position=9)
    )
    assert both.cover == 1.0
    assert 0 < one.cover < both.cover
    assert none.cover == none.words == none.near == 0.0


def test_another_ending_counts_as_the_word_but_not_as_typed():
    (plural,) = seen("boat trips", passage("the boats on their trip"))
    assert plural.cover == 1.0
    assert plural.exact == 0.0


def test_words_side_by_side_are_seen():
    close, far = seen("blue boat", passage("the blue boat"), passage("blue " + "sky " * 30 + "boat", position=5))
    assert close.pairs == 1.0
    assert far.pairs == 0.0
    assert close.near > far.near


def test_features_include_the_neighbours_and_the_whole_document():
    first, second, _, alone = seen(
        "blue boat",
        passage("is it a blue boat?"),
        passage("yes", position=2),
        passage("indeed", position=3),
        passage("yes", document=2),
    )
    assert second.before == first.cover
    assert second.answers == 1.0
    assert second.document == 1.0
    assert alone.before == alone.answers == alone.document == 0.0


def test_the_one_who_is_named_in_the_question_is_the_speaker_and_no_word_to_find():
    ann, bob = seen(
        "What did Ann paint?", passage("I did paint a boat"), passage("Ann, will you paint?", speaker="Bob")
    )
    assert (ann.speaker, bob.speaker) == (1.0, 0.0)
    assert ann.cover == bob.cover == 1.0


def test_a_time_counts_only_where_one_is_asked_for():
    asked, not_asked = "When did we sail?", "How did we sail?"
    assert seen(asked, passage("we sailed yesterday"))[0].time == 1.0
    assert seen(asked, passage("we sailed well"))[0].time == 0.0
    assert seen(not_asked, passage("we sailed yesterday"))[0].time == 0.0


def test_a_phrase_is_found_where_its_words_follow_each_other():
    whole, torn = seen("rock'n'roll", passage("some rock'n'roll today"), passage("roll n rock", position=5))
    assert whole.cover == 1.0
    assert torn.cover == 0.0


def test_words_that_signs_join_are_found_where_all_of_them_are():
    said = [passage("in node.js today"), passage("js of a node", position=5), passage("a node", position=9)]
    whole, apart, part = seen("node.js", *said)
    assert (whole.cover, apart.cover, part.cover) == (1.0, 1.0, 0.0)
    assert whole.exact > apart.exact == 0.0


def test_the_latest_is_the_newest():
    old, new = seen("What is my current job?", passage("my job", at=1), passage("my job", position=5, at=9))
    assert (old.newest, new.newest) == (0.0, 1.0)


def test_the_model_tells_of_a_passage_of_the_one_before_and_how_far_its_document_is_behind():
    said = [passage("a"), passage("b", position=2), passage("c", document=2), passage("d", document=3)]
    of_people = seen("Where is the boat?", *said, meaning=[0.9, 0.1, 0.2, 0.5])
    assert [one.meaning for one in of_people] == [0.9, 0.1, 0.2, 0.5]
    assert [one.meaning_document for one in of_people] == [0.9, 0.9, 0.2, 0.5]
    assert of_people[1].meaning_before == 0.9
    assert of_people[0].meaning_before == of_people[2].meaning_before == 0.35  # nothing was said before: the usual
    assert [round(one.meaning_behind, 3) for one in of_people] == [0, 0, round(2 / 7, 3), round(1 / 6, 3)]
    # Each kind has a first one of its own.
    mixed = seen("Where is the boat?", *said[:3], said[3]._replace(kind="assistant"), meaning=[0.9, 0.1, 0.2, 0.5])
    assert [round(one.meaning_behind, 3) for one in mixed] == [0, 0, round(1 / 6, 3), 0]


def test_the_kind_of_a_document_follows_from_its_source_and_speakers():
    assert kind_of("bus", ["Ann", "Bob"]) == "people"
    assert kind_of("archive", ["user", "assistant"]) == "assistant"
    assert kind_of("notes", [""]) == "people"


def test_every_weight_is_of_something_that_is_seen():
    kinds = ("people", "assistant", "word", "people with meaning", "assistant with meaning")
    assert set(weights()) == {*kinds, "confidence", "confidence with meaning"}
    for kind in kinds:
        assert set(weights()[kind]) <= set(Features._fields)


def test_the_score_is_the_weighed_sum():
    one = Features(*[0.5] * len(Features._fields))
    assert weighed_sum(one, in_order({"cover": 2.0, "length": -1.0})) == 0.5


def test_nothing_around_is_nothing():
    assert cover_of([], TermWeights((), ())) == DocumentCover({}, {}, {})
