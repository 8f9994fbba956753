"""What a word is."""

import re
import threading
import unicodedata

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.text import tokenize
from palaver.text.tokenize import (
    LONGEST,
    WordToken,
    stems,
    stretches,
    tokens,
    words,
)

# Text as it comes: mostly words, with everything that makes a tokeniser stumble between them.
AWKWARD = "aB1 é\u0301ß한ᄒ\u1161\u11abかがｶﾞ東กำहिन्दी\u200d\u200b\ufe0f👍🏽❤½㍿ﷺ§ˢ_-.'\"*\0\x01\ud800\n\u3000€→ǅﬁ\u0345İ\u1160"
texts = st.text() | st.text(alphabet=AWKWARD) | st.text(alphabet=st.characters(codec="utf-8"), max_size=400)


@pytest.mark.parametrize(
    "text, expected",
    [
        ("The quick-brown Fox, 2 foxes!", ["the", "quick", "brown", "fox", "2", "foxes"]),
        (
            "snake_case user@example.com C:\\temp a+b",
            ["snake", "case", "user", "example", "com", "c", "temp", "a", "b"],
        ),
        ("tab\tline\r\nfeed\u00a0hard\u3000wide", ["tab", "line", "feed", "hard", "wide"]),
        ("Café CAFÉ cafe\u0301 Ångström", ["cafe", "cafe", "cafe", "angstrom"]),
        ("Straße STRASSE ﬁn", ["strasse", "strasse", "fin"]),
        ("Ελλάς ΕΛΛΑΣ", ["ελλασ", "ελλασ"]),
        ("ёлка Ёлка йод", ["елка", "елка", "иод"]),
        ("שָׁלוֹם מָה־זֶּה", ["שלום", "מה", "זה"]),
        ("مُحَمَّد محـــمد", ["محمد", "محمد"]),
        ("हिन्दी में", ["हिन्दी", "में"]),
        ("தமிழ் মাতৃভাষা", ["தமிழ்", "মাতৃভাষা"]),
        ("東京タワー", ["東", "京", "タ", "ワ", "ー"]),
        ("がｶﾞか\u3099", ["が", "ガ", "が"]),
        ("한국어", ["한", "국", "어"]),
        ("ที่iPhone15", ["ที่", "iphone15"]),
        ("Python3を使う", ["python3", "を", "使", "う"]),
        ("👍🏽👍 ❤️ 👨‍👩‍👧", ["👍", "👍", "❤", "👨", "👩", "👧"]),
        ("5€ a→b ™ ½ ㎏ x²", ["5", "€", "a", "→", "b", "tm", "1", "2", "kg", "x2"]),
        ("㍿", ["株", "式", "会", "社"]),
        ("a\0b\ud800c d\u200be\u00adf", ["abc", "def"]),
        ("§9 ˢword", ["9", "sword"]),
        ("… — “quoted” ¿qué?", ["quoted", "que"]),
        ("", []),
        (" \n", []),
        ("!?*\"'", []),
    ],
)
def test_a_text_is_folded_into_words(text, expected):
    assert words(text) == expected


def test_a_token_knows_its_place_in_the_original_text():
    assert tokens("Un café, 東京!") == [
        WordToken("un", 0, 2),
        WordToken("cafe", 3, 7),
        WordToken("東", 9, 10),
        WordToken("京", 10, 11),
    ]


def test_the_place_of_a_word_includes_its_accents_and_joiners():
    text = "cafe\u0301s 👍🏽! ❤\ufe0f"
    assert [text[start:end] for _, start, end in tokens(text)] == ["cafe\u0301s", "👍🏽", "❤\ufe0f"]


def test_a_letter_that_stands_for_four_words_is_the_place_of_all_four():
    assert [(start, end) for _, start, end in tokens("a ㍿ b")] == [(0, 1), (2, 3), (2, 3), (2, 3), (2, 3), (4, 5)]


@pytest.mark.parametrize("letter", ["x", "é", "Я", "क\u093f"])
def test_an_endless_word_is_cut_the_same_way_everywhere(letter):
    found = words(letter * 1_000)
    assert max(map(len, found)) <= LONGEST
    assert found == [token.word for token in tokens(letter * 1_000)]
    assert "".join(found) == "".join(words(letter)) * 1_000


@given(texts)
def test_words_and_tokens_agree(text):
    assert words(text) == [token.word for token in tokens(text)]


@given(texts)
def test_places_go_forward_inside_the_text(text):
    before = 0
    for _, start, end in tokens(text):
        assert before <= start < end <= len(text)
        before = start


@given(texts)
def test_joined_words_can_be_split_again(text):
    found = words(text)
    assert re.split(" ", " ".join(found)) == (found or [""])


@given(texts)
def test_folding_words_again_changes_nothing(text):
    assert words(" ".join(words(text))) == words(text)


@given(texts)
def test_words_have_only_the_characters_they_may_have(text):
    for word in words(text):
        assert 0 < len(word) <= LONGEST
        assert not re.search(r"[\x00-/:-`{-\x7fˢ§\s\ud800-\udfff\u200b-\u200f\ufe00-\ufe0f\U0001f3fb-\U0001f3ff]", word)


