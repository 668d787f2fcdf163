"""Finds misspelt settings: ``MCP_PROXY_AUTHMODE=token`` started an open service without a word."""

import re

from pydantic_settings import BaseSettings, DotEnvSettingsSource, EnvSettingsSource

from mcp_tools_proxy.settings.types import ENV_PREFIX, SettingWarning, variable
from mcp_tools_proxy.wire.problem_texts import closest_match

_OF_KUBERNETES = re.compile(r"_service_(host|port(_\w+)?)$|_port_\d+_(tcp|udp)(_\w+)?$")
"""Ends of what Kubernetes sets in every pod beside a Service that is named ``mcp-proxy``."""


_OF_CLIENT = f"{ENV_PREFIX}client_".lower()
"""Beginning of the variables of commands that speak to a running gateway (settings/client.py)."""


def unknown_variables(settings: type[BaseSettings]) -> tuple[SettingWarning, ...]:
    """Return a warning for each variable with our prefix that is no setting, in order.

    It looks where settings are read: in the environment and in ``.env``. Never raises for it: an
    older version must start with the settings of a newer one.
    """
    known = {
        str(field.validation_alias or variable(name)).lower(): str(
            field.validation_alias or variable(name)
        )
        for name, field in settings.model_fields.items()
    }
    given = {*EnvSettingsSource(settings).env_vars, *DotEnvSettingsSource(settings).env_vars}
    names = (name.lower() for name in given)
    return tuple(
        SettingWarning(name.upper(), _reason(name, known))
        for name in sorted(set(names) - known.keys())
        if name.startswith(ENV_PREFIX.lower())
        and not name.startswith(_OF_CLIENT)
        and not _OF_KUBERNETES.search(name)
    )


def _reason(name: str, known: dict[str, str]) -> str:
    near = closest_match(name, known, least=0.85, most_names=len(known))
    hint = f"; did you mean {known[near]}?" if near else ""
    return f"is not a setting and is ignored{hint}"
