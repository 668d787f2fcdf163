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
    Answer("CONFIG_READ_ONLY: definitions.lock.json is not writable.", ErrorEnvelope),
)
_MISMATCH = SharedAnswer(
    "DefinitionMismatch",
    Answer(
        "VERSION_MISMATCH: the definition has changed; its hash is now `details.sha256`.",
        ErrorEnvelope,
    ),
)


def definition_routes(
    build: RouteBuilder, definitions: DefinitionHandlers
) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``definitions``."""
    responses = show_responses(DefinitionsAnswer, "The differing definitions and the mode.")
    return (
        build.get(
            PATH,
            definitions.show,
            operation_id="list_definitions",
            tag=Tag.STATUS,
            summary="List definitions that differ from the lock file",
            description=(
                "Lists items of the active preset that differ from definitions.lock.json, with a "
                "word-by-word diff. Requires the operator right `definitions`."
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
            summary="Accept the current definition of an item",
            description=(
                "Writes the definition to definitions.lock.json if its hash is still `sha256`. "
                "Later calls can use the item. Requires the operator right `definitions`."
            ),
            responses={**responses, 409: _READ_ONLY, 412: _MISMATCH, 413: SHARED_ANSWERS[413]},
            headers=TRACED,
            needs_token=True,
            right=OperatorRight.DEFINITIONS,
        ),
    )
