"""What was typed, and what is meant."""

import time
from contextlib import suppress

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.text.query import (
    AllOf,
    AnyOf,
    Malformed,
    Near,
    Nothing,
    Phrase,
    Preferring,
    Query,
    Without,
    apart,
    closer,
    expression,
    plain,
    wanted_phrases,
)
from palaver.text.tokenize import words


def p(typed: str, prefix: bool = False) -> Phrase:
    return Phrase(tuple(typed.split()), prefix)


def joined(typed: str, prefix: bool = False) -> Phrase:
    """Words that signs join: a phrase of them, and each on its own."""
    *first, last = typed.split()
    return Phrase(tuple(typed.split()), prefix, (*map(p, first), p(last, prefix)))


def first(typed: str, prefix: bool = False) -> Phrase:
    return Phrase(tuple(typed.split()), prefix, first=True)


ONE, TWO, THREE, FOUR = p("one"), p("two"), p("three"), p("four")


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("one", ONE),
        ("one two three", AllOf((ONE, TWO, THREE))),
        ("one AND two three", AllOf((ONE, TWO, THREE))),
        ("one OR two", AnyOf((ONE, TWO))),
        ("one OR two AND three", AnyOf((ONE, AllOf((TWO, THREE))))),
        ("one AND two OR three", AnyOf((AllOf((ONE, TWO)), THREE))),
        ("one NOT two", Without(ONE, TWO)),
        ("one NOT two three", Without(ONE, AllOf((TWO, THREE)))),
        ("one NOT two AND three", AllOf((Without(ONE, TWO), THREE))),
        ("one NOT two NOT three", Without(ONE, AnyOf((TWO, THREE)))),
        ("one and two", AllOf((ONE, p("and"), TWO))),
        ("One oR tWO", AllOf((ONE, p("or"), TWO))),
        ("(one OR two) three", AllOf((AnyOf((ONE, TWO)), THREE))),
        ("one (two OR three)four", AllOf((ONE, AnyOf((TWO, THREE)), FOUR))),
        ("((one))", ONE),
        ("one NOT (two NOT three)", Without(ONE, Without(TWO, THREE))),
        ("one AND(two)", AllOf((ONE, TWO))),
    ],
)
def test_words_are_combined(typed, meant):
    assert expression(typed) == meant


@pytest.mark.parametrize(
    "typed, meant",
    [
        ('"one two"', p("one two")),
        ('"one AND (two*"', p("one and two")),
        ('"say ""one"" two"', p("say one two")),
        ('one"two three"', AllOf((ONE, p("two three")))),
        ("on*", p("on", prefix=True)),
        ("on *", p("on", prefix=True)),
        ('"two thr"*', p("two thr", prefix=True)),
        ('"one" * two', AllOf((p("one", prefix=True), TWO))),
        ("on*two", AllOf((p("on", prefix=True), TWO))),
        ("quick-br*", p("quick br", prefix=True)),
        ("AND*", p("and", prefix=True)),
        ("one + two", p("one two")),
        ('one + "two three" + fo*', p("one two three fo", prefix=True)),
        ('one+"two"', p("one two")),
        ("+one", ONE),
        ("one +", ONE),
        ("^one", first("one")),
        ('^"one two"', first("one two")),
        ("^ one + two", first("one two")),
        ("^on*", first("on", prefix=True)),
        ("content : ^one two", AllOf((first("one"), TWO))),
        ("one ^two", AllOf((ONE, first("two")))),
        ("^TCP/IP", first("tcp ip")),
        ("^(one)", ONE),
        ("one ^", ONE),
        ("one^two", joined("one two")),
        ('"content" : one', ONE),
        ('{ "content" content } : one', ONE),
        ("- content : one", Without(ONE, ONE)),
        (
            "two OR -content:(one OR ^one)",
            AnyOf((TWO, Without(AnyOf((ONE, first("one"))), AnyOf((ONE, first("one")))))),
        ),
        ("-{content}: ???", Nothing()),
        ("NEAR(one two, 5)", Near((ONE, TWO), 5)),
        ("NEAR(one two,5)", Near((ONE, TWO), 5)),
        ('NEAR("one two" three)', Near((p("one two"), THREE), 10)),
        (
            'NEAR("one, 5" tw*) OR NEAR (one two , 0)',
            AnyOf((Near((p("one 5"), p("tw", prefix=True)), 10), Near((ONE, TWO), 0))),
        ),
        ("NEAR(one two, 99999999999999999999)", Near((ONE, TWO), 1_000)),
        ("NEAR(one)", ONE),
        ("NEAR(one ???)", ONE),
        ("NEAR one", AllOf((p("near"), ONE))),
        ("near(one)", AllOf((p("near"), ONE))),
        ("content:one", ONE),
        ("Content : one two", AllOf((ONE, TWO))),
        ('content:"one two"', p("one two")),
        ("content:(one OR two) three", AllOf((AnyOf((ONE, TWO)), THREE))),
        ("{content}: one", ONE),
        ("{ CONTENT } :NEAR(one two)", Near((ONE, TWO))),
    ],
)
def test_the_grammar_of_fts5_is_understood(typed, meant):
    assert expression(typed) == meant


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("quick-brown", "quick brown"),
        ("node.js", "node js"),
        ("@nasa", "nasa"),
        ("POL-358", "pol 358"),
        ("fox.", "fox"),
        ("foo:bar", "foo bar"),
        ("author:bob", "author bob"),
        ("content:", "content"),
        ("content://media/1", "content media 1"),
        ("http://a.b/c?x=1", "http a b c x 1"),
        ("it's", "it s"),
        ("C++", "c"),
        ("-v", "v"),
        ("what?", "what"),
        ("a/b", "a b"),
        ("a_b", "a b"),
        ("{one}", "one"),
        ("AND.", "and"),
        ("*args", "args"),
        ("main()", "main"),
        ("os.path.join()", "os path join"),
        ("東京", "東 京"),
        ("Zoë", "zoe"),
    ],
)
def test_a_word_with_punctuation_is_the_phrase_of_its_parts(typed, meant):
    query = expression(typed)
    assert isinstance(query, Phrase)
    assert query.words == tuple(meant.split())
    assert expression(f"one {typed}") == AllOf((ONE, query))


