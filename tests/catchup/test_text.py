"""Which sentences are questions, decisions and open points, and the estimate of tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tokens import count_tokens

from palaver.text import notable
from palaver.text.token_estimate import estimate_tokens


@pytest.mark.parametrize(
    "text, expected",
    [
        ("Should we use FTS5? I think so.", True),
        ("Is it ready?", True),
        ("「準備できましたか？」", True),
        ("**Why?**", True),
        ("see http://example.org/?q=1 for more", False),
        ("```\nready?\n```\nIt works.", False),
        ("> Is it ready?\nYes.", False),
        ("It works.", False),
        ("", False),
    ],
)
def test_questions(text: str, expected: bool):
    assert notable.is_question(text) is expected


@pytest.mark.parametrize(
    "text, decided",
    [
        ("We talked. We decided to use SQLite. It is fast.", ["We decided to use SQLite."]),
        ("- Decision: keep both engines", ["Decision: keep both engines"]),
        ("Let's go with plan B.", ["Let's go with plan B."]),
        ("Have we decided?", []),
        ("It is undecidable.", []),
        ("决定：使用 SQLite。", ["决定：使用 SQLite。"]),
    ],
)
def test_decisions(text: str, decided: list[str]):
    assert notable.decisions(text) == decided


@pytest.mark.parametrize(
    "text, left",
    [
        ("Done. The tests still fail on PostgreSQL.", ["The tests still fail on PostgreSQL."]),
        ("- [ ] TODO: write the guide", ["TODO: write the guide"]),
        ("Next steps: measure it", ["Next steps: measure it"]),
        ("Everything works.", []),
    ],
)
def test_open_points(text: str, left: list[str]):
    assert notable.open_points(text) == left


@given(st.text(max_size=2_000), st.integers(20, 300))
def test_a_line_is_one_line_of_at_most_the_length(text: str, length: int):
    line = notable.one_line(text, length)
    assert len(line) <= length
    assert "\n" not in line


@pytest.mark.parametrize(
    "text",
    [
        "The quick brown fox jumps over the lazy dog, and nobody knows why it does so every day. ",
        "def estimate(text: str) -> int:\n    return sum(len(part) // 3 for part in text.split())\n",
        "- [plans #14] Alice, 5 min ago: please review `src/app.py` at 10:30\n",
        "Wir haben beschlossen, künftig häufiger zu prüfen. ",
        "Мы решили использовать полнотекстовый индекс. ",
        "我们决定使用全文索引来搜索消息。",
        "検索のために全文索引を使うことに決めました。",
        "قررنا استخدام الفهرس لأنه أسرع. ",
        "🎉🚀✅ ",
    ],
)
def test_the_estimate_is_not_much_lower_than_the_real_number(text: str):
    assert estimate_tokens(text * 20) >= 0.9 * count_tokens(text * 20)
