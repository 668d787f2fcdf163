import pytest

from mcp_tools_proxy.settings.settings import SettingsError, load_settings


def put(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> None:
    """Set the variables; names omit the prefix."""
    for name, value in settings.items():
        monkeypatch.setenv(f"MCP_PROXY_{name}", value)


def problem(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]) -> str:
    """Return the error line for these settings."""
    put(monkeypatch, settings)
    with pytest.raises(SettingsError) as caught:
        load_settings()
    return str(caught.value)
