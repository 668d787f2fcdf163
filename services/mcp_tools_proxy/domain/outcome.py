"""How a call ended."""

from collections.abc import Mapping
from dataclasses import dataclass

from mcp_tools_proxy.domain.errors import ProxyError


@dataclass(frozen=True, slots=True, kw_only=True)
class Ok:
    """The tool ran; ``result`` is its JSON object."""

    result: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """The call was refused or failed with a stable code."""

    error: ProxyError


Outcome = Ok | Failed
