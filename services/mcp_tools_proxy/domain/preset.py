"""The operator's named allow-list of what the downstream servers offer."""

from dataclasses import dataclass

from mcp_tools_proxy.domain.caller import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """One item of one server; ``name`` is a resource's key where it names a resource (P-12)."""

    server_id: str
    name: str
    enabled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """What may be seen and used (P-01 … P-12).

    ``prompts`` or ``resources`` None leaves that kind unrestricted on the servers in scope: those
    that any reference names. ``()`` allows none of it.
    """

    preset_id: str
    name: str
    tools: tuple[Reference, ...] = ()
    prompts: tuple[Reference, ...] | None = None
    resources: tuple[Reference, ...] | None = None


EMPTY_PRESET = Preset(preset_id="__empty__", name="Empty", prompts=(), resources=())
"""Allows nothing; active while no other preset is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """An item that the active preset names and no server offers."""

    kind: Kind
    server_id: str
    name: str
