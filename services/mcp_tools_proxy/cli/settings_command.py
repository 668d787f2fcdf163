"""The ``settings`` command: effective values and sources of all settings."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import typer
from pydantic import BaseModel, SecretStr
from pydantic_core import to_jsonable_python
from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource

from mcp_tools_proxy.cli.output import AsJson, folded, print_json, print_table, whole
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable

HIDDEN = "***"
"""Replaces secrets and the user info of URLs."""

_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")


def add_settings_command(app: typer.Typer, load: Callable[[], Settings]) -> None:
    """Add the command."""

    @app.command("settings")
    def show_settings(as_json: AsJson = False) -> None:
        """Show the settings of a gateway started in this folder, and their sources.

        A source is the environment, .env or the default. Secrets are shown as stars.

        With --json: settings, each with variable, value (null if unset) and source.
        """
        settings = load()
        rows = [
            (name, _shown(getattr(settings, field)), source)
            for field, (name, source) in _sources(Settings).items()
        ]
        if as_json:
            shown = [{"variable": n, "value": v, "source": s} for n, v, s in rows]
            print_json({"settings": shown})
            return
        table = [[name, _text(value), source] for name, value, source in rows]
        print_table([whole("variable"), folded("value"), whole("source")], table)


def _sources(kind: type[Settings]) -> Mapping[str, tuple[str, str]]:
    """Return the variable and source of each field."""
    environment = EnvSettingsSource(kind).env_vars
    file = DotEnvSettingsSource(kind).env_vars
    found = {}
    for field, info in kind.model_fields.items():
        name = str(info.validation_alias or variable(field))
        if name.lower() in environment:
            source = "environment"
        else:
            source = ".env" if name.lower() in file else "default"
        found[field] = (name, source)
    return found


def _shown(value: object) -> object:
    """Return a value as JSON without secrets; null if it is not set."""
    match value:
        case SecretStr():
            return HIDDEN
        case tuple() if value and all(isinstance(it, SecretStr) for it in value):
            return HIDDEN
        case Path():
            return str(value)
        case str():
            return _USER_INFO.sub(f"{HIDDEN}@", value)
        case tuple() | list():
            return [_shown(it) for it in value]
        case BaseModel():
            return to_jsonable_python(value)
    return to_jsonable_python(value, fallback=str)


def _text(value: object) -> str:
    match value:
        case None | []:
            return "-"
        case bool():
            return str(value).lower()
        case list():
            return ",".join(map(str, value))
    return str(value)
