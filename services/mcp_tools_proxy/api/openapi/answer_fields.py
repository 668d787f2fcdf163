"""Types of fields of responses that have a name of their own in the OpenAPI document.

Where it knows names that a later version may add to, they are ``open_names``.
"""

from typing import Annotated

from pydantic import Field

from mcp_tools_proxy.api.openapi.shared_schemas import open_names
from mcp_tools_proxy.domain.backend_link import RemoteState
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import errors_by_code
from mcp_tools_proxy.domain.server import ServerState, Transport
from mcp_tools_proxy.policy.visibility import Why

Object = dict[str, object]

ErrorCodeField = Annotated[
    str,
    open_names(
        "ErrorCode",
        "A stable error code.",
        [*errors_by_code(), CapacityExceeded.code],
    ),
]

ServerStateField = Annotated[
    str,
    open_names(
        "ServerState", "The state of a server's session.", [state.value for state in ServerState]
    ),
]

ServerTransportField = Annotated[
    str,
    open_names(
        "ServerTransport",
        "How the gateway connects to a server.",
        [transport.value for transport in Transport],
    ),
]

RemoteStateField = Annotated[
    str,
    open_names(
        "RemoteState",
        "The state of the connection to the remote backend; `off` if none is configured.",
        ["off", *(state.value for state in RemoteState)],
    ),
]

ReadinessStatusField = Annotated[
    str,
    open_names(
        "ReadinessStatus",
        "`ready` and `degraded` replicas serve calls; `starting` and `stopping` ones "
        "should get none.",
        ["ready", "degraded", "starting", "stopping"],
    ),
]

CheckStatusField = Annotated[
    str,
    open_names("CheckStatus", "`degraded`: the dependency does not work.", ["ok", "degraded"]),
]

ItemKindField = Annotated[
    str,
    open_names("ItemKind", "Kind of an offered item.", [kind.value for kind in Kind]),
]

WhyField = Annotated[
    str,
    open_names(
        "MissingReason", "Why an item of the preset is unavailable.", [why.value for why in Why]
    ),
]

CallResult = Annotated[
    Object,
    Field(title="CallResult", description="Result of the tool, prompt or resource."),
]

ErrorDetails = Annotated[
    Object,
    Field(
        title="ErrorDetails",
        description=(
            "Details for programs. The fields depend on the code: `field` is the place in the "
            "request, `candidates` are possible names."
        ),
    ),
]

SchemaField = Annotated[Object, Field(title="JsonSchema", description="A JSON Schema.")]

ToolAnnotationsField = Annotated[
    Object,
    Field(title="ToolAnnotations", description="The tool's annotations, as MCP defines them."),
]

Prompt = Annotated[Object, Field(title="Prompt", description="A prompt in MCP format.")]

Resource = Annotated[Object, Field(title="Resource", description="A resource in MCP format.")]

ResourceTemplate = Annotated[
    Object, Field(title="ResourceTemplate", description="A resource template in MCP format.")
]

ServerCounts = Annotated[
    dict[str, int],
    Field(
        title="ServerCounts",
        description=("Numbers of tools, prompts and other items that the server offers."),
    ),
]

Pending = Annotated[
    list[str],
    Field(
        description=(
            "Servers that are connecting for the first time; their items are not listed yet."
        )
    ),
]
