"""Owners and bindings as text: one for each value, and another one for each other value.

JSON lists, whose UTF-8 keeps lone surrogates as they are: escaped, two of them would be the same as
the character that they are halves of.
"""

import json
from collections.abc import Sequence
from hashlib import sha256

from mcp_tools_proxy.domain.logins import LoginBinding, LoginOwner
from mcp_tools_proxy.domain.server_auth import Grant, LoginFor

_PURPOSE = "mcp-tools-proxy login, 1"
"""Stands first in what a login is sealed with: nothing else that is ever sealed begins so."""


def owner_text(owner: LoginOwner) -> str:
    """Return an owner as text. Raises ValueError for one that nobody can be.

    A user without a tenant would be kept among the logins of the deployment.
    """
    of_deployment = owner.login_for is LoginFor.DEPLOYMENT
    if of_deployment == bool(owner.tenant_id):
        raise ValueError("a login has a tenant if it is not the deployment's, and only then")
    if (owner.login_for is LoginFor.USER) != bool(owner.user_id):
        raise ValueError("a login has a user if it is a user's, and only then")
    return _text_of(_owner_fields(owner))


def owner_key(owner: LoginOwner) -> bytes:
    """Return the 32 bytes by which the login of an owner is found."""
    return sha256(encoded(owner_text(owner))).digest()


def binding_text(binding: LoginBinding) -> str:
    """Return a binding as text."""
    return _text_of(_binding_fields(binding))


def sealed_with(owner: LoginOwner, binding: LoginBinding) -> bytes:
    """Return what a login is sealed together with: it opens with the same only."""
    owner_text(owner)
    return encoded(_text_of([_PURPOSE, *_owner_fields(owner), *_binding_fields(binding)]))


def encoded(text: str) -> bytes:
    """Return a text as bytes, whatever characters it has."""
    return text.encode("utf-8", "surrogatepass")


def decoded(content: bytes) -> str:
    """Return the text that ``encoded`` has made bytes of. Raises ValueError."""
    return content.decode("utf-8", "surrogatepass")


def owner_of_text(text: str) -> LoginOwner:
    """Return the owner that a text stands for. Raises ValueError."""
    server_id, login_for, tenant_id, user_id, user_issuer = _fields_of(text, 5)
    return LoginOwner(
        server_id=server_id,
        login_for=LoginFor(login_for),
        tenant_id=tenant_id,
        user_id=user_id,
        user_issuer=user_issuer,
    )


def binding_of_text(text: str) -> LoginBinding:
    """Return the binding that a text stands for. Raises ValueError."""
    resource, issuer, client_id, grant = _fields_of(text, 4)
    return LoginBinding(resource=resource, issuer=issuer, client_id=client_id, grant=Grant(grant))


def _owner_fields(owner: LoginOwner) -> list[str]:
    return [
        owner.server_id,
        owner.login_for.value,
        owner.tenant_id,
        owner.user_id,
        owner.user_issuer,
    ]


def _binding_fields(binding: LoginBinding) -> list[str]:
    return [binding.resource, binding.issuer, binding.client_id, binding.grant.value]


def _text_of(fields: Sequence[str]) -> str:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":"))


def _fields_of(text: str, count: int) -> list[str]:
    fields = json.loads(text)
    is_list = isinstance(fields, list) and len(fields) == count
    if not is_list or not all(isinstance(it, str) for it in fields):
        raise ValueError(f"not a list of {count} texts")
    return list(fields)
