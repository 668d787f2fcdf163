"""Labels of tools: the gateway's own, those of ``labels.json``, and suggestions for the others."""

from collections.abc import Iterable, Mapping

from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.components import DOCUMENT_ARGUMENT, ComponentSpec, JsonObject, ToolSpec
from mcp_tools_proxy.domain.run import READING_LABELS, UNLABELLED, Label, ToolLabels
from mcp_tools_proxy.policy.document_tools import DOCUMENT_TOOLS

LIST_TOOL = "list_available_tools"

READS = ("prompts/get", "resources/read", "completion/complete")
"""Other ways to read from a server; in ``labels.json`` they follow ``server:``."""

OWN_NAMES = (*DOCUMENT_TOOLS, LIST_TOOL, *READS)
"""Names without a server in ``labels.json``."""

_DOCUMENT = ToolLabels(
    labels=frozenset({Label.READS_PRIVATE}), targets=frozenset({DOCUMENT_ARGUMENT})
)
_OWN: Mapping[str, ToolLabels] = {
    **dict.fromkeys(DOCUMENT_TOOLS, _DOCUMENT),
    LIST_TOOL: ToolLabels(labels=frozenset(), targets=frozenset()),
}
_READING = ToolLabels(labels=READING_LABELS)


def action_name(spec: ComponentSpec, *, completion: bool = False) -> str:
    """Return the name in policies and ``labels.json``: ``server:tool``, ``server:prompts/get``."""
    if completion:
        name = "completion/complete"
    elif spec.kind is Kind.PROMPT:
        name = "prompts/get"
    elif spec.kind is Kind.RESOURCE:
        name = "resources/read"
    else:
        return spec.name
    return name if spec.server_id is None else f"{spec.server_id}:{name}"


def labels_of(
    spec: ComponentSpec, configured: Mapping[str, ToolLabels], *, completion: bool = False
) -> ToolLabels:
    """Return the labels of a component; ``configured`` are those of ``labels.json`` by name."""
    name = action_name(spec, completion=completion)
    if spec.kind is not Kind.TOOL or completion:
        return labels_of_reading(name, configured)
    return labels_of_tool(name, spec.server_id, configured)


def labels_of_tool(
    name: str, server_id: str | None, configured: Mapping[str, ToolLabels]
) -> ToolLabels:
    """Return the labels of a tool by its name."""
    found = configured.get(name)
    if found is not None:
        return found
    return _OWN.get(name, UNLABELLED) if server_id is None else UNLABELLED


def labels_of_reading(name: str, configured: Mapping[str, ToolLabels]) -> ToolLabels:
    """Return the labels of another way to read, such as ``server:prompts/get``."""
    return configured.get(name, _READING)


def suggested_labels(annotations: JsonObject) -> frozenset[Label]:
    """Return the labels that a tool's MCP annotations suggest, for a person to check.

    A missing hint has MCP's default: not read-only, destructive, open world. A server can lie in
    its annotations, so no tool gets labels from them alone.
    """
    opens = annotations.get("openWorldHint") is not False
    if annotations.get("readOnlyHint") is True:
        return READING_LABELS if opens else frozenset({Label.READS_PRIVATE})
    found = {Label.READS_PRIVATE, Label.WRITES}
    if opens:
        found |= {Label.READS_UNTRUSTED, Label.SENDS}
    if annotations.get("destructiveHint") is not False:
        found.add(Label.DESTRUCTIVE)
    return frozenset(found)


def label_suggestions(
    tools: Iterable[ToolSpec], configured: Mapping[str, ToolLabels]
) -> dict[str, JsonObject]:
    """Return entries for ``labels.json`` for each server's tool without one, by name."""
    return {
        it.name: {"labels": sorted(suggested_labels(it.annotations))}
        for it in sorted(tools, key=lambda it: it.name)
        if it.server_id is not None and it.name not in configured
    }
