"""What to do about a server that does not work: from its state, and from its last error."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

_OF_STATES: Mapping[str, str] = {
    "connecting": "First connection attempt in progress.",
    "unreachable": "Never connected; retrying at least every 30 seconds. Its tools are unknown "
    "until the first connection.",
    "reconnecting": "Connection lost; retrying at least every 30 seconds. Its tools stay listed.",
    "failed": "The server is reachable but does not work with its entry in mcp.json. The gateway "
    "retries every few minutes, and when the entry changes.",
    "login_required": "Sign-in required before the gateway can use this server.",
    "disabled": "Disabled by “enabled”: false in its entry in mcp.json. Remove it to enable the "
    "server.",
    "invalid": "Its entry in mcp.json is invalid. Changes to the file are applied within a second. "
    "Restart the gateway after changing a variable or a setting.",
}

_OF_ERRORS: Sequence[tuple[str, str]] = (
    (
        r"(?i)certificate",
        "Add the certificate of the server’s certificate authority to the file set by "
        "SSL_CERT_FILE in the gateway’s environment.",
    ),
    (
        r"was not found|cannot be started",
        "Set an absolute path as its “command”. In a container, the image must contain the "
        "program.",
    ),
    (
        r"refused|no route|unreachable|resolved|no answer from its address",
        "Check that the server is running and listens at the “url” in its entry.",
    ),
    (
        r"variable|is not set",
        "Set the variable in the gateway’s environment, not in its .env file, and restart the "
        "gateway.",
    ),
    (r"(?i)redirect", "Set the “url” in its entry to the redirect target."),
    (
        r"did not answer|in time",
        "Check the server’s log. If the server starts slowly, increase “connectTimeoutSeconds”.",
    ),
    (
        r"invalid_client|unauthorized_client|invalid_grant",
        "Check the client’s ID, secret and permissions at the issuer.",
    ),
    (
        r"\b401\b|\b403\b",
        "The server rejects the gateway’s credentials. Check the token or headers in its entry.",
    ),
)

_COMMAND = re.compile(r"sign in with: (mcp-tools-proxy login .{1,300})$")


def advice_on(server: Mapping[str, Any]) -> list[str]:
    """Return what its state means and what to do, in sentences; nothing for one that works."""
    advice = [_OF_STATES[server["state"]]] if server["state"] in _OF_STATES else []
    if server.get("stale"):
        advice.append("Its lists could not be refreshed and may be out of date.")
    error = server.get("last_error")
    if error is not None and server["state"] not in ("ready", "disabled", "login_required"):
        found = (text for pattern, text in _OF_ERRORS if re.search(pattern, error))
        advice += islice(found, 1)
    return advice


def sign_in_command(server: Mapping[str, Any]) -> str | None:
    """Return the command that signs in to a server which waits for it; None for any other."""
    if server["state"] != "login_required":
        return None
    found = _COMMAND.search(server.get("last_error") or "")
    return found[1] if found else f"mcp-tools-proxy login {server['server_id']}"
