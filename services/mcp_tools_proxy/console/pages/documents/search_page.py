"""Searches as models do, in one document or in all of a tenant, and shows what came first, why."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.navigation import may_run
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView
from mcp_tools_proxy.console.pages.documents.one_document import (
    DocumentLoader,
    ShownDocument,
    address,
)
from mcp_tools_proxy.console.pages.documents.tool_runs import (
    ToolRun,
    reader_of,
    run_tool,
    user_of_tenant,
)
from mcp_tools_proxy.console.tries.advice import advice_on
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.kept_errors import without_frames

MAX_PLACES = 10
MAX_WORDS = 40
"""Words of a question that are looked for in an excerpt."""

SIGNIFICANT_CHARS = 3
"""Shortest word that is looked for, where the question has such ones."""

LEAST_STEM = 3
"""Letters that two inflections of a word share at least, for it to be marked as one."""

_WORD = re.compile(r"[^\W_]+")


class SearchPage:
    """Searches, for a user whom the person chooses."""

    def __init__(self, loader: DocumentLoader) -> None:
        self._loader = loader

    async def show(self, page: PageRequest) -> PageResult:
        """Show the form, and what is found for the question that the address has."""
        document = await self._loader.load(page) if page.query("doc_id") else None
        tenant_id = page.tenant()
        found: ToolRun | None = None
        refusal = None
        query = page.query("query")
        runs = may_run(page.operator) and not page.is_from_elsewhere
        if query and tenant_id and runs:
            try:
                found = await _found(page, document, query)
            except ApiRefused as error:
                refusal = without_frames(error)
        places: Sequence[Mapping[str, object]] = ()
        if found is not None:
            places = _places(tenant_id, document, found.result, query, page.agent())
        return PageView(
            template="document_search.html",
            suggests=True,
            context={
                "document": document,
                "tenant_id": tenant_id,
                "own_tenant": page.tenant_id,
                "query": query,
                "user_id": page.query("user_id"),
                "roles": page.query("roles"),
                "agent": page.agent(),
                "agents": page.agents,
                "tag": page.query("tag"),
                "may_choose": page.may(OperatorRight.RUN),
                "found": found,
                "places": places,
                "refusal": refusal,
                "is_from_elsewhere": page.is_from_elsewhere,
                "advice": "" if refusal is None else advice_on(refusal.code),
            },
            status=200 if refusal is None else refusal.status,
        )


async def _found(page: PageRequest, document: ShownDocument | None, query: str) -> ToolRun:
    user_id, roles = page.query("user_id"), _listed(page.query("roles"))
    user = user_of_tenant(page, page.tenant(), user_id, roles)
    if document is None:
        tags = _listed(page.query("tag"))
        arguments = {"query": query, "max_results": MAX_PLACES, **({"tags": tags} if tags else {})}
        return await run_tool(page, "search_documents", arguments, user)
    if not (user_id or roles):
        user = reader_of(page, document.tenant_id, document.readers)
    arguments = {"query": query, "max_results": MAX_PLACES, "doc_id": document.doc_id}
    return await run_tool(page, "doc_local_search", arguments, user)


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _places(
    tenant_id: str,
    document: ShownDocument | None,
    result: Mapping[str, Any],
    query: str,
    agent: str,
) -> Sequence[Mapping[str, object]]:
    """Return the places that were found, each with its address and the words that it has."""
    places = result["places"] if document is None else result["snippets"]
    best = max((place["score"] for place in places), default=0)
    words = _significant_words(query)
    return [
        {
            **place,
            "pieces": (marked := _mark(place["snippet"], words))[0],
            "words": [word for word in words if word in marked[1]],
            "missing": [word for word in words if word not in marked[1]],
            "share": place["score"] / best if best else 0,
            "source": place["sources"][0] if place["sources"] else None,
            "address": _address(
                tenant_id, document.doc_id if document else place["doc_id"], place, agent
            ),
        }
        for place in places
    ]


def _significant_words(query: str) -> Sequence[str]:
    """Return the words of a question that count: no short ones, but VPN and 443."""
    words = _WORD.findall(query)
    significant = [
        it for it in words if len(it) >= SIGNIFICANT_CHARS or it.isupper() or not it.isalpha()
    ]
    return list(dict.fromkeys(word.lower() for word in significant or words))[:MAX_WORDS]


def _mark(text: str, words: Sequence[str]) -> tuple[Sequence[tuple[str, bool]], frozenset[str]]:
    """Return a text in pieces, those marked that are a form of a word, and which words it has."""
    pieces: list[tuple[str, bool]] = []
    has: set[str] = set()
    end = 0
    for match in _WORD.finditer(text):
        forms = [word for word in words if _is_form(match[0].lower(), word)]
        if forms:
            has.update(forms)
            pieces += [(text[end : match.start()], False), (match[0], True)]
            end = match.end()
    return [it for it in [*pieces, (text[end:], False)] if it[0]], frozenset(has)


def _is_form(found: str, word: str) -> bool:
    """Return whether two words look like inflections of one: certificates, certificate."""
    if found == word:
        return True
    least = max(LEAST_STEM, max(len(found), len(word)) - LEAST_STEM)
    return len(found) >= least and found[:least] == word[:least]


def _address(tenant_id: str, doc_id: str, place: Mapping[str, Any], agent: str) -> str:
    """Return the address where a place is read, its words marked."""
    where: dict[str, object] = {"page": place["page"]}
    if place["sources"]:
        source = place["sources"][0]
        where["mark"] = f"{source['start_char']}-{source['end_char']}"
        where["version"] = source["version"]
    return address("read", tenant_id=tenant_id, doc_id=doc_id, agent=agent, **where)
