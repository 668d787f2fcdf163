"""Pages that search documents with the models' tools and verify quotations."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.navigation import may_run
from mcp_tools_proxy.console.page_request import (
    PageRequest,
    PageResult,
    PageView,
    Routes,
)
from mcp_tools_proxy.console.page_text import sentence
from mcp_tools_proxy.console.pages.document_pages import (
    DOCUMENTS_PATH,
    ShownDocument,
    address,
    load_document,
    or_list,
)
from mcp_tools_proxy.console.pages.tool_calls import (
    ToolCaller,
    ToolRun,
    advice_on,
    reader_of,
    run_tool,
    user_of_tenant,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.proxy_error import without_frames

MAX_PLACES = 10

MAX_WORDS = 40
"""Words of a query marked in an excerpt."""

SIGNIFICANT_CHARS = 3
"""Minimum length of marked words, if the query has words of this length."""

LEAST_STEM = 3
"""Minimum common prefix of two words to be treated as inflections of one."""

_WORD = re.compile(r"[^\W_]+")

MAX_SEARCHED = 3
"""Documents searched for a quotation without a document."""

MAX_SHOWN = 10

CONTEXT_CHARS = 160

MAX_COMPARED_WORDS = 350
"""Time grows with the third power: 500 words that repeat two took 3.4 s."""

SEARCHED_CHARS = 1_000

Words = Sequence[tuple[str, bool]]
"""Pieces of text, each with a flag whether it differs."""


async def show_search(page: PageRequest) -> PageResult:
    """Show the search form and the results of the query."""
    document = await load_document(page) if page.query("doc_id") else None
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
            "query": query,
            "user_id": page.query("user_id"),
            "roles": page.query("roles"),
            "agent": page.agent(),
            "tag": page.query("tag"),
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
    """Return the results, each with its address and the words found in it."""
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
    """Return the significant words of a query; short words only in capitals or with digits."""
    words = _WORD.findall(query)
    significant = [
        it for it in words if len(it) >= SIGNIFICANT_CHARS or it.isupper() or not it.isalpha()
    ]
    return list(dict.fromkeys(word.lower() for word in significant or words))[:MAX_WORDS]


def _mark(text: str, words: Sequence[str]) -> tuple[Sequence[tuple[str, bool]], frozenset[str]]:
    """Split a text into marked and unmarked pieces; also return the words found."""
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
    """Return whether two words look like inflections of one, such as certificates, certificate."""
    if found == word:
        return True
    least = max(LEAST_STEM, max(len(found), len(word)) - LEAST_STEM)
    return len(found) >= least and found[:least] == word[:least]


def _address(tenant_id: str, doc_id: str, place: Mapping[str, Any], agent: str) -> str:
    """Return the address of the page that shows a result with its words marked."""
    where: dict[str, object] = {"page": place["page"]}
    if place["sources"]:
        source = place["sources"][0]
        where["mark"] = f"{source['start_char']}-{source['end_char']}"
        where["version"] = source["version"]
    return address("read", tenant_id=tenant_id, doc_id=doc_id, agent=agent, **where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of verify_quote for one document."""

    doc_id: str
    result: Mapping[str, Any]

    @property
    def rank(self) -> float:
        """Rank used to select the best of several verdicts."""
        if self.result["verified"]:
            return 2
        return float(self.result["nearest"]["similarity"]) if "nearest" in self.result else 0


async def show_quotation(page: PageRequest) -> PageResult:
    """Show the form to verify a quotation."""
    document = await load_document(page) if page.query("doc_id") else None
    return _view(page, document)


async def verify_quotation(page: PageRequest) -> PageResult:
    """Verify a quotation, and show the form with the result."""
    document = await load_document(page) if page.form.text("doc_id") else None
    quote = page.form.text("quote")
    tenant_id = page.tenant_id or page.form.text("tenant_id")
    missing = "" if quote else "Enter the quoted text."
    if not (quote and tenant_id):
        return _view(page, document, problem=missing or "Enter a tenant.", status=422)
    try:
        verdicts = await _verdicts(page, document, tenant_id, quote)
    except ApiRefused as error:
        return _view(
            page,
            document,
            problem=sentence(error.message),
            advice=advice_on(error.code),
            status=error.status,
        )
    best = max(verdicts, key=lambda it: it.rank, default=None)
    verdict = None
    if best is not None:
        verdict = await asyncio.to_thread(_shown, best, quote, tenant_id, document, page.agent())
    return _view(
        page,
        document,
        verdict=verdict,
        searched=[it.doc_id for it in verdicts],
        is_checked=True,
    )


