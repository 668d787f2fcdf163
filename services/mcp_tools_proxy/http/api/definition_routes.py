"""Shows definitions that differ from the lock, and accepts one (contract §1)."""

import asyncio
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from mcp_tools_proxy.config.definitions_lock import ActiveLock
from mcp_tools_proxy.domain.definitions import DefinitionKey, DefinitionKind, DefinitionsMode
from mcp_tools_proxy.domain.guards import GuardAction, GuardName, GuardPlace
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.definition_acceptance import DefinitionAcceptance
from mcp_tools_proxy.gateway.definition_guard import definition_facts
from mcp_tools_proxy.gateway.registry_publisher import RegistryPublisher
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.http.api.endpoint import ParsedRequest
from mcp_tools_proxy.http.api.openapi import Examples, SharedAnswer, Tag, refusal
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.request_refusals import add_to_operation
from mcp_tools_proxy.policy.definitions.comparison import DefinitionStatus
from mcp_tools_proxy.policy.definitions.difference import Edit
from mcp_tools_proxy.policy.definitions.flags import FlagReason
from mcp_tools_proxy.telemetry.recorder import cut
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
    ``unstable`` is present if the server has offered several definitions that were not accepted,
    and shows the difference between the last two.
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


PATH = "/internal/mcp/definitions"

_READ_ONLY = SharedAnswer(
    "DefinitionNotAccepted",
    refusal("CONFIG_READ_ONLY: definitions.lock.json is not writable."),
)
_MISMATCH = SharedAnswer(
    "DefinitionMismatch",
    refusal("VERSION_MISMATCH: the definition has changed; its hash is now `details.sha256`."),
)


_DEFINITION_EXAMPLES: Examples = {
    "a tool": {
        "server_id": "notes",
        "kind": "tool",
        "name": "find",
        "sha256": "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945",
    },
}


class DefinitionRoutes(Feature):
    """Operations on definitions."""

    tag = Tag.STATUS

    def __init__(self, publisher: RegistryPublisher, acceptance: DefinitionAcceptance) -> None:
        self._publisher = publisher
        self._acceptance = acceptance

    @operation(
        "GET", PATH, "The differing definitions and the mode.", right=OperatorRight.DEFINITIONS
    )
    async def list_definitions(self, parsed: ParsedRequest[None]) -> DefinitionsAnswer:
        """List definitions that differ from the lock file.

        Lists items of the active preset that differ from definitions.lock.json, with a word-by-word
        diff. Requires the operator right `definitions`.
        """
        return await self._answer()

    @operation(
        "PUT",
        PATH,
        "The differing definitions and the mode.",
        right=OperatorRight.DEFINITIONS,
        examples=_DEFINITION_EXAMPLES,
        errors={409: _READ_ONLY, 412: _MISMATCH},
    )
    async def accept_definition(self, parsed: ParsedRequest[DefinitionChoice]) -> DefinitionsAnswer:
        """Accept the current definition of an item.

        Writes the definition to definitions.lock.json if its hash is still `sha256`. Later calls
        can use the item. INVALID_REQUEST means that no server offers the item. Requires the
        operator right `definitions`.
        """
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
        return await self._answer()

    async def _answer(self) -> DefinitionsAnswer:
        publisher = self._publisher
        findings, lock = publisher.definitions.findings, publisher.config.lock
        remarkable = findings.remarkable

        def items() -> list[DefinitionItem]:
            facts = definition_facts(remarkable, publisher.snapshots, lock.lock)
            return [DefinitionItem.model_validate(it) for it in facts]

        return DefinitionsAnswer(
            mode=findings.mode,
            lock=_lock_state(lock),
            as_locked=len(findings.items) - len(remarkable),
            items=await asyncio.to_thread(items),
        )


def _lock_state(lock: ActiveLock) -> Literal["absent", "good", "broken"]:
    if lock.problems:
        return "broken"
    return "absent" if lock.lock is None else "good"
