"""Encryption of logins for storage."""

from collections.abc import Sequence

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass
from pydantic_core import PydanticSerializationError

from mcp_tools_proxy.domain.errors import LoginsUnavailable
from mcp_tools_proxy.domain.logins import Login, LoginBinding, LoginOwner
from mcp_tools_proxy.storage.logins.login_store import UNREADABLE, sealed_with
from mcp_tools_proxy.storage.record_cipher import RecordCipher

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class _SealedLogin:
    """The encrypted part of a login; its owner and binding are associated data."""

    format: int
    access_token: str
    expires_at: float | None
    refresh_token: str | None
    scopes: tuple[str, ...]
    client_secret: str | None
    token_endpoint_auth_method: str | None
    signed_in_at: float
    account: str | None
    demanded: tuple[str, ...] = ()


_CONTENT = TypeAdapter(_SealedLogin)


class LoginSealer:
    """Encrypts with the first of ``keys`` and decrypts with any of them."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._cipher = RecordCipher(keys)

    def seal(self, login: Login) -> bytes:
        """Return an encrypted login. Raises ValueError for text without UTF-8 encoding."""
        content = _SealedLogin(
            format=FORMAT,
            access_token=login.access_token,
            expires_at=login.expires_at,
            refresh_token=login.refresh_token,
            scopes=login.scopes,
            client_secret=login.client_secret,
            token_endpoint_auth_method=login.token_endpoint_auth_method,
            signed_in_at=login.signed_in_at,
            account=login.account,
            demanded=login.demanded,
        )
        try:
            encoded = _CONTENT.dump_json(content)
        except (PydanticSerializationError, UnicodeEncodeError):
            encoded = None
        if encoded is None:  # outside the except: its exception quotes the token
            raise ValueError("a login has text that cannot be encoded")
        return self._cipher.encrypt(encoded, sealed_with(login.owner, login.binding))

    def is_of_first_key(self, sealed: bytes, owner: LoginOwner, binding: LoginBinding) -> bool:
        """Return whether a login of this owner and binding is encrypted with the first key."""
        return self._cipher.is_of_first_key(sealed, sealed_with(owner, binding))

    def open(self, sealed: bytes, owner: LoginOwner, binding: LoginBinding) -> Login | None:
        """Return the login encrypted for this owner and binding.

        None if the owner or binding differs, or no key decrypts it. Raises LoginsUnavailable if a
        newer release encrypted it.
        """
        encoded = self._cipher.decrypt(sealed, sealed_with(owner, binding))
        if encoded is None:
            return None
        try:
            content = _CONTENT.validate_json(encoded)
        except ValidationError:
            content = None
        if content is None or content.format != FORMAT:  # outside, for the same reason
            raise LoginsUnavailable(
                UNREADABLE,
                reason="a newer release encrypted the login; use that release, or remove the login "
                "with logout",
            )
        return Login(
            owner=owner,
            binding=binding,
            access_token=content.access_token,
            expires_at=content.expires_at,
            refresh_token=content.refresh_token,
            scopes=content.scopes,
            client_secret=content.client_secret,
            token_endpoint_auth_method=content.token_endpoint_auth_method,
            signed_in_at=content.signed_in_at,
            account=content.account,
            demanded=content.demanded,
        )
