"""The routes of definitions (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.definitions.definition_handlers import DefinitionHandlers
from mcp_tools_proxy.api.definitions.definition_models import DefinitionChoice, DefinitionsAnswer
from mcp_tools_proxy.api.openapi.answer_models import ErrorEnvelope
from mcp_tools_proxy.api.openapi.examples import DEFINITION_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import (
    SHARED_ANSWERS,
    Answer,
    SharedAnswer,
    show_responses,
)
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.web.fast_routes import DirectRoute

PATH = "/internal/mcp/definitions"

_READ_ONLY = SharedAnswer(
    "DefinitionNotAccepted",
    Answer("CONFIG_READ_ONLY: definitions.lock.json cannot be written.", ErrorEnvelope),
)
_MISMATCH = SharedAnswer(
    "DefinitionMismatch",
    Answer(
        "VERSION_MISMATCH: the definition is another one by now: `details.sha256`.", ErrorEnvelope
    ),
)


def definition_routes(
    build: RouteBuilder, definitions: DefinitionHandlers
) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``definitions``."""
    responses = show_responses(
        DefinitionsAnswer, "The definitions that are not just as locked, and the mode."
    )
    return (
        build.get(
            PATH,
            definitions.show,
            operation_id="list_definitions",
            tag=Tag.STATUS,
            summary="Show the definitions of the servers' items that are not as locked",
            description=(
                "Those that the active preset shows, each with its difference from "
                "definitions.lock.json word by word. Needs the operator right `definitions`."
            ),
            responses=responses,
            headers=TRACED,
            needs_token=True,
        ),
        build.with_body(
            "PUT",
            PATH,
            definitions.accept,
            DefinitionChoice,
            operation_id="accept_definition",
            tag=Tag.STATUS,
            examples=DEFINITION_EXAMPLES,
            summary="Accept the present definition of one item",
            description=(
                "Writes it into definitions.lock.json, if `sha256` is still its hash; later calls "
                "find the item. Needs the operator right `definitions`."
            ),
            responses={**responses, 409: _READ_ONLY, 412: _MISMATCH, 413: SHARED_ANSWERS[413]},
            headers=TRACED,
            needs_token=True,
            right=OperatorRight.DEFINITIONS,
        ),
    )
