"""Search: one entrance for every source.

    question → scope → speaker → recall → read → features → score → group → present

Each stage is a file or folder of this package, is called once, and hands a value on. `present` makes a page of results,
`context` packs evidence into a budget, `open` opens one result, `match` finds messages by an expression.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from palaver.model.search import Order
from palaver.search import results
from palaver.search.hits import place_hits, read_texts
from palaver.search.question import Question
from palaver.search.ranking import score
from palaver.search.ranking.confidence import confidence
from palaver.search.recall import find_hits
from palaver.search.results import Results
from palaver.search.speaker import find_speaker
from palaver.store.engines.database import Reader, Scope


def search(read: Reader, question: Question, scopes: Sequence[Scope], order: Order, wanted: int) -> Results:
    """Find at least the first `wanted` results for a question, best (or newest) first.

    Which passages are read does not depend on `wanted`, so a result has the same score on every page.
    """
    if not question.terms or not scopes:
        return Results(question, [])
    question = find_speaker(read, question, scopes)
    hits = find_hits(read, question, scopes)
    if question.is_word and hits.vector is not None:
        question = replace(question, is_asked=True)  # no passage has the word, so what it means is looked for
    candidates = place_hits(read, hits)
    texts = read_texts(read, question, candidates, scopes)
    read.check()
    ranking = score.rank(read, question, candidates, texts)
    ranked, more = results.group(ranking.passages, order), 0
    if candidates.left and (len(ranked) <= wanted or order == "recent"):
        rest = score.rank_rest(read, candidates, ranking.lowest)
        ranked = results.group(ranking.passages + rest, order)
    else:
        more = results.count_more(read, candidates, ranked)
    if order == "relevance" and question.gathers:
        ranked = results.spread(ranked)
    if order == "relevance":
        ranked = results.put_exact_first(read, question, scopes, ranked, hits)
    is_named = bool(ranked) and ranked[0].why.named_by is not None
    return Results(question, ranked, more, hits, 1.0 if is_named else confidence(question, hits, ranking))
