"""Valid objects, to change one thing of."""

from collections.abc import Mapping, Sequence

from mcp_tools_proxy.domain.caller import Call, Caller
from mcp_tools_proxy.domain.document import Chunk, Document, Section


def make_document(
    *,
    tenant_id: str = "tenant_1",
    doc_id: str = "doc",
    title: str = "A document",
    pages: Sequence[str] = ("Text of the only page.",),
    sections: Mapping[str, Section] | None = None,
    tags: Sequence[str] = (),
    own_chunks: tuple[Chunk, ...] | None = None,
) -> Document:
    """Make a document of one page, without sections, but for what is given."""
    return Document(
        tenant_id=tenant_id,
        doc_id=doc_id,
        title=title,
        pages=tuple(pages),
        sections=sections or {},
        tags=tuple(tags),
        own_chunks=own_chunks,
    )


def make_caller(*, tenant_id: str = "tenant_1", agent: str | None = None) -> Caller:
    """Make a caller of tenant_1 without an agent, but for what is given."""
    return Caller(tenant_id=tenant_id, user_id="user_1", agent=agent)


def make_call(
    tool_name: str = "fake", arguments: Mapping[str, object] | None = None, **caller: str
) -> Call:
    """Make a call of ``tool_name``."""
    return Call(
        name=tool_name,
        arguments=arguments or {},
        caller=make_caller(**caller),
        trace_id="trace-1",
    )
