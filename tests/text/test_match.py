"""Where words stand in a text, whatever their endings."""

from hypothesis import given
from hypothesis import strategies as st

from palaver.text.match import PhraseFinder, line_of
from palaver.text.query import Phrase
from palaver.text.tokenize import stems


def places(phrases, text):
    return PhraseFinder(Phrase(tuple(phrase)) for phrase in phrases).matches(line_of(text)).places


ENDINGS = ("", "s", "es", "ed", "ing", "ly", "y", "ies", "ation", "ability", "ness", "e")
said = st.lists(
    st.builds(
        str.__add__,
        st.sampled_from(("hop", "happ", "d", "l", "o", "us", "relat", "go", "good", "日", "x2")),
        st.sampled_from(ENDINGS),
    ),
    max_size=12,
)


@given(text=said, phrases=st.lists(said.filter(bool).map(lambda words: words[:3]), max_size=4))
def test_every_place_with_the_same_stems_is_found_and_no_other(text, phrases):
    stemmed = stems(text)
    expected = [
        (place, number)
        for place in range(len(text))
        for number, phrase in enumerate(phrases)
        if stemmed[place : place + len(phrase)] == stems(phrase)
    ]
    assert places(phrases, text) == expected


def test_words_that_do_not_begin_like_their_stems_are_found_too():
    assert places([["die"], ["happy"]], ["dying", "happiness", "happy"]) == [(0, 0), (1, 1), (2, 1)]