def _view(
    page: PageRequest, document: ShownDocument | None, *, status: int = 200, **more: object
) -> PageView:
    tenant_id = page.tenant_id or page.query("tenant_id") or page.form.text("tenant_id")
    context = {
        "document": document,
        "tenant_id": tenant_id,
        "quote": page.form.text("quote"),
        "agent": page.agent(),
        "problem": "",
        "advice": "",
        "verdict": None,
        "searched": (),
        "is_checked": False,
    }
    return PageView(
        template="document_quotation.html",
        suggests=True,
        context={**context, **more},
        status=status,
    )


async def _verdicts(
    page: PageRequest, document: ShownDocument | None, tenant_id: str, quote: str
) -> Sequence[Verdict]:
    """Return verdicts up to the first verified one. Raises ApiRefused."""
    if document is not None:
        user = reader_of(page, tenant_id, document.readers)
        return [await _verdict(page, document.doc_id, quote, user)]
    user = user_of_tenant(page, tenant_id)
    arguments = {"query": quote[:SEARCHED_CHARS], "max_results": 10}
    found = (await run_tool(page, "search_documents", arguments, user)).result["places"]
    verdicts: list[Verdict] = []
    for doc_id in list(dict.fromkeys(place["doc_id"] for place in found))[:MAX_SEARCHED]:
        verdicts.append(await _verdict(page, doc_id, quote, user))
        if verdicts[-1].result["verified"]:
            break
    return verdicts


async def _verdict(page: PageRequest, doc_id: str, quote: str, user: ToolCaller) -> Verdict:
    run = await run_tool(page, "verify_quote", {"doc_id": doc_id, "quote": quote}, user)
    return Verdict(doc_id=doc_id, result=run.result)


def _shown(
    verdict: Verdict, quote: str, tenant_id: str, document: ShownDocument | None, agent: str
) -> Mapping[str, object]:
    """Return a verdict for display, with its places and the differences to the nearest passage."""
    nearest = verdict.result.get("nearest")
    matches = verdict.result["matches"][:MAX_SHOWN]
    shown: dict[str, object] = {
        "doc_id": verdict.doc_id,
        "verified": verdict.result["verified"],
        "places": [_place(source, tenant_id, document, agent) for source in matches],
        "nearest": None,
    }
    if nearest is not None:
        quoted, standing = differences(quote, nearest["text"])
        shown["nearest"] = {
            "text": nearest["text"],
            "similarity": nearest["similarity"],
            "quoted": quoted,
            "standing": standing,
            "place": _place(nearest["source"], tenant_id, document, agent),
        }
    return shown


def _place(
    source: Mapping[str, Any], tenant_id: str, document: ShownDocument | None, agent: str
) -> Mapping[str, object]:
    """Return a place with its address, and with surrounding text if the document is loaded."""
    start, end = source["start_char"], source["end_char"]
    text = None
    if document is not None and source["version"] == document.version:
        page = document.pages[source["page"] - 1]
        before, after = page[:start], page[end:]
        if len(before) > CONTEXT_CHARS:
            cut = before[-CONTEXT_CHARS:]
            before = f"…{cut.partition(' ')[2] or cut}"
        if len(after) > CONTEXT_CHARS:
            cut = after[:CONTEXT_CHARS]
            after = f"{cut.rpartition(' ')[0] or cut}…"
        text = (before, page[start:end], after)
    return {
        "source": source,
        "text": text,
        "address": address(
            "read",
            tenant_id=tenant_id,
            doc_id=source["doc_id"],
            page=source["page"],
            agent=agent,
            mark=f"{start}-{end}",
            version=source["version"],
        ),
    }


def differences(quoted: str, standing: str) -> tuple[Words, Words]:
    """Return the words of a quotation and of the actual text, each with its differences."""
    ours, theirs = (text.split()[:MAX_COMPARED_WORDS] for text in (quoted, standing))
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for operation, begin, end, other_begin, other_end in matcher.get_opcodes():
        differs = operation != "equal"
        left.append((" ".join(ours[begin:end]), differs))
        right.append((" ".join(theirs[other_begin:other_end]), differs))
    return [it for it in left if it[0]], [it for it in right if it[0]]


ROUTES: Routes = {
    f"{DOCUMENTS_PATH}/search": {"GET": or_list(show_search, needs_document=False)},
    f"{DOCUMENTS_PATH}/verify": {
        "GET": or_list(show_quotation, needs_document=False),
        "POST": verify_quotation,
    },
}
