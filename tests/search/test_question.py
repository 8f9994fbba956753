"""What a question asks for."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palaver.search.question import MOST_TERMS, parse, terms_of


def said(text: str) -> list[str]:
    return [" ".join(phrase.words) for phrase in parse(text).terms]


@pytest.mark.parametrize(
    "asked, looked_for",
    [
        ("What is the name of the harbour?", ["name", "harbour"]),
        ("What is Caroline's status?", ["caroline", "status"]),
        ("does node.js work", ["node js", "work"]),
        ("harbour harbour", ["harbour"]),
        ("what's", ["what s"]),
        ("to be or not to be", ["to", "be", "or", "not"]),
        ("…?!", []),
        ("node.js and C++", ["node js", "c"]),
        ("apples,oranges;pears", ["apples", "oranges", "pears"]),
        ("about 1,000 apples", ["1 000", "apples"]),
        ("東京", ["東 京"]),
        ("怎样添加请求头的名字呢", ["样 添", "添 加", "加 请", "请 求", "求 头", "名 字"]),
        ("这是什么吗", ["这 是", "是 什", "什 么", "么 吗"]),
        ("請問如何安裝", ["請 問", "問 如", "如 何", "何 安", "安 裝"]),
        ("Pythonで正規表現を", ["python", "で 正", "正 規", "規 表", "表 現", "現 を"]),
        ("Wer erneuert die Zertifikate?", ["erneuert", "zertifikate"]),
        ("Comment empêcher l'accès d'une cohorte ?", ["empecher", "acces", "cohorte"]),
        ("¿Dónde está el archivo de configuración?", ["archivo", "configuracion"]),
        ("Onde fica o arquivo da configuração?", ["fica", "arquivo", "configuracao"]),
        ("Dov'è l'indirizzo dell'ufficio?", ["indirizzo", "ufficio"]),
        ("did the process die on an error", ["process", "die", "error"]),
    ],
)
def test_the_meaningful_words_are_looked_for(asked: str, looked_for: list[str]):
    assert said(asked) == looked_for


def test_a_question_says_whose_it_is_and_which_time_it_asks_for():
    question = parse("When did you tell me about my latest trip?")
    assert question.is_asked
    assert question.is_mine
    assert question.is_yours
    assert question.wants_time
    assert question.wants_latest


@pytest.mark.parametrize(
    "asked, is_yours",
    [
        ("What did you suggest for the harbour?", True),
        ("Can you remind me of the deli near the harbour?", True),
        ("Which bands from your list did I love?", True),
        ("Could you suggest a lens that fits my camera?", False),
        ("Where do you think I should work on my essay?", False),
        ("Where do you think I should put the lamp you praised?", True),
        ("Which bands did I love?", False),
    ],
)
def test_you_means_what_the_assistant_said_unless_something_is_asked_for_now(asked: str, is_yours: bool):
    assert parse(asked).is_yours == is_yours


@pytest.mark.parametrize(
    "asked",
    [
        "Wann hast du mir meine Reise empfohlen?",
        "Quand m'as-tu recommandé mon voyage ?",
        "¿Cuándo me recomendaste tú mi viaje?",
        "Quando você me recomendou minha viagem?",
        "Quando mi hai detto tu del mio viaggio?",
    ],
)
def test_questions_in_other_languages_say_the_same(asked: str):
    question = parse(asked)
    assert question.is_asked
    assert question.is_mine
    assert question.is_yours
    assert question.wants_time


@pytest.mark.parametrize("keywords", ["harbour", "harbour master", "POL-358", ""])
def test_a_few_keywords_are_no_question(keywords: str):
    assert not parse(keywords).is_asked


@given(st.text(max_size=400))
@example("00*")
def test_any_question_gives_different_terms_that_are_not_too_many(asked: str):
    found = terms_of(asked)
    assert len(found) == len(set(found)) <= MOST_TERMS
    assert all(term.words and (not term.prefix or "*" in asked) for term in found)
    assert terms_of(asked + "\x00") == found or "*" in asked
    parse(asked)


def test_a_very_long_joined_word_is_looked_up_by_its_first_words():
    (term,) = parse("x-" * 5_000).terms
    assert term.words == ("x",) * MOST_TERMS


@pytest.mark.parametrize(
    "asked, topic",
    [
        ("Can you list all harbours in the order of their size?", ["harbours", "size"]),
        ("Can you give me a full summary of the harbour across our chats?", ["harbour"]),
        ("Please summarize everything about the harbour for me, in order", ["everything", "harbour"]),
        ("How many boats and ropes did we buy?", ["boats", "ropes", "buy"]),
        ("Which boats did both Ann and Bob buy?", ["boats", "ann", "bob", "buy"]),
    ],
)
def test_words_that_ask_for_a_list_are_not_its_topic(asked: str, topic: list[str]):
    question = parse(asked)
    assert question.gathers
    assert [" ".join(term.words) for term in question.terms] == topic


@pytest.mark.parametrize(
    "asked",
    ["the list of various points", "Could you show me how to list files in a folder?", "Give me the harbour plan"],
)
def test_other_questions_keep_their_words(asked: str):
    question = parse(asked)
    assert not question.gathers
    assert question.topic == asked
    assert question.terms == terms_of(asked)


def test_a_question_for_nothing_but_a_list_keeps_its_words():
    assert parse("Can you give me a summary, in order?").terms == terms_of("Can you give me a summary, in order?")
