"""Builds the caller data for servers: secrets, and assertions that the gateway signs."""

from typing import TYPE_CHECKING

from mcp_tools_proxy.app.configuration import network_support
from mcp_tools_proxy.app.logins import OpenLogins
from mcp_tools_proxy.app.optional import Lazy
from mcp_tools_proxy.downstream.caller_values import CallerValues, TextFiller
from mcp_tools_proxy.downstream.secret_files import SecretFiles
from mcp_tools_proxy.settings.settings import Settings
from mcp_tools_proxy.settings.types import variable
from mcp_tools_proxy.telemetry.request_events import LoginChanges

if TYPE_CHECKING:
    from mcp_tools_proxy.auth.signing_keys import SigningKeyFile
    from mcp_tools_proxy.downstream.oauth.session_tokens import OAuthAccess


def build_signing_keys(settings: Settings) -> "SigningKeyFile | None":
    """Read the keys that sign assertions, if configured. Raises ValueError."""
    if settings.signing_key_file is None:
        return None
    # the libraries for keys are slow to load
    from mcp_tools_proxy.auth.signing_keys import InvalidKeyFile, SigningKeyFile  # noqa: PLC0415

    keys = SigningKeyFile(settings.signing_key_file)
    try:
        keys.load()
    except InvalidKeyFile as error:
        raise ValueError(f"{variable('signing_key_file')}: the file {error}") from None
    return keys


def build_filler(settings: Settings) -> TextFiller:
    """Build the filler of texts in mcp.json, with the secrets of the folder."""
    folder = settings.secrets_dir
    return TextFiller(None if folder is None else SecretFiles(folder))


def build_oauth(
    settings: Settings,
    filler: TextFiller,
    logins: OpenLogins,
    changes: LoginChanges | None = None,
) -> "Lazy[OAuthAccess]":
    """Build the source of tokens for servers; ``changes`` records changes of logins."""

    def build() -> "OAuthAccess":
        from mcp_tools_proxy.downstream.oauth.session_tokens import open_oauth  # noqa: PLC0415 - slow

        network = network_support(settings)
        return open_oauth(
            filler.fill_texts,
            settings.jwt_issuer if settings.auth_mode == "jwt" else None,
            logins.open(),
            None if changes is None else changes.noticed,
            network.networks,
            network.proxies,
        )

    return Lazy(build)


def build_caller_values(
    settings: Settings,
    keys: "SigningKeyFile | None",
    filler: TextFiller,
    oauth: "Lazy[OAuthAccess]",
) -> CallerValues:
    """Build the caller values for texts of mcp.json, and the callers' tokens."""
    if keys is None or settings.public_url is None:
        return CallerValues(filler, oauth=oauth.open)
    from mcp_tools_proxy.auth.signing_keys import AssertionSigner  # noqa: PLC0415 - see above

    return CallerValues(filler, AssertionSigner(keys, settings.public_url).sign, oauth.open)