@pytest.mark.parametrize(
    "typed, meant",
    [
        ("TCP/IP", AllOf((p("tcp"), p("ip")))),
        ("error:timeout", AllOf((p("error"), p("timeout")))),
        ("quick/br*", AllOf((p("quick"), p("br", prefix=True)))),
        ("node.js/deno", AllOf((p("node js"), p("deno")))),
        ("x/x", p("x")),
        ("one two/three", AllOf((ONE, TWO, THREE))),
        ("one OR two/three", AnyOf((ONE, AllOf((TWO, THREE))))),
        ("one/two NOT three/four", Without(AllOf((ONE, TWO)), joined("three four"))),
        ("東京/one", AllOf((p("東 京"), ONE))),
        ("don't/won't", AllOf((p("don t"), p("won t")))),
    ],
)
def test_words_that_signs_join_may_stand_apart(typed, meant):
    assert apart(expression(typed)) == meant


@pytest.mark.parametrize(
    "typed",
    [
        "one two",
        '"one/two"',
        "one + two",
        "one NOT two/three",
        "quick-brown",
        "node.js",
        "snake_case",
        "NEAR(one/two three)",
        "it's",
        "o\u2019clock",
        "東京",
        "1.2.3",
        "1,000",
        "12:30",
        "2026-11-17",
        "e\u0301te\u0301",
        "/".join(f"w{number}" for number in range(17)),
        " ".join(f"a{number}/b{number}" for number in range(200)),
        "???",
    ],
)
def test_what_signs_do_not_join_stays_together(typed):
    assert apart(expression(typed)) is None


def test_plain_words_may_stand_apart_whatever_sign_joins_them():
    for typed in ("one/two", "one-two", "one.two", "one_two", 'one"two', "one(two)", "one…two"):
        assert apart(plain(typed)) == AllOf((ONE, TWO))
    for typed in ("it's", "1.2.3", "2026-11-17", "東京"):
        assert apart(plain(typed)) is None


def test_neighbours_and_joined_words_count_for_more_where_they_are_together():
    query = apart(closer(plain("the TCP/IP stack")))
    assert query == Preferring(
        AllOf((p("the"), p("tcp"), p("ip"), p("stack"))), (joined("tcp ip"), p("the tcp ip"), p("tcp ip stack"))
    )


@pytest.mark.parametrize(
    "typed", ["", "  \n", "???", '""', "\0", "\ud800", "??? AND ...", "(?)", "??? NOT one", "NEAR(? !)", "+", "^", "?*"]
)
def test_no_word_finds_nothing(typed):
    assert expression(typed) == Nothing()


@pytest.mark.parametrize(
    "typed",
    [
        "??? one",
        "one AND ???",
        '"" OR one',
        "one NOT ???",
        "one OR (? NOT two)",
        "one + ???",
        "on\0e",
        "o\ud800ne \x02",
    ],
)
def test_what_has_no_word_drops_out(typed):
    assert expression(typed) == ONE


