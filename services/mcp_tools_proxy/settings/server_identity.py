"""Settings of what servers are told of callers: secrets, and signed assertions."""

from typing import Annotated, Self

from pydantic import BeforeValidator, model_validator

from mcp_tools_proxy.settings.types import (
    EnvironmentSettings,
    OptionalPath,
    empty_is_unset,
    starting_with,
    variable,
)


class ServerIdentitySettings(EnvironmentSettings):
    """The secrets that mcp.json names, and the gateway's identity towards servers."""

    secrets_dir: OptionalPath = None
    """Folder of the secrets that mcp.json refers to as ``${secret:PATH}``, one per file. Changes
    are applied automatically."""
    signing_key_file: OptionalPath = None
    """PEM file with the keys that sign assertions for servers. The first key signs; all are
    published."""
    public_url: Annotated[
        str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")
    ] = None
    """The gateway's public URL, never taken from a request. It is the issuer of assertions, the
    resource MCP clients sign in for, and the address of the pages on which users sign in to
    servers."""

    @model_validator(mode="after")
    def _check_issuer(self) -> Self:
        """Check that assertions have an issuer. Raises ValueError."""
        if self.signing_key_file is not None and self.public_url is None:
            raise ValueError(
                f"{variable('public_url')}: is required if {variable('signing_key_file')} is "
                "set: it is the issuer of the signed assertions"
            )
        return self
