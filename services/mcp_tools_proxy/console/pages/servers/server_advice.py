"""What to do about a server that does not work: from its state, and from its last error."""

import re
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

_OF_STATES: Mapping[str, str] = {
    "connecting": "The first attempt to connect is not over.",
    "unreachable": "It was never reached. It is retried after pauses of at most 30 seconds; its "
    "tools are unknown until then.",
    "reconnecting": "The connection was lost. It is retried after pauses of at most 30 seconds; "
    "its tools stay listed.",
    "failed": "It can be reached, but not used as its entry in mcp.json says. It is retried every "
    "few minutes, and when the entry changes.",
    "login_required": "Sign-in required before the gateway can use it.",
    "disabled": "Its entry in mcp.json has “enabled”: false. Remove that to use it.",
    "invalid": "Its entry in mcp.json is invalid. Changes of the file are applied within a second; "
    "a variable or a setting needs a restart of the gateway.",
}

_OF_ERRORS: Sequence[tuple[str, str]] = (
    (
        r"(?i)certificate",
        "Put the certificate of its authority into the file that SSL_CERT_FILE names in the "
        "gateway’s environment.",
    ),
    (
        r"was not found|cannot be started",
        "Write an absolute path as its command. In a container the program has to be in the image.",
    ),
    (
        r"refused|no route|unreachable|resolved|no answer from its address",
        "Check that the server runs, and that it listens at the url in its entry.",
    ),
    (
        r"variable|is not set",
        "Set the variable in the gateway’s own environment and restart it; its .env file does not "
        "count.",
    ),
    (r"(?i)redirect", "Write the address where it leads as the url of its entry."),
    (
        r"did not answer|in time",
        "See in the server’s own log what it waits for. A slow start needs "
        "a longer “connectTimeoutSeconds”.",
    ),
    (
        r"invalid_client|unauthorized_client|invalid_grant",
        "See the client’s id, secret and rights at the issuer.",
    ),
    (
        r"\b401\b|\b403\b",
        "The server refuses the gateway: see the token or the headers in its entry.",
    ),
)

_COMMAND = re.compile(r"sign in with: (mcp-tools-proxy login .{1,300})$")


def advice_on(server: Mapping[str, Any]) -> list[str]:
    """Return what its state means and what to do, in sentences; nothing for one that works."""
    advice = [_OF_STATES[server["state"]]] if server["state"] in _OF_STATES else []
    if server.get("stale"):
        advice.append("Its lists could not be refreshed, so they may be out of date.")
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
