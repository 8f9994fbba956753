"""Keys and tokens in texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.text.secrets import masked, secret_in

GITHUB = "ghp_" + "a1B2" * 9
AWS = "AKIA" + "ABCD" * 4
KEY = "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"export TOKEN={GITHUB}; ls", "export TOKEN=[a GitHub token]; ls"),
        (f"{AWS} and {AWS}", "[an AWS access key] and [an AWS access key]"),
        (f"before\n{KEY}\nafter", "before\n[a private key]\nafter"),
        (KEY[:50], "[a private key]"),
        ("ghp_short, sk-no, through", "ghp_short, sk-no, through"),
        ("export DB_PASSWORD=hunter2; ls", "export DB_PASSWORD=[a password]; ls"),
        ("PGPASSWORD='it is \"so\"' psql", "PGPASSWORD='[a password]' psql"),
        (
            'POSTGRES_PASSWORD: "it\'s"\nMYSQL_PASSWD = abc',
            'POSTGRES_PASSWORD: "[a password]"\nMYSQL_PASSWD = [a password]',
        ),
        (
            '{"c":"A_PASS=pa$$ B_PASSWORD=\\"x y\\"\\nls"}',
            '{"c":"A_PASS=[a password] B_PASSWORD=\\"[a password]\\"\\nls"}',
        ),
        ("PASSWORD=hunter2", "PASSWORD=[a password]"),
        ('{"DB_PASSWORD":"hunter2"}', '{"DB_PASSWORD":"[a password]"}'),
        ("db_password=hunter2 admin_password='abc'", "db_password=[a password] admin_password='[a password]'"),
        (f"DB_PASSWORD={GITHUB}", "DB_PASSWORD=[a GitHub token]"),
        *(
            (same, same)
            for same in (
                "DB_PASSWORD=$SECRET X_PASSWORD=${X} Y_PASSWORD=<yours>",
                "DB_PASSWORD: str = ''",
                "connect(db_password=password)",
                "Did you forget your password? PASSWORD: see below",
                "if DB_PASSWORD == other",
                "OLDPWD=/home/ann",
            )
        ),
    ],
)
def test_in_place_of_a_secret_stands_what_it_was(text: str, expected: str):
    assert masked(text) == expected


@given(
    st.lists(
        st.sampled_from(
            [GITHUB, AWS, KEY, "word", "gh", "sk-ant-" + "x" * 30, "eyJ", "A_PASSWORD=", "a_password='b1'"]
        ),
        max_size=6,
    )
)
def test_what_was_masked_holds_no_secret_any_more(parts: list[str]):
    once = masked(" ".join(parts))
    assert secret_in(once) is None
    assert masked(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "eyJ" + "-eyJ" * 249_999,
        "-----BEGIN A " * 76_000,
        "-----BEGIN " + "A " * 490_000,
        "secret_access_key " * 55_000,
        "secret_access_key" + " " * 980_000,
        ("sk-" + "a" * 31 + " ") * 28_000,
        "xox" * 333_000,
        'A_PASSWORD="\n' * 76_000,
        "A_PASSWORD " * 90_000,
        "A_PASSWORD" + " " * 980_000,
        "a_password=" * 90_000,
        "_PASS=" * 160_000,
    ],
    ids=lambda text: text[:20],
)
def test_no_text_takes_longer_than_its_length_explains(text: str):
    """A pattern that begins again inside what it has read would not end within the test's time limit."""
    assert secret_in(text) is None
    assert masked(text) == text
