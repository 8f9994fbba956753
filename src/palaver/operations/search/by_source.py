"""`<source>.search` and `<source>.get` of every source, made from the table of sources."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from palaver.model.people import Caller
from palaver.model.requests import Names, Query, Request, clamp, request_of
from palaver.model.search import GetResponse, SearchResponse
from palaver.operations import library
from palaver.operations.archive.external_database import import_if_changed
from palaver.operations.library.items import current
from palaver.operations.operation import Operation, Tool, operation
from palaver.operations.search.retrieval import open_named
from palaver.search.ask import HIDDEN, Paged, SearchText
from palaver.search.open import RetrievalOptions
from palaver.search.page import LEAN_PAGE, find_page
from palaver.search.scope import must_be_on
from palaver.search.sources import SOURCES, ParsedUri, Source, SourceFilters, parse_uri
from palaver.search.sources.indexing import CHARACTER_FACTS, CHARACTER_TEXTS
from palaver.store.engines.database import Reader
from palaver.store.search import found_passages, search_sessions
from palaver.store.sessions import sessions
from palaver.store.workspaces import Workspace

TOOLSET = "knowledge"
PART_HELP = "Default mode: snippet. full: pages of 1,000,000 characters."
WHOLE = {"characters": "card", "prompts": "prompt"}
"""The sources whose items are opened as a whole, with a word for such an item."""
PROMPT_FIELDS = ("name", "author", "details", "system_prompt", "user_prompt", "keywords")


def _text_or_texts(query: Any) -> Any:
    if isinstance(query, str) or (isinstance(query, list) and all(isinstance(one, str) for one in query)):
        return query
    raise ValueError("must be text, or a list of texts")


class SearchTags(Paged):
    query: Annotated[Query | Names, BeforeValidator(_text_or_texts)]
    """Words, tags separated by commas, or a list of tags."""


def words_of(request: Any) -> str:
    return request.query if isinstance(request.query, str) else ", ".join(request.query)


def search_operation(source: Source) -> Operation:
    """The operation `<source>.search`."""
    bases: tuple[type[Request], ...] = (SearchTags,) if source.name == "characters" else (SearchText, source.filters)
    request = request_of(f"Search{source.name.title()}", bases)

    def find(read: Reader, caller: Caller, request: Any) -> SearchResponse:
        if source.name == "sessions":
            must_be_on(read)
        filters = request if isinstance(request, SourceFilters) else source.filters()
        scope = filters.scope(read, caller)
        ask = request.ask(read, caller, words_of(request), [scope] if scope else [])
        return find_page(read, replace(ask, sources=scope.sources if scope else ())).response

    async def search(here: Workspace, caller: Caller, request: Any) -> SearchResponse:
        answer = await here.search(caller, lambda read: find(read, caller, request))
        if (key := caller.search_session) and request.offset == 0:
            await here.store_soon(lambda change: search_sessions.store_query(change, key, words_of(request)))
        return answer

    is_own = source.name == "sessions"
    hidden = ("max_tokens", *HIDDEN)
    tool = Tool(f"{source.name}.search", brings_words=True, acts=is_own, toolset=TOOLSET, hidden=hidden, page=LEAN_PAGE)
    return _described(search, f"search_{source.name}", source.search_help, request, tool, source)


class PagedGet(Request):
    page: Annotated[int, clamp(1, 2**31)] | None = None
    """Default: 1."""
    page_size: Annotated[int, clamp(1, 200)] | None = None
    """1 to 200. Default: 50."""
    retrieval: RetrievalOptions | None = None
    """Open the part around a message instead of a page."""


def get_operation(source: Source) -> Operation:
    """The operation `<source>.get`."""
    id_field: Any = (source.id_type, Field(description=source.id_help))
    name = f"Get{source.name.title()}"
    request: type[Request]
    if source.is_conversation:
        request = request_of(name, (PagedGet,), **{source.id_field: id_field})
        work = _get_conversation
    else:
        whole = WHOLE.get(source.name)
        help_text = f"Open a part of the {whole} instead of all of it." if whole else PART_HELP
        retrieval: Any = (RetrievalOptions | None, Field(None, description=help_text))
        request = request_of(name, (Request,), **{source.id_field: id_field, "retrieval": retrieval})
        work = _get_item

    def get(read: Reader, caller: Caller, request: Any) -> GetResponse:
        given = getattr(request, source.id_field)
        named = parse_uri(given) if isinstance(given, str) else None
        if named is None or named.source != source.name:
            named = ParsedUri(source.name, str(given), None)
        elif request.retrieval is not None or source.name in WHOLE:
            named = named._replace(loc=None)
        return work(read, caller, named, request)

    hidden = ("retrieval",) if source.name in WHOLE else ()
    is_own = source.name == "sessions"
    tool = Tool(f"{source.name}.get", brings_words=True, acts=is_own, toolset=TOOLSET, hidden=hidden)
    return _described(get, f"get_{source.name}", source.get_help, request, tool, None)


def _described(
    work: Callable[..., Any], name: str, text: str, request: type[Request], tool: Tool, source: Source | None
) -> Operation:
    work.__name__, work.__doc__ = name, text
    work.__annotations__["request"] = request
    return operation(tool, before=import_if_changed if source and source.name == "archive" else None)(work)


def _get_conversation(read: Reader, caller: Caller, named: ParsedUri, request: Any) -> GetResponse:
    if named.source == "sessions":
        mine = sessions.native_id(caller.acting_agent or "", named.id)
        named = named._replace(id=mine) if found_passages.resolve(read, "sessions", mine) else named
    options: RetrievalOptions | None = request.retrieval
    page = (request.page or 1, request.page_size or 50)
    if named.loc is None and options is None:
        return open_named(read, caller, named, default="full", page=page)
    names_page = options and options.mode == "full" and options.cursor is None and (request.page or request.page_size)
    return open_named(read, caller, named, options, page=page if names_page else None)


def _get_item(read: Reader, caller: Caller, named: ParsedUri, request: Any) -> GetResponse:
    """A part of an item, or all the fields of a character or a prompt."""
    is_whole = named.source in WHOLE
    response = open_named(read, caller, named, request.retrieval, default="full" if is_whole else "snippet")
    if not is_whole or request.retrieval is not None:
        return response
    item = library.shown(read, current(read, named.source, named.id))
    fields = PROMPT_FIELDS if named.source == "prompts" else ("name", *CHARACTER_TEXTS, *CHARACTER_FACTS)
    return GetResponse(response.meta, {name: getattr(item, name) for name in fields})


BY_SOURCE: tuple[Operation, ...] = tuple(
    made for source in SOURCES.values() for made in (search_operation(source), get_operation(source))
)
