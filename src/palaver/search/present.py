"""Presentation: a page of results with snippets, locations, links and follow-ups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from urllib.parse import quote

from palaver.model import visibility
from palaver.model.people import Caller
from palaver.model.projects import project_name, same_project
from palaver.model.search import Beside, FoundPassage, LeanItem, Loc, ResultItem, SaidItem
from palaver.search.ask import Ask
from palaver.search.followups import find_followups
from palaver.search.hits import LABELS, best_passage, chunk_instead
from palaver.search.results import Result, Results
from palaver.search.snippet import beginning, highlights, match_place, passage_snippet, snippet_and_place
from palaver.search.sources import SOURCES
from palaver.store.bus import agents
from palaver.store.engines.database import Reader
from palaver.store.search import found_passages
from palaver.text.notable import one_line
from palaver.text.query import Nothing, Phrase

SNIPPET = 300
"""Characters of a snippet, unless the request says otherwise."""
LEAN_TITLE = 50
"""Characters of a title in a lean result."""


def present(read: Reader, ask: Ask, results: Results, page: Sequence[Result], length: int) -> list[ResultItem]:
    """One page of results as they are sent to the caller."""
    question, caller = results.question, ask.caller
    places = passages_to_show(read, results, page)
    followups = find_followups(read, caller, results, places.values())
    titles = [one.best.document_id for one in page if one.best.position == 0]
    beginnings = found_passages.first_passages(read, titles) if titles else {}
    query = question.any_term if question.terms else Nothing()
    items = []
    for one in page:
        read.check()
        at = places.get(one.best.passage_id)
        if at is None:
            continue
        source = SOURCES[at.source]
        if visibility.is_hidden(caller, at):
            snippet, place = visibility.HIDDEN, None
        elif at.position and not question.terms:
            snippet, place = beginning(at.text, length=length), None
        elif at.position:
            snippet, place = snippet_and_place(at.text, query, length=length)
        else:  # a match in the title: show how the document begins, after the title if it is a conversation
            first = beginnings.get(at.document_id)
            is_hidden = first and at.source == "bus" and visibility.hides(caller, first.data.get("metadata"))
            begins = first.text if first and not is_hidden else ""
            text = f"{at.title or ''}: {begins}" if begins and source.is_conversation else begins or at.title or ""
            snippet, place = passage_snippet(text, query, length=length), match_place(at.text, query)
        item = result_item(read, at, snippet, source.loc(at, place[0] if place else 0), score=one.score)
        if found := followups.get(at.passage_id):  # an answer is shown from its beginning, a correction at the match
            answer, later = found
            item = SaidItem(
                **{field.name: getattr(item, field.name) for field in fields(item)},
                answer=_followup(answer, beginning(answer.text, length=length)) if answer else None,
                later=_followup(later, passage_snippet(later.text, query, length=length)) if later else None,
            )
        items.append(_with_highlights(item, question.terms) if ask.highlight else item)
    return items


def lean_items(read: Reader, caller: Caller, items: Sequence[ResultItem]) -> list[LeanItem]:
    """The results in few tokens: the place of the match is in the URI, and another agent's session has its name. A
    title that the snippet repeats is left out: many sessions are called like their first prompt."""
    own = caller.client.project
    if not own and caller.acting_agent and (agent := agents.find(read, caller.acting_agent)):
        own = agent.project or ""
    ids = {item.loc["agent_id"] for item in items if item.source == "sessions" and item.loc}
    names = {id: agent.slug for id in ids - {caller.acting_agent} if (agent := agents.find(read, id))}
    found = []
    for item in items:
        author = item.sender
        if item.source == "sessions" and (name := names.get((item.loc or {}).get("agent_id"))):
            author = name if author in (None, "assistant") else f"{author}, {name}"
        project = None if same_project(item.project, own) else item.project
        title = one_line(item.title or "", LEAN_TITLE)
        found.append(
            LeanItem(
                uri=SOURCES[item.source].short_uri(item),
                title=None if title.removesuffix("…") in (item.snippet or "") else title,
                author=author,
                created_at=item.created_at,
                snippet=item.snippet,
                source=item.source,
                project=project_name(project) if project else None,
            )
        )
    return found


def _with_highlights(item: ResultItem, terms: Sequence[Phrase]) -> ResultItem:
    item = replace(item, highlights=highlights(item.snippet or "", terms))
    if not isinstance(item, SaidItem):
        return item
    answer, later = (
        replace(one, highlights=highlights(one.snippet, terms)) if one else None for one in (item.answer, item.later)
    )
    return replace(item, answer=answer, later=later)


def passages_to_show(read: Reader, results: Results, page: Sequence[Result]) -> dict[int, FoundPassage]:
    """The passage to show for each result, by the id of its best passage. If labels match best, the passage of the text
    that matches too is shown; if the transcript of a media item does, the chunk of its own text that matches too."""
    found = found_passages.by_ids(read, [one.best.passage_id for one in page])
    for id, at in found.items():
        if at.field in LABELS:
            text = best_passage(read, at.source, at.document_id, results.question.terms)
            if text is not None and (results.hits is None or results.hits.terms_of(text)):
                found[id] = found_passages.by_id(read, text) or at
        else:
            found[id] = chunk_instead(read, at, results.question.terms)
    return found


def _followup(at: FoundPassage, snippet: str) -> Beside:
    source = SOURCES[at.source]
    return Beside(
        id=source.id_of(at.document, at.native_id, at.position),
        uri=source.uri_of(at.document, at.native_id, at.position),
        loc=source.loc(at, 0),
        sender=source.sender_of(at),
        created_at=at.created_at,
        snippet=snippet,
    )


def result_item(read: Reader, at: FoundPassage, snippet: str | None, loc: Loc, *, score: float = 1.0) -> ResultItem:
    """A passage as a result, with an absolute link that opens it in the console. A session has the name of its
    agent."""
    source = SOURCES[at.source]
    id = quote(str(source.id_of(at.document, at.native_id, at.position)), safe="")
    link = f"{read.settings.base_url}/#/open/{at.source}/{id}"
    item = source.result(at, score=score, snippet=snippet, loc=loc, link=link)
    if at.source != "sessions":
        return item
    agent = agents.find(read, at.agent_id) if at.agent_id else None
    return replace(item, agent=agent.shown_name if agent else at.author)
