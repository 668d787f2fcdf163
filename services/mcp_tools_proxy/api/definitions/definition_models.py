"""Models of the requests and responses of definitions.

Their docstrings are part of the OpenAPI document: callers read them.
"""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from mcp_tools_proxy.api.openapi.answer_models import AnswerModel
from mcp_tools_proxy.domain.guards import GuardAction, GuardName, GuardPlace
from mcp_tools_proxy.domain.offers.definitions import DefinitionKind, DefinitionsMode
from mcp_tools_proxy.policy.definitions.comparison import DefinitionStatus
from mcp_tools_proxy.policy.definitions.difference import Edit
from mcp_tools_proxy.policy.definitions.flags import FlagReason
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
