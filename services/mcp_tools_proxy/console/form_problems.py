"""Problems that a form shows: beside the field that a refusal is about, or above the form."""

from collections.abc import Container, Mapping
from http import HTTPStatus

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.sentences import sentence


def problems_of(error: ApiRefused, fields: Container[str]) -> Mapping[str, str]:
    """Return what is wrong by field, "" for the form as a whole.

    Raises ``error`` if the operator may not use the page: then no form would help.
    """
    if error.status == HTTPStatus.FORBIDDEN:
        raise error
    if error.code == "AGENT_REQUIRED" and "agent" in fields:
        return {"agent": "Choose an agent."}
    name = "agent" if error.code == "AGENT_NOT_FOUND" else error.details.get("field")
    if not isinstance(name, str) or name not in fields:
        return {"": sentence(error.message)}
    return {name: sentence(error.message.removeprefix(f"{name}: "))}