@pytest.mark.parametrize(
    "typed, hint",
    [
        ("*", "A * alone"),
        ("one OR *", "A * alone"),
        ("(one) *", "A * alone"),
        ('"one', "double quote is not closed"),
        ('one "', "double quote is not closed"),
        ("(one", "( without its )"),
        ("one)", ") without its ("),
        ("()", "nothing between ( and )"),
        ("one ()", "nothing between ( and )"),
        ("AND", "AND must be between"),
        ("OR one", "OR must be between"),
        ("NOT one", "wanted NOT unwanted"),
        ("one AND", "must follow AND"),
        ("one NOT", "must follow NOT"),
        ("(one OR) two", "must follow OR"),
        ("one AND NOT two", "wanted NOT unwanted"),
        ("one OR AND two", "AND cannot follow OR"),
        ("one + ^two", "before the whole phrase"),
        ("NEAR(^one two)", "inside of NEAR"),
        ("NEAR(-content:one two)", "Only words and phrases"),
        ("NEAR()", "NEAR needs"),
        ("NEAR(, 5)", "NEAR needs"),
        ("NEAR(one, two)", "After the comma"),
        ("NEAR(one two, x)", "After the comma"),
        ("NEAR(one two,-1)", "After the comma"),
        ('NEAR("one, 5" two, 2.5)', "After the comma"),
        ("NEAR(one two", "NEAR( is not closed"),
        ("NEAR(one (two))", "NEAR( is not closed"),
        ("NEAR(one AND two)", "Only words and phrases"),
        ("on* + two", "end of the whole phrase"),
        ("(" * 10_000, "nested too deeply"),
        ("(" * 51 + "one" + ")" * 51, "nested too deeply"),
        ("one " * 300, "at most 256"),
        ("NEAR(" + "one " * 300 + ")", "at most 256"),
        ("東" * 2_000, "at most 1,024 words"),
        ("one" * 50_000, "at most 50,000 characters"),
        ("a* OR b* OR c*", "beginnings of one or two letters"),
        ("(a* OR b*) AND (one NOT c*)", "beginnings of one or two letters"),
        ('"one a"* OR "two b"* OR NEAR(c* three)', "beginnings of one or two letters"),
        (" OR ".join(f"a{letter}*" for letter in "abcdefghi"), "beginnings of one or two letters"),
    ],
)
def test_what_cannot_be_read_is_answered_with_a_hint(typed, hint):
    with pytest.raises(Malformed) as caught:
        expression(typed)
    assert hint in caught.value.hint
    assert caught.value.hint.endswith(".")
    assert str(caught.value) == caught.value.hint


@pytest.mark.parametrize(
    "typed",
    [
        "a* OR b*",
        " OR ".join(f"a{letter}*" for letter in "abcdefgh"),
        " OR ".join(f"ab{letter}*" for letter in "abcdefghijklmnopqrstuvwxyz"),
        " OR ".join(f"{sign}*" for sign in "日月火水木金土"),
    ],
)
def test_some_short_beginnings_many_longer_ones_and_single_signs_are_fine(typed):
    assert isinstance(expression(typed), AnyOf)


def test_the_same_alternative_again_changes_nothing():
    assert expression("one OR one OR (one OR one)") == ONE


def test_fifty_parentheses_are_fine():
    assert expression("(" * 50 + "one" + ")" * 50) == ONE


@pytest.mark.parametrize(
    "typed",
    [
        '"' * 9_999,
        '"' * 10_000,
        "NEAR(" * 2_000,
        'NEAR("a""b" ' * 800,
        "a" * 10_000,
        "one NOT " * 1_200,
        "? " * 5_000,
        "x()" * 3_333,
        "*" * 10_000,
        "content:" * 1_200,
        "a" + " " * 9_998 + "b",
        "a+" * 5_000,
        ("word" + " " * 90) * 100,
        "NEAR" + " " * 9_990,
        "((a) " * 2_000,
        "{" * 10_000,
    ],
)
def test_ten_thousand_characters_are_read_quickly(typed):
    def taken() -> float:
        began = time.thread_time()
        with suppress(Malformed):
            expression(typed)
        plain(typed)
        return time.thread_time() - began

    assert min(taken() for _ in range(3)) < 0.1  # takes a few milliseconds; the rest is for busy machines


def test_plain_words_are_all_wanted_and_nothing_in_them_is_special():
    assert plain('foo AND NOT "bar* foo (node.js) ???') == AllOf(
        (p("foo"), p("and"), p("not"), p("bar"), joined("node js"))
    )
    assert plain("one") == ONE
    assert plain(" ?! ") == Nothing()


