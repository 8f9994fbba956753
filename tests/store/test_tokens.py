"""Tokens: made once, found by their secret, gone when revoked or run out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.store.bus import rows

from palaver.app import House
from palaver.errors import NotFound
from palaver.model.times import now
from palaver.settings import Settings
from palaver.store.admin import tokens
from palaver.store.engines.database import Reader


@pytest.fixture
async def house(settings: Settings) -> AsyncIterator[House]:
    house = House(settings)
    yield house
    await house.close()


def test_a_secret_is_long_random_and_can_be_told_from_a_typo():
    minted = {tokens.mint() for _ in range(200)}
    assert len(minted) == 200
    for secret in minted:
        assert secret.startswith("plv_")
        assert len(secret) == 42
        assert secret[4:].isalnum()
        assert tokens.looks_right(secret)
    secret = minted.pop()
    changed = secret[:10] + ("a" if secret[10] != "a" else "b") + secret[11:]
    for wrong in (changed, secret[:-1], secret + "0", secret.lower(), "", "plv_", "plv_" + "0" * 38, secret.replace("plv_", "xxx_"), "plv_" + "é" * 38):  # fmt: skip
        assert not tokens.looks_right(wrong), wrong


async def test_a_token_is_found_by_its_secret_alone(house: House):
    token, secret = await house.create_token("default", "human", "ann", ["read", "write"])
    found = await house.token(secret)
    assert found == token
    assert await house.token(tokens.mint()) is None
    assert await house.token(token.id) is None
    assert await house.token("") is None
    assert await house.token("plv_\x00\ud800") is None


async def test_the_secret_itself_is_nowhere_in_the_tables(house: House):
    _, secret = await house.create_token("default", "human", "ann", ["read"])

    def everything(read: Reader) -> str:
        return repr(rows(read, "SELECT * FROM tokens"))

    stored = await house._own.read(everything)
    assert "ann" in stored
    assert secret not in stored
    assert secret[4:36] not in stored


async def test_a_revoked_token_is_gone_at_once(house: House):
    kept = await house.create_token("default", "human", "ann", ["read"])
    gone = await house.create_token("default", "human", "ann", ["read"])
    await house.revoke_token(gone[0].id)
    assert await house.token(gone[1]) is None
    found = await house.token(kept[1])
    assert found is not None
    assert [t.id for t in await house.tokens()] == [kept[0].id]
    with pytest.raises(NotFound):
        await house.revoke_token(gone[0].id)


async def test_a_token_runs_out(house: House, monkeypatch: pytest.MonkeyPatch):
    token, secret = await house.create_token("default", "human", "ann", ["read"], expires_in=timedelta(hours=1))
    assert token.expires_at is not None
    assert await house.token(secret) is not None
    later = now() + timedelta(minutes=59)
    monkeypatch.setattr(tokens, "now", lambda: later)
    assert await house.token(secret) is not None
    monkeypatch.setattr(tokens, "now", lambda: later + timedelta(minutes=2))
    assert await house.token(secret) is None


async def test_use_is_written_down_once_a_minute(house: House, monkeypatch: pytest.MonkeyPatch):
    _, secret = await house.create_token("default", "human", "ann", ["read"])
    await house.token(secret)
    (first,) = await house.tokens()
    assert first.last_used_at is not None
    await house.token(secret)
    assert await house.tokens() == [first]
    later = now() + timedelta(minutes=2)
    monkeypatch.setattr(tokens, "now", lambda: later)
    await house.token(secret)
    (second,) = await house.tokens()
    assert second.last_used_at is not None
    assert second.last_used_at > first.last_used_at


async def test_an_agent_of_a_token_comes_to_be_once(house: House):
    made = [await house.create_token("default", "agent", "Scout", ["read"]) for _ in range(3)]
    assert len({token.agent_id for token, _ in made}) == 1
    assert len({secret for _, secret in made}) == 3


async def test_a_token_for_an_unknown_workspace_is_refused(house: House):
    with pytest.raises(NotFound):
        await house.create_token("nowhere", "human", "ann", ["read"])
