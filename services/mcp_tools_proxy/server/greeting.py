"""What ``serve --pretty`` prints once it listens: addresses, and a command to try."""

import json
from ipaddress import IPv6Address, ip_address

from mcp_tools_proxy.settings.settings import Settings

_WHO = {"user_id": "me", "tenant_id": "tenant_1"}


def greeting(settings: Settings, host: str, port: int) -> str:
    """Return the lines; ``host`` and ``port`` are those that are listened on."""
    url = f"http://{_dialled(host)}:{port}"
    lines = [f"Ready on {url}"]
    if settings.console:
        lines.append(f"Console: {url}/console")
    lines.append(f"Try: {_command(settings, url)}")
    return "\n" + "".join(f"  {line}\n" for line in lines) + "\n"


def _command(settings: Settings, url: str) -> str:
    """Return a command that lists the tools; with authentication it needs a token."""
    body: dict[str, object] = {"tool_name": "list_available_tools", "user": _WHO}
    header = ""
    if settings.auth_mode != "none":
        body["user"] = {"user_id": _WHO["user_id"]}
        header = ' -H "Authorization: Bearer $TOKEN"'
    return f"curl -s {url}/internal/mcp/execute{header} -d '{json.dumps(body)}'"


def _dialled(host: str) -> str:
    """Return the host by which this machine reaches a listener on ``host``."""
    address = ip_address(host)
    if address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    return f"[{host}]" if isinstance(address, IPv6Address) else host
