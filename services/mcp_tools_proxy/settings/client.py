"""The settings of the commands that speak to a running gateway: ``call`` and ``explain``."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, SecretStr

from mcp_tools_proxy.settings.types import (
    EnvironmentSettings,
    empty_is_unset,
    is_token,
    starting_with,
)


class ClientSettings(EnvironmentSettings):
    """Where the gateway is, and by which token it knows the caller."""

    client_url: Annotated[str, starting_with("http://", "https://")] = "http://127.0.0.1:8082"
    """URL of the gateway that ``call`` and ``explain`` speak to."""
    client_token: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token that it is shown."""
