"""Settings by which MCP clients sign in at the issuer of the tokens that the gateway verifies."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from mcp_tools_proxy.settings.auth import IdentitySettings
from mcp_tools_proxy.settings.server_identity import ServerIdentitySettings
from mcp_tools_proxy.settings.types import (
    SettingWarning,
    SigningKeys,
    TextList,
    not_empty,
    variable,
)
from mcp_tools_proxy.wire.identifiers import is_visible_ascii


def _are_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if not all(is_visible_ascii(scope) and not {*scope} & {*'"\\'} for scope in scopes):
        raise ValueError("should name scopes: visible ASCII without blanks, quotes or backslashes")
    return scopes


class SignInSettings(IdentitySettings, ServerIdentitySettings):
    """How MCP clients find out where they can sign in."""

    jwt_scopes: Annotated[TextList, AfterValidator(_are_scopes)] = ()
    """The scopes that MCP clients are told to sign in for: comma-separated or a JSON list."""

    credentials_key: SigningKeys = ()
    """Keys of at least 32 characters that seal the logins to servers, the first for new ones: the
    same for all replicas. Needed where somebody has to sign in."""
    logins_dir: Annotated[Path, BeforeValidator(not_empty)] = Path("./logins")
    """Folder of the logins to servers, where documents are not in PostgreSQL; made when needed."""

    @property
    def mcp_resource(self) -> str | None:
        """What MCP clients have to name as the audience of their tokens; None without sign-in."""
        resource = self._wanted_resource
        return resource if resource in self.jwt_audience else None

    def sign_in_warnings(self) -> tuple[SettingWarning, ...]:
        """Return a warning if clients are not told where to sign in, although they might be."""
        resource = self._wanted_resource
        if self.mcp_resource is not None or (resource is None and not self.jwt_scopes):
            return ()
        if resource is None:
            needed = f"{variable('auth_mode')} is jwt and {variable('public_url')} is set"
            return (SettingWarning(variable("jwt_scopes"), f"is used only while {needed}"),)
        problem = (
            f"does not name {resource}, so MCP clients are not told where to sign in; add it, and "
            "have the issuer put it into its tokens"
        )
        return (SettingWarning(variable("jwt_audience"), problem),)

    @property
    def _wanted_resource(self) -> str | None:
        if self.auth_mode != "jwt" or self.public_url is None:
            return None
        return f"{self.public_url.rstrip('/')}/mcp"
