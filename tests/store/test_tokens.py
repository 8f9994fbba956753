"""Tokens: made once, found by their secret, gone when revoked or run out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.store.bus import rows

from palaver.app import App
from palaver.errors import NotFound
from palaver.model.times import now
from palaver.settings import Settings
from palaver.store.admin import tokens
from palaver.store.engines.database import Reader


@pytest.fixture
async def app(settings: Settings) -> AsyncIterator[App]:
    app = App(settings)
    yield app
    await app.close()


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


async def test_a_token_is_found_by_its_secret_alone(app: App):
    token, secret = await app.access.create_token("default", "human", "ann", ["read", "write"])
    found = await app.access.find_token(secret)
    assert found == token
    assert await app.access.find_token(tokens.mint()) is None
    assert await app.access.find_token(token.id) is None
    assert await app.access.find_token("") is None
    assert await app.access.find_token("plv_\x00\ud800") is None


async def test_the_secret_itself_is_nowhere_in_the_tables(app: App):
    _, secret = await app.access.create_token("default", "human", "ann", ["read"])

    def everything(read: Reader) -> str:
        return repr(rows(read, "SELECT * FROM tokens"))

    stored = await app._database.read(everything)
    assert "ann" in stored
    assert secret not in stored
    assert secret[4:36] not in stored


async def test_a_revoked_token_is_gone_at_once(app: App):
    kept = await app.access.create_token("default", "human", "ann", ["read"])
    gone = await app.access.create_token("default", "human", "ann", ["read"])
    await app.access.revoke_token(gone[0].id)
    assert await app.access.find_token(gone[1]) is None
    found = await app.access.find_token(kept[1])
    assert found is not None
    assert [t.id for t in await app.access.tokens()] == [kept[0].id]
    with pytest.raises(NotFound):
        await app.access.revoke_token(gone[0].id)


async def test_a_token_runs_out(app: App, monkeypatch: pytest.MonkeyPatch):
    token, secret = await app.access.create_token("default", "human", "ann", ["read"], expires_in=timedelta(hours=1))
    assert token.expires_at is not None
    assert await app.access.find_token(secret) is not None
    later = now() + timedelta(minutes=59)
    monkeypatch.setattr(tokens, "now", lambda: later)
    assert await app.access.find_token(secret) is not None
    monkeypatch.setattr(tokens, "now", lambda: later + timedelta(minutes=2))
    assert await app.access.find_token(secret) is None


async def test_use_is_written_down_once_a_minute(app: App, monkeypatch: pytest.MonkeyPatch):
    _, secret = await app.access.create_token("default", "human", "ann", ["read"])
    await app.access.find_token(secret)
    (first,) = await app.access.tokens()
    assert first.last_used_at is not None
    await app.access.find_token(secret)
    assert await app.access.tokens() == [first]
    later = now() + timedelta(minutes=2)
    monkeypatch.setattr(tokens, "now", lambda: later)
    await app.access.find_token(secret)
    (second,) = await app.access.tokens()
    assert second.last_used_at is not None
    assert second.last_used_at > first.last_used_at


async def test_an_agent_of_a_token_comes_to_be_once(app: App):
    made = [await app.access.create_token("default", "agent", "Scout", ["read"]) for _ in range(3)]
    assert len({token.agent_id for token, _ in made}) == 1
    assert len({secret for _, secret in made}) == 3


async def test_a_token_for_an_unknown_workspace_is_refused(app: App):
    with pytest.raises(NotFound):
        await app.access.create_token("nowhere", "human", "ann", ["read"])
