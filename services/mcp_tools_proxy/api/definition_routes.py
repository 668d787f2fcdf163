"""Shows the definitions that are not as locked, and accepts one (contract §1).

The docstrings of models are part of the OpenAPI document: callers read them.
"""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import Response
from pydantic import AfterValidator, BaseModel, Field

from mcp_tools_proxy.api.endpoint import ParsedRequest
from mcp_tools_proxy.api.openapi.answer_models import AnswerModel, ErrorEnvelope
from mcp_tools_proxy.api.openapi.examples import DEFINITION_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import TRACED
from mcp_tools_proxy.api.openapi.responses import (
    SHARED_ANSWERS,
    Answer,
    SharedAnswer,
    show_responses,
)
from mcp_tools_proxy.api.operator_gate import OperatorGate
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.config.active_lock import ActiveLock
from mcp_tools_proxy.domain.guards import GuardAction, GuardName, GuardPlace
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.domain.offers.definitions import DefinitionKey, DefinitionKind, DefinitionsMode
from mcp_tools_proxy.gateway.definition_acceptance import DefinitionAcceptance
from mcp_tools_proxy.gateway.definition_guard import definition_facts
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.policy.definitions.comparison import DefinitionStatus
from mcp_tools_proxy.policy.definitions.difference import Edit
from mcp_tools_proxy.policy.definitions.flags import FlagReason
from mcp_tools_proxy.telemetry.recorder import cut
from mcp_tools_proxy.web.envelope import json_response
from mcp_tools_proxy.web.fast_routes import DirectRoute
from mcp_tools_proxy.web.request_refusals import add_to_operation
from mcp_tools_proxy.web.trace_headers import TRACE_HEADER
from mcp_tools_proxy.wire.identifiers import server_id_of

KindField = Annotated[DefinitionKind, Field(title="DefinitionKind")]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class DefinitionChoice(BaseModel):
    """The definition to accept, if it still has the hash ``sha256``.

    ``name`` is the item's name, URI or URI template at its server; empty for instructions.
    """

    server_id: Annotated[str, Field(min_length=1, max_length=64), AfterValidator(server_id_of)]
    kind: KindField
    name: Annotated[str, Field(max_length=8192)] = ""
    sha256: Sha256


class DefinitionFlag(AnswerModel, title="DefinitionFlag"):
    """A suspicious part of a definition, and its field."""

    reason: Annotated[FlagReason, Field(title="DefinitionFlagReason")]
    field: str


class GuardFindingAnswer(AnswerModel, title="GuardFinding"):
    """A guard's finding: kind, place and action, never the text itself."""

    guard: Annotated[GuardName, Field(title="GuardName")]
    kind: str
    place: Annotated[GuardPlace, Field(title="GuardPlace", alias="in")]
    action: Annotated[GuardAction, Field(title="GuardAction")]
    count: int


class DefinitionWords(AnswerModel, title="DefinitionWords"):
    """Words of a text that are unchanged, removed or added."""

    edit: Annotated[Edit, Field(title="DefinitionEdit")]
    text: str


class DefinitionDifference(AnswerModel, title="DefinitionDifference"):
    r"""Word-by-word diff of a text that differs from the lock file.

    Hidden characters are escaped, such as `\u200b`.
    """

    field: str
    words: list[DefinitionWords]


class DefinitionItem(AnswerModel, title="Definition"):
    """A definition that differs from the lock file.

    ``shown_name`` is the name with hidden characters escaped, if it has any. ``sha256`` is the
    hash of the current definition; a request to accept the definition sends it. ``uncovered``
    lists fields that a version 1 entry of the lock file does not cover. ``guards`` lists the
    guards' findings; with ``hidden``, the item is hidden from all callers because of them.
    ``unstable`` is present if the server has offered several definitions that nobody accepted,
    and shows how the last two differ.
    """

    server_id: str
    kind: KindField
    name: str
    shown_name: str | None = None
    status: Annotated[DefinitionStatus, Field(title="DefinitionStatus")]
    quarantined: bool
    sha256: Sha256 | None = None
    locked_sha256: Sha256 | None = None
    uncovered: list[str] | None = None
    flags: list[DefinitionFlag]
    guards: list[GuardFindingAnswer]
    hidden: Literal[True] | None = None
    unstable: list[DefinitionDifference] | None = None
    difference: list[DefinitionDifference]


class DefinitionsAnswer(AnswerModel, title="DefinitionList"):
    """The mode, whether there is a lock file, and all definitions that differ from it.

    ``as_locked`` counts the definitions that match.
    """

    mode: Annotated[DefinitionsMode, Field(title="DefinitionsMode")]
    lock: Annotated[Literal["absent", "good", "broken"], Field(title="DefinitionsLockState")]
    as_locked: int
    items: list[DefinitionItem]


class DefinitionHandlers:
    """Handlers of definitions; both need the right DEFINITIONS."""

    def __init__(
        self, publisher: RegistryPublisher, acceptance: DefinitionAcceptance, gate: OperatorGate
    ) -> None:
        self._publisher = publisher
        self._acceptance = acceptance
        self._gate = gate

    async def show(self, parsed: ParsedRequest[None]) -> Response:
        """Show the definitions that are not as locked, each with its difference."""
        await self._gate.check(parsed, OperatorRight.DEFINITIONS)
        return await self._response(parsed.trace_id)

    async def accept(self, parsed: ParsedRequest[DefinitionChoice]) -> Response:
        """Accept the present definition of one item."""
        await self._gate.check(parsed, OperatorRight.DEFINITIONS)
        body = parsed.body
        add_to_operation(
            parsed.request.scope,
            "definition.accepted",
            server_id=body.server_id,
            kind=body.kind.value,
            name=cut(body.name),
            sha256=body.sha256,
        )
        key = DefinitionKey(body.server_id, body.kind, body.name)
        await self._acceptance.accept(key, body.sha256)
        return await self._response(parsed.trace_id)

    async def _response(self, trace_id: str) -> Response:
        publisher = self._publisher
        findings, lock = publisher.definitions.findings, publisher.config.lock
        remarkable = findings.remarkable
        items = await asyncio.to_thread(
            definition_facts, remarkable, publisher.snapshots, lock.lock
        )
        content = {
            "mode": findings.mode.value,
            "lock": _lock_state(lock),
            "as_locked": len(findings.items) - len(remarkable),
            "items": items,
        }
        return json_response(content, headers={TRACE_HEADER: trace_id})


def _lock_state(lock: ActiveLock) -> str:
    if lock.problems:
        return "broken"
    return "absent" if lock.lock is None else "good"


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