def test_plain_words_without_end_are_cut():
    assert plain(" ".join(f"word{number}" for number in range(1_000))) == AllOf(
        tuple(p(f"word{number}") for number in range(256))
    )
    assert plain("東" * 20_000) == Phrase(("東",) * 1_024)


def test_only_what_is_wanted_is_highlighted_and_once():
    query = expression('one OR (two NOT three) OR NEAR("one two" fo*) OR one NOT (two NOT four)')
    assert wanted_phrases(query) == (ONE, TWO, p("one two"), p("fo", prefix=True))
    assert wanted_phrases(Nothing()) == ()


PIECES = [
    "one",
    "two",
    " ",
    "  ",
    "AND",
    "OR",
    "NOT",
    "NEAR(",
    "(",
    ")",
    '"',
    '""',
    "*",
    "+",
    "^",
    ":",
    "content:",
    "{content}:",
    ",",
    " 5",
    "?",
    "東",
    "\0",
]
typed_texts = st.text() | st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def parts_of(query: Query) -> tuple[Query, ...]:
    match query:
        case AllOf() | AnyOf():
            assert len(query.parts) > 1
            assert not any(isinstance(part, type(query)) for part in query.parts)
            return query.parts
        case Without():
            return query.wanted, query.unwanted
        case Near():
            assert len(query.phrases) > 1
            return query.phrases
        case Phrase():
            assert query.words
            assert all(words(word) == [word] for word in query.words)
    return ()


@given(typed_texts)
def test_any_text_is_an_expression_or_malformed(typed):
    try:
        query = expression(typed)
    except Malformed:
        return
    rest = [query]
    while rest:
        parts = parts_of(rest.pop())
        assert Nothing() not in parts
        rest.extend(parts)


@given(typed_texts)
def test_any_text_is_plain_words(typed):
    query = plain(typed)
    assert isinstance(query, Phrase | AllOf | Nothing)
    parts_of(query)


# The same expression must find the same as in FTS5, wherever FTS5 has an opinion.

DOCUMENTS = [
    f"{a} {b} {c}"
    for a in ("one", "two", "onetwo")
    for b in ("two", "three", "four x x x")
    for c in ("one", "three", "four")
]


@pytest.fixture(scope="module")
def documents():
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE it USING fts5(content)")
    connection.executemany("INSERT INTO it VALUES (?)", [(document,) for document in DOCUMENTS])
    return connection


def found(connection: apsw.Connection, match: str) -> list[int]:
    return [row[0] for row in connection.execute("SELECT rowid FROM it WHERE it MATCH ? ORDER BY rowid", [match])]


def printed(query: Query) -> str:
    match query:
        case Phrase():
            return "^" * query.first + f'"{" ".join(query.words)}"' + "*" * query.prefix
        case Near():
            return f"NEAR({' '.join(map(printed, query.phrases))}, {query.distance})"
        case AllOf():
            return "(" + " AND ".join(map(printed, query.parts)) + ")"
        case AnyOf():
            return "(" + " OR ".join(map(printed, query.parts)) + ")"
        case Without():
            return f"({printed(query.wanted)} NOT {printed(query.unwanted)})"
    return '""'


atoms = st.sampled_from(
    [
        "one",
        "two",
        "three",
        "fo*",
        '"one two"',
        '"two thr" *',
        "NEAR(one four, 2)",
        "NEAR(two three)",
        "one + two",
        "content:three",
        "content : (one OR ^two)",
        "{content} : two",
        '{ "content" } : two',
        "- content : one",
        "-{content}:NEAR(one two)",
        "^one",
        "^ two",
        '^"one two"',
        "^ one + two",
        "^on*",
        "content : ^two",
        "CONTENT:^ one + thr *",
        'one + "two three"',
        'one + "tw" *',
        "NEAR(one two three, 3)",
        "NEAR(one two four, 1)",
        'NEAR("one two" three four, 2)',
        "NEAR(one + two x, 0)",
        "NEAR(x x, 1)",
        "NEAR(one)",
        "NEAR (one x , 2)",
        '"one ""two"""',
        "(three)",
        "((one OR two))",
        "ONE",
    ]
)


def combined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.tuples(inner, st.sampled_from([" AND ", " OR ", " NOT "]), inner).map("".join)
    return joined | joined.map("({})".format) | st.tuples(atoms, atoms).map(" ".join)


@given(typed=st.recursive(atoms, combined, max_leaves=8))
def test_an_expression_finds_what_fts5_finds(documents, typed):
    try:
        wanted = found(documents, typed)
    except apsw.SQLError:  # words beside parentheses: FTS5 wants an AND there
        return
    assert found(documents, printed(expression(typed))) == wanted
