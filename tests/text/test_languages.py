"""In which language a text is written, and the words that are known of each language."""

from __future__ import annotations

import pytest

from palaver.text.languages import ENGLISH, OTHERS, Language, language_of
from palaver.text.tokenize import words


def name(text: str, least: int = 1) -> str:
    return language_of(words(text), least).name


@pytest.mark.parametrize(
    "text, language",
    [
        ("Wer erneuert die Zertifikate?", "german"),
        ("Was wird am Freitag besprochen?", "german"),
        ("Qu'est-ce qui s'exécute avant le démarrage ?", "french"),
        ("¿Está obsoleto el parámetro?", "spanish"),
        ("Qual é o valor da variável?", "portuguese"),
        ("Che cosa è successo alla porta?", "italian"),
        ("What happened to the harbour?", "english"),
        ("Who is El Cid?", "english"),
        ("Did the cat die in the war on fun or was it an uber con?", "english"),
        ("harbour", "english"),
        ("", "english"),
    ],
)
def test_a_text_has_the_language_of_most_of_its_small_words(text: str, language: str):
    assert name(text) == language


@pytest.mark.parametrize(
    "keywords", ["redis die on error", "comment on main", "Rio de Janeiro", "Han Solo", "die an was on or"]
)
def test_english_keywords_with_words_of_other_languages_stay_english(keywords: str):
    assert name(keywords, least=2) == "english"


@pytest.mark.parametrize("language", OTHERS, ids=lambda one: one.name)
def test_each_language_is_recognised_by_its_own_words(language: Language):
    assert language_of(language.stop_words, 2) is language
    assert language.question_words
    assert language.first_person
    assert language.second_person


def test_the_words_of_english_are_no_dates():
    assert not ENGLISH.dates
