"""Lists presets, shows the active one, and switches to another (contract §1, §6)."""

from typing import Annotated, Self

from pydantic import BaseModel, Field

from mcp_tools_proxy.auth.authenticator import Authenticator
from mcp_tools_proxy.domain.caller import Kind
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.gateway.preset_switch import PresetSwitch
from mcp_tools_proxy.gateway.registry_publisher import PresetState, RegistryPublisher
from mcp_tools_proxy.http.api.answer_models import AnswerModel
from mcp_tools_proxy.http.api.endpoint import ParsedRequest, require_authentication
from mcp_tools_proxy.http.api.models import Name
from mcp_tools_proxy.http.api.openapi import Answer, Examples, Responses, Tag, errors_of
from mcp_tools_proxy.http.api.route_builder import Feature, operation
from mcp_tools_proxy.http.api.schemas import open_names
from mcp_tools_proxy.http.request_refusals import add_to_operation
from mcp_tools_proxy.policy.visibility import Why
from mcp_tools_proxy.telemetry.recorder import cut

ACTIVE = "/internal/mcp/presets/active"


class PresetChoice(BaseModel):
    """The preset to activate. Unless ``persist`` is false, the choice is also saved in mcp.json."""

    preset_id: Name
    persist: bool | None = None


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


Pending = Annotated[
    list[str],
    Field(
        description=(
            "Servers that are connecting for the first time; their items are not listed yet."
        )
    ),
]


class PresetAnswer(AnswerModel, title="Preset"):
    """A preset."""

    id: str
    name: str


class PresetsAnswer(AnswerModel, title="PresetList"):
    """The presets and the id of the active one."""

    presets: list[PresetAnswer]
    active: str


class MissingAnswer(AnswerModel, title="MissingItem"):
    """An item of the preset that is unavailable, and the reason."""

    kind: ItemKindField
    server_id: str
    name: str
    reason: WhyField
    message: Annotated[str, Field(description="The reason as a sentence, without addresses.")]


class ShadowedAnswer(AnswerModel, title="ShadowedItem"):
    """A hidden item: an earlier server, ``winner``, offers the same."""

    kind: ItemKindField
    server_id: str
    name: str
    winner: str


class ProblemAnswer(AnswerModel, title="Problem"):
    """A problem in a configuration file; ``path`` is a JSON path."""

    file: str
    path: str
    message: str


class ActivePresetAnswer(AnswerModel, title="ActivePreset"):
    """The active preset and its items that no server offers."""

    preset: PresetAnswer
    missing: list[MissingAnswer]
    pending: Pending | None = None
    shadowed: list[ShadowedAnswer] | None = None
    problems: list[ProblemAnswer] | None = None

    @classmethod
    def of(cls, state: PresetState, **more: object) -> Self:
        """Return the operators' view of a preset; ``more`` are further fields."""
        return cls.model_validate(
            {
                "preset": {"id": state.preset.preset_id, "name": state.preset.name},
                "missing": [
                    MissingAnswer(
                        kind=item.kind,
                        server_id=item.server_id,
                        name=item.name,
                        reason=reason.why,
                        message=reason.text,
                    )
                    for item, reason in state.missing
                ],
                "pending": [*state.pending] or None,
                "shadowed": state.shadowed or None,
                "problems": state.problems or None,
                **more,
            }
        )


SWITCH_RESPONSES: Responses = {
    200: Answer("The preset is now active.", ActivePresetAnswer),
    **errors_of(401, 403, 404, 409, 413, 422, 500, 503),
}


PRESET_EXAMPLES: Examples = {
    "until the next start": {"preset_id": "notes", "persist": False},
    "for good": {"preset_id": "notes"},
}


class PresetRoutes(Feature):
    """Operations on presets."""

    tag = Tag.PRESETS

    def __init__(
        self,
        preset_switch: PresetSwitch,
        publisher: RegistryPublisher,
        *,
        authenticator: Authenticator,
    ) -> None:
        self._preset_switch = preset_switch
        self._publisher = publisher
        self._authenticator = authenticator

    @operation("GET", "/internal/mcp/presets", "The presets and the id of the active one.")
    async def list_presets(self, parsed: ParsedRequest[None]) -> PresetsAnswer:
        """List presets."""
        await require_authentication(self._authenticator, parsed.request)
        presets = await self._preset_switch.list_presets()
        return PresetsAnswer(
            presets=[PresetAnswer(id=it.preset_id, name=it.name) for it in presets],
            active=self._publisher.config.preset.preset_id,
        )

    @operation("GET", ACTIVE, "The active preset.")
    async def get_active_preset(self, parsed: ParsedRequest[None]) -> ActivePresetAnswer:
        """Show the active preset and its unavailable items."""
        await require_authentication(self._authenticator, parsed.request)
        return ActivePresetAnswer.of(self._publisher.preset_state)

    @operation(
        "PUT",
        ACTIVE,
        responses=SWITCH_RESPONSES,
        examples=PRESET_EXAMPLES,
        right=OperatorRight.PRESETS,
    )
    async def set_active_preset(self, parsed: ParsedRequest[PresetChoice]) -> ActivePresetAnswer:
        """Switch the active preset.

        All later calls use the new preset. Requires a bearer token: the admin token, or, if callers
        need tokens, one with the operator right `presets`. Without an admin token and callers'
        tokens, presets can be switched only while the gateway listens on a loopback address.
        """
        body = parsed.body
        is_persisted = body.persist is not False
        add_to_operation(
            parsed.request.scope,
            "preset.switched",
            preset_id=cut(body.preset_id),
            before=self._publisher.config.preset.preset_id,
            persisted=is_persisted,
        )
        await self._preset_switch.switch_to(body.preset_id, persist=is_persisted)
        return ActivePresetAnswer.of(self._publisher.preset_state)