@given(texts)
def test_how_accents_are_encoded_does_not_matter(text):
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text))


@given(texts, st.integers(1, 20))
def test_a_text_in_stretches_has_the_same_words_and_characters(text, size):
    cut = list(stretches(text, size))
    assert "".join(piece for _, piece in cut) == text
    assert [word for _, piece in cut for word in words(piece)] == words(text)
    assert [
        WordToken(word, start + offset, end + offset) for offset, piece in cut for word, start, end in tokens(piece)
    ] == tokens(text)


@pytest.mark.thorough
@pytest.mark.parametrize("start", [*range(0, 0x20000, 0x2000), 0x2F800, 0xE0000])
def test_every_character_folds_to_words_that_may_be_stored(start):
    text = " ".join(f"x{chr(code)}y {chr(code)}" for code in range(start, start + 0x2000))
    joined = " ".join(words(text))
    assert words(joined) == joined.split(" ")
    assert not re.search("[^ a-z0-9\x80-\U0010ffff]|[ˢ§\ud800-\udfff]", joined)


@pytest.fixture(scope="module")
def index():
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE it USING fts5(x, content='', contentless_delete=1, tokenize='ascii')")
    return connection


@given(text=texts)
def test_the_index_finds_every_word_of_a_text_and_the_text_as_a_phrase(index, text):
    found = words(text)
    index.execute("INSERT INTO it(rowid, x) VALUES (1, ?)", [" ".join(found)])
    try:
        for phrase in [*found, *([" ".join(found)] if found else [])]:
            assert index.execute("SELECT rowid FROM it WHERE it MATCH ?", [f'"{phrase}"']).fetchall() == [(1,)], phrase
    finally:
        index.execute("DELETE FROM it WHERE rowid = 1")


def test_stems_are_english_and_leave_the_rest_alone():
    assert stems(["running", "connections", "easily", "utf8", "étés", "東"]) == [
        "run",
        "connect",
        "easili",
        "utf8",
        "étés",
        "東",
    ]


def test_threads_can_stem_at_the_same_time():
    typed = [f"{'abcdefghij'[number % 10]}walk{'q' * (number // 10)}ing" for number in range(500)]
    tokenize._STEMS.clear()
    results: list[list[str]] = []
    threads = [
        threading.Thread(target=lambda: results.append([tokenize._Stems()[word] for word in typed])) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[word.removesuffix("ing") for word in typed]] * 8


@pytest.mark.parametrize(
    "part, expected",
    [
        ("ni ziluban gil zi", (["ziluban", "gil"], "zi")),
        (" node.js ", (["node", "js"], "")),
        ("ode.js", ([], "js")),
        ("word", ([], "")),
        ("x-", ([], "")),
        ("", ([], "")),
        ("a naïve caf", (["naive"], "caf")),
        ("a naïve café", (["naive"], "")),
        ("der ᾳ".casefold(), ([], "")),
    ],
)
def test_the_words_inside_a_part(part: str, expected: tuple[list[str], str]):
    assert tokenize.inside(part) == expected


@given(st.lists(texts | st.sampled_from(["ivy", "oak", "Straße", "node.js", "é"]), max_size=9), st.data())
def test_whatever_holds_a_part_has_the_words_inside_it_in_a_row(pieces: list[str], data: st.DataObject):
    text = data.draw(st.sampled_from([" ", "-", "\n", ""])).join(pieces)
    form = unicodedata.normalize("NFC", text).casefold()
    start = data.draw(st.integers(0, len(form)))
    inside, begun = tokenize.inside(form[start : data.draw(st.integers(start, len(form)))])
    all_words = [*words(text), ""]
    assert any(
        all_words[n : n + len(inside)] == inside and all_words[n + len(inside)].startswith(begun)
        for n in range(len(all_words) - len(inside))
    )


@pytest.mark.parametrize("size", [1, 2, 7])
@given(text=texts)
def test_a_long_text_is_folded_in_pieces_and_has_the_same_words(text: str, size: int):
    whole = words(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenize, "AT_ONCE", size)
        expected = whole[: len(text)] if len(text) > size else whole
        assert words(text) == expected
        marked = " ".join(f"!{stem}" for stem in tokenize.stems(expected))
        assert tokenize.words_and_stems(text, "!") == (" ".join(expected), marked)


def test_a_long_text_has_no_more_words_than_characters():
    assert len(words("ﷺ" * 30_000)) == 30_000


@pytest.mark.parametrize("size", [1, 2, 7])
@given(text=texts, data=st.data())
def test_some_words_of_a_text_have_the_same_places_as_among_all(text: str, size: int, data: st.DataObject):
    whole = tokenize.tokens(text)
    first = data.draw(st.integers(0, len(whole)))
    last = data.draw(st.integers(first, len(whole) + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenize, "PLACED_AT_ONCE", size)
        assert tokenize.tokens(text) == whole
        assert tokenize.tokens(text, first, last) == whole[first:last]
