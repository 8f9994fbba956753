"""What a session of searching remembers, and for how long."""

from __future__ import annotations

from palaver.model.search import SearchSession
from palaver.store.search import search_sessions
from palaver.store.search.search_sessions import (
    MOST_PAGED,
    MOST_SEEN,
    MOST_SESSIONS,
    SearchSessionCache,
    mark_seen,
    seen_before,
)


def test_a_search_session_belongs_to_its_owner():
    held = SearchSessionCache(ttl=60)
    id, session = held.find_or_start("ann", None)
    assert held.find_or_start("ann", id) == (id, session)
    other_id, other = held.find_or_start("bob", id)
    assert other_id != id
    assert other is not session


def test_an_unknown_session_id_starts_a_session_with_a_new_id():
    id, _ = SearchSessionCache(ttl=60).find_or_start("ann", "made up")
    assert id != "made up"


def test_an_expired_search_session_starts_again():
    held = SearchSessionCache(ttl=-1)
    id, session = held.find_or_start("ann", None)
    mark_seen(session, ["notes://1"])
    again_id, again = held.find_or_start("ann", id)
    assert again_id != id
    assert not again.seen


def test_a_connection_forgets_when_its_time_is_over():
    session = SearchSession()
    mark_seen(session, ["notes://1"])
    session.queries.append("what?")
    assert SearchSessionCache(ttl=60).refresh(session).seen
    assert not SearchSessionCache(ttl=-1).refresh(session).seen
    assert not session.queries


def test_sessions_are_not_more_than_so_many_and_those_in_use_stay():
    held = SearchSessionCache(ttl=60)
    used, session = held.find_or_start("ann", None)
    idle, _ = held.find_or_start("ann", None)
    for _ in range(MOST_SESSIONS):
        held.find_or_start("ann", None)
        held.find_or_start("ann", used)
    assert held.find_or_start("ann", used) == (used, session)
    assert held.find_or_start("ann", idle)[0] != idle


def test_the_list_of_shown_results_is_bounded_and_drops_the_oldest():
    session = SearchSession()
    for n in range(MOST_SEEN + 10):
        mark_seen(session, [f"notes://{n}"])
    assert len(session.seen) == MOST_SEEN
    assert "notes://9" not in session.seen
    assert "notes://10" in session.seen
    mark_seen(session, ["notes://10", "new"])  # seen again: it is young again
    assert "notes://10" in session.seen
    assert "notes://11" not in session.seen


def test_recent_queries_are_a_few():
    session = SearchSession()
    for n in range(50):
        session.queries.append(str(n))
    assert list(session.queries) == [str(n) for n in range(30, 50)]


def test_paging_hides_only_results_shown_before_the_search_began():
    session = SearchSession()
    mark_seen(session, ["a"])
    assert seen_before(session, "first", is_new=True) == {"a"}
    mark_seen(session, ["b", "c"])
    assert seen_before(session, "first", is_new=False) == {"a"}
    assert seen_before(session, "second", is_new=True) == {"a", "b", "c"}
    mark_seen(session, ["d"])
    assert seen_before(session, "first", is_new=False) == {"a"}  # it goes on where it was
    assert seen_before(session, "second", is_new=False) == {"a", "b", "c"}
    assert seen_before(session, "first", is_new=True) == {"a", "b", "c", "d"}
    assert search_sessions.seen_before(SearchSession(), "any", is_new=False) == frozenset()


def test_only_the_latest_searches_are_paged_through():
    session = SearchSession()
    for n in range(MOST_PAGED + 1):
        seen_before(session, str(n), is_new=True)
        mark_seen(session, [str(n)])
    assert seen_before(session, "1", is_new=False) == {"0"}
    assert seen_before(session, "0", is_new=False) == {str(n) for n in range(MOST_PAGED + 1)}
    assert len(session.paging) == MOST_PAGED
