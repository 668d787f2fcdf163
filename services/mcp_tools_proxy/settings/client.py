"""The settings of the commands that speak to a running gateway, such as ``call``."""

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from mcp_tools_proxy.settings.types import (
    EnvironmentSettings,
    empty_is_unset,
    is_token,
    starting_with,
)


class ClientSettings(EnvironmentSettings):
    """Where the gateway is, and by which token it knows the caller."""

    client_url: Annotated[
        str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")
    ] = None
    """URL of the gateway. Unset: this machine at ``port``."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8082
    """Port that the gateway of this machine listens on."""
    client_token: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token sent to the gateway."""
