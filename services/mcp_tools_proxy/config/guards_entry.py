"""The key ``guards`` of a server's entry and of a preset: what each guard does with findings."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, Strict, field_validator
from pydantic import WithJsonSchema as Published

from mcp_tools_proxy.config.field_types import FILE_MODEL
from mcp_tools_proxy.domain.guards import GuardAction, GuardActions, GuardName
from mcp_tools_proxy.policy.guards import secrets

_Action = Annotated[
    GuardAction,
    Strict(False),
    Published({"type": "string", "enum": [action.value for action in GuardAction]}),
]


class GuardsEntry(BaseModel):
    """Guards that check definitions, arguments and results, each with its action.

    `off` does not check, `flag` reports findings, `redact` replaces them with a marker, and
    `refuse` refuses the call or hides the item. Unknown keys and values are errors."""

    model_config = ConfigDict(**{**FILE_MODEL, "extra": "forbid"})

    hidden_characters: _Action = Field(default=GuardAction.OFF, examples=["redact"])
    """Invisible characters: bidirectional controls, tags, zero-width and control characters."""
    hidden_html: _Action = Field(default=GuardAction.OFF, examples=["redact"])
    """HTML comments, Markdown comments, and elements that are not displayed."""
    images: _Action = Field(default=GuardAction.OFF, examples=["redact"])
    """Markdown and HTML images from unknown hosts."""
    links: _Action = Field(default=GuardAction.OFF, examples=["flag"])
    """Markdown and HTML links to unknown hosts."""
    secrets: _Action = Field(default=GuardAction.OFF, examples=["redact"])
    """Secrets in known formats. Requires the extra `secrets`."""
    instructions: _Action = Field(default=GuardAction.OFF, examples=["refuse"])
    """Phrases in definitions that give instructions to a model."""

    @field_validator("secrets")
    @classmethod
    def _has_rules(cls, action: GuardAction) -> GuardAction:
        if action is not GuardAction.OFF and not secrets.is_installed():
            raise ValueError(
                "needs rules that are not installed: install mcp-tools-proxy with the extra "
                f'"{secrets.EXTRA}"'
            )
        return action


def guard_actions(entry: GuardsEntry | None) -> GuardActions:
    """Return the guards that an entry turns on."""
    if entry is None:
        return {}
    actions = {name: getattr(entry, _field_of(name)) for name in GuardName}
    return {name: action for name, action in actions.items() if action is not GuardAction.OFF}


def _field_of(name: GuardName) -> str:
    return name.name.lower()
