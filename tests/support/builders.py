from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from mcp_tools_proxy.domain.caller import Call, Caller, Kind
from mcp_tools_proxy.domain.configuration import Preset, Reference
from mcp_tools_proxy.domain.document import Chunk, Document, Readers, Section
from mcp_tools_proxy.domain.offers import Snapshot
from mcp_tools_proxy.gateway.approvals import Approvals
from mcp_tools_proxy.gateway.run_checks import RunChecks
from mcp_tools_proxy.gateway.run_rules import ActiveRunRules
from mcp_tools_proxy.storage.idempotency.idempotent_calls import IdempotentCalls
from mcp_tools_proxy.storage.idempotency.records import MemoryRecordStore
from mcp_tools_proxy.storage.runs.run_store import MemoryRunStore, RunLimits
from mcp_tools_proxy.telemetry.metrics import Metrics


def make_document(
    *,
    tenant_id: str = "tenant_1",
    doc_id: str = "doc",
    title: str = "A document",
    pages: Sequence[str] = ("Text of the only page.",),
    sections: Mapping[str, Section] | None = None,
    tags: Sequence[str] = (),
    own_chunks: tuple[Chunk, ...] | None = None,
    readers: Readers | None = None,
    ocr: Sequence[int | None] = (),
) -> Document:
    return Document(
        tenant_id=tenant_id,
        doc_id=doc_id,
        title=title,
        pages=tuple(pages),
        sections=sections or {},
        tags=tuple(tags),
        own_chunks=own_chunks,
        readers=readers,
        ocr=tuple(ocr),
    )


def make_caller(*, tenant_id: str = "tenant_1", agent: str | None = None) -> Caller:
    return Caller(tenant_id=tenant_id, user_id="user_1", agent=agent)


def make_call(
    name: str = "fake",
    arguments: Mapping[str, object] | None = None,
    *,
    kind: Kind = Kind.TOOL,
    **caller: str,
) -> Call:
    return Call(
        name=name,
        kind=kind,
        arguments=arguments or {},
        caller=make_caller(**caller),
        trace_id="trace-1",
    )


def make_snapshot(
    *,
    tools: Iterable[str] = (),
    prompts: Iterable[str] = (),
    resources: Iterable[str] = (),
    templates: Iterable[str] = (),
    by: str = "",
) -> Snapshot:
    """Build a server's snapshot from names and URIs; ``by`` marks its descriptors."""
    return Snapshot(
        tools={name: {"name": name, "description": by} for name in tools},
        prompts={name: {"name": name, "description": by} for name in prompts},
        resources={uri: {"uri": uri, "name": uri, "description": by} for uri in resources},
        templates={uri: {"uriTemplate": uri, "name": uri, "description": by} for uri in templates},
    )


def refs(*spelt: str) -> tuple[Reference, ...]:
    """Build references from ``server/name``; a leading ``-`` disables one."""
    return tuple(_reference(text) for text in spelt)


def _reference(spelt: str) -> Reference:
    server_id, _, name = spelt.removeprefix("-").partition("/")
    return Reference(server_id=server_id, name=name, enabled=not spelt.startswith("-"))


def make_preset(
    preset_id: str = "work",
    *,
    tools: Sequence[str] = (),
    prompts: Sequence[str] | None = None,
    resources: Sequence[str] | None = None,
) -> Preset:
    return Preset(
        preset_id=preset_id,
        name=preset_id.title(),
        tools=refs(*tools),
        prompts=None if prompts is None else refs(*prompts),
        resources=None if resources is None else refs(*resources),
    )


def make_run_checks(rules: ActiveRunRules | None = None) -> RunChecks:
    runs = MemoryRunStore(RunLimits(), max_bytes=1_000_000)
    rules = rules or ActiveRunRules(())
    return RunChecks(runs, rules, no_approvals, now=lambda: datetime.now(UTC))


async def no_approvals() -> Approvals:
    raise AssertionError("no policy asks for an approval")


def make_idempotent_calls() -> IdempotentCalls:
    return IdempotentCalls(MemoryRecordStore(ttl_s=600, max_bytes=100_000), Metrics())
