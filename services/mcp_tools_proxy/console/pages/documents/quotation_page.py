"""Verifies quotations: whether the words stand in a document, what is like them, how to cite."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView
from mcp_tools_proxy.console.pages.documents.one_document import (
    DocumentLoader,
    ShownDocument,
    address,
)
from mcp_tools_proxy.console.pages.documents.tool_runs import (
    reader_of,
    run_tool,
    user_of_tenant,
)
from mcp_tools_proxy.console.sentences import sentence
from mcp_tools_proxy.console.tries.advice import advice_on
from mcp_tools_proxy.console.tries.tool_caller import ToolCaller

MAX_SEARCHED = 3
"""Documents in which a quotation is searched that was given without one."""

MAX_SHOWN = 10
CONTEXT_CHARS = 160
MAX_COMPARED_WORDS = 350
"""Time grows with the third power: 500 words that repeat two took 3.4 s."""
SEARCHED_CHARS = 1_000

Words = Sequence[tuple[str, bool]]
"""Words in pieces, each with whether it differs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What verify_quote says of a quotation in one document."""

    doc_id: str
    result: Mapping[str, Any]

    @property
    def rank(self) -> float:
        """How near it is to being verified, so that the best of several can be shown."""
        if self.result["verified"]:
            return 2
        return float(self.result["nearest"]["similarity"]) if "nearest" in self.result else 0


class QuotationPage:
    """Verifies quotations, in one document or in those of a tenant that a search finds first."""

    def __init__(self, loader: DocumentLoader) -> None:
        self._loader = loader

    async def show(self, page: PageRequest) -> PageResult:
        """Show the form."""
        document = await self._loader.load(page) if page.query("doc_id") else None
        return _view(page, document)

    async def verify(self, page: PageRequest) -> PageResult:
        """Verify a quotation, and show the form with the verdict."""
        document = await self._loader.load(page) if page.form.text("doc_id") else None
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
            verdict = await asyncio.to_thread(
                _shown, best, quote, tenant_id, document, page.agent()
            )
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
        "own_tenant": page.tenant_id,
        "quote": page.form.text("quote"),
        "agent": page.agent(),
        "agents": page.agents,
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
    """Return the verdicts up to the first document in which the words stand. Raises ApiRefused."""
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
    """Return a verdict with its places, their texts, and how the nearest passage differs."""
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
    """Return a place with its address; of a document that is at hand with the text around it."""
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
    """Return the words of a quotation and of what stands there, each with what differs."""
    ours, theirs = (text.split()[:MAX_COMPARED_WORDS] for text in (quoted, standing))
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    matcher = SequenceMatcher(None, ours, theirs, autojunk=False)
    for operation, begin, end, other_begin, other_end in matcher.get_opcodes():
        differs = operation != "equal"
        left.append((" ".join(ours[begin:end]), differs))
        right.append((" ".join(theirs[other_begin:other_end]), differs))
    return [it for it in left if it[0]], [it for it in right if it[0]]
