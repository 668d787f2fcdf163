"""Settings by which MCP clients sign in at the issuer of the tokens that the gateway verifies."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, SecretStr, model_validator

from mcp_tools_proxy.settings.auth import IdentitySettings
from mcp_tools_proxy.settings.types import (
    EnvironmentSettings,
    OptionalPath,
    OptionalText,
    SettingWarning,
    SigningKeys,
    TextList,
    empty_is_unset,
    is_private,
    not_empty,
    starting_with,
    variable,
)
from mcp_tools_proxy.wire.identifiers import is_visible_ascii


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


def _are_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if not all(is_visible_ascii(scope) and not {*scope} & {*'"\\'} for scope in scopes):
        raise ValueError("should name scopes: visible ASCII without blanks, quotes or backslashes")
    return scopes


class SignInSettings(IdentitySettings, ServerIdentitySettings):
    """How MCP clients find out where they can sign in."""

    jwt_scopes: Annotated[TextList, AfterValidator(_are_scopes)] = ()
    """Scopes that MCP clients are told to request at sign-in: comma-separated or a JSON list."""

    credentials_key: SigningKeys = ()
    """Keys of at least 32 characters that encrypt the logins to servers; the first encrypts new
    ones. All replicas and commands need the same keys. Required if a server uses sign-in."""
    logins_dir: Annotated[Path, BeforeValidator(not_empty)] = Path("./logins")
    """Folder of the logins to servers, if documents are not in PostgreSQL; created when needed."""

    signin_client_id: OptionalText = None
    """Id of the gateway's client at jwt_issuer, used by the pages on which users sign in. Unset: no
    such pages."""
    signin_client_secret: Annotated[SecretStr | None, BeforeValidator(empty_is_unset)] = None
    """Secret of that client. Leave it unset for a public client."""
    signin_scopes: Annotated[TextList, AfterValidator(_are_scopes)] = ()
    """Scopes that these pages request: comma-separated or a JSON list. Many issuers refuse a
    sign-in without scopes."""

    @property
    def pages_url(self) -> str | None:
        """The address below which users sign in to servers; None where there are no pages."""
        return None if self._missing_for_pages else (self.public_url or "").rstrip("/")

    @property
    def mcp_resource(self) -> str | None:
        """What MCP clients have to name as the audience of their tokens; None without sign-in."""
        resource = self._wanted_resource
        return resource if resource in self.jwt_audience else None

    def sign_in_warnings(self) -> tuple[SettingWarning, ...]:
        """Return a warning for each kind of sign-in that is set in part."""
        return (*self._client_warnings(), *self._page_warnings())

    @property
    def _missing_for_pages(self) -> str:
        """What the pages lack, for a warning; empty if nothing."""
        url = self.public_url or ""
        needs = (
            (self.signin_client_id is not None, f"{variable('signin_client_id')} is set"),
            (self.auth_mode == "jwt", f"{variable('auth_mode')} is jwt"),
            (bool(self.credentials_key), f"{variable('credentials_key')} is set"),
            (bool(url) and is_private(url), f"{variable('public_url')} is https, or on loopback"),
        )
        return " and ".join(text for is_met, text in needs if not is_met)

    def _page_warnings(self) -> tuple[SettingWarning, ...]:
        missing = self._missing_for_pages
        if not missing or self.signin_client_id is None:
            return ()
        return (SettingWarning(variable("signin_client_id"), f"is used only if {missing}"),)

    def _client_warnings(self) -> tuple[SettingWarning, ...]:
        """Return a warning if clients are not told where to sign in, although they might be."""
        resource = self._wanted_resource
        if self.mcp_resource is not None or (resource is None and not self.jwt_scopes):
            return ()
        if resource is None:
            needed = f"{variable('auth_mode')} is jwt and {variable('public_url')} is set"
            return (SettingWarning(variable("jwt_scopes"), f"is used only if {needed}"),)
        problem = (
            f"does not name {resource}, so MCP clients are not told where to sign in; add it, and "
            "let the issuer include it in its tokens"
        )
        return (SettingWarning(variable("jwt_audience"), problem),)

    @property
    def _wanted_resource(self) -> str | None:
        if self.auth_mode != "jwt" or self.public_url is None:
            return None
        return f"{self.public_url.rstrip('/')}/mcp"
