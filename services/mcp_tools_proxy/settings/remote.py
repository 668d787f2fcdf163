"""Settings of the connector: the backend that it dials, and its sessions' tenant (W-01)."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pydantic_settings import NoDecode

from mcp_tools_proxy.settings.types import (
    Count,
    EnvironmentSettings,
    OptionalPath,
    Seconds,
    TextList,
    empty_is_unset,
    is_private,
    is_token,
    parse_list,
    starting_with,
    variable,
)
from mcp_tools_proxy.wire.identifiers import (
    SERVER_IDENTIFIER_CHARS,
    Identifier,
    document_ids,
    is_server_identifier,
    server_identifier_of,
)

PLACEHOLDER = "{server_identifier}"
"""Replaced in ``remote_url`` by the gateway's own identifier."""

_UNFIT = frozenset(r"\"<>^`| ")


def _is_backend(url: str | None) -> str | None:
    """Refuse a URL that cannot be dialled, or is ambiguous. Raises ValueError."""
    problem = None if url is None else _url_problem(url)
    if problem is not None:
        raise ValueError(problem)
    return url


def _url_problem(url: str) -> str | None:
    """Return the problem of a backend's URL, without quoting it: it may hold a secret."""
    if any(not char.isprintable() or char in _UNFIT for char in url):
        return "has a character that is not allowed in a URL; percent-encode it"
    if "#" in url:
        return "should not have a fragment, which is never sent"
    if {*"{}"} & {*url.replace(PLACEHOLDER, "")}:
        return f"should not have braces other than those of {PLACEHOLDER}"
    try:
        parts = urlsplit(url)
        is_dialable = bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_dialable = False
    if not is_dialable or "{" in parts.netloc:
        return f"should name a host, like wss://backend.example.com/ws/{PLACEHOLDER}"
    if "@" in parts.netloc:
        return "should not contain a user or a password; set the token in its own setting"
    return None


def _is_identifier(text: str | None) -> str | None:
    if text is not None and not is_server_identifier(text):
        raise ValueError(
            f"should be 1 to {SERVER_IDENTIFIER_CHARS} of letters, digits, '.', '_' and '-'"
        )
    return text


def _is_file(path: Path | None) -> Path | None:
    if path is not None and not path.is_file():
        raise ValueError("is not a file")
    return path


DocumentList = Annotated[
    frozenset[str] | None,
    NoDecode,
    BeforeValidator(lambda ids: document_ids(ids) if isinstance(ids, tuple) else ids),
    BeforeValidator(parse_list),
    BeforeValidator(empty_is_unset),
]
"""Ids of documents, None if unset; an empty JSON list is no document."""


class RemoteSettings(EnvironmentSettings):
    """Which backend is dialled, and who its sessions act for."""

    remote_url: Annotated[
        str | None,
        BeforeValidator(empty_is_unset),
        starting_with("ws://", "wss://"),
        AfterValidator(_is_backend),
    ] = None
    """WebSocket URL of the backend; ``{server_identifier}`` is replaced. Unset: the connector is
    off."""
    remote_server_identifier: Annotated[
        str | None, BeforeValidator(empty_is_unset), AfterValidator(_is_identifier)
    ] = None
    """Name of this gateway at the backend, 1 to 64 letters, digits, `.`, `_` and `-`. Unset:
    `mcp-tools-proxy-` and the host name."""
    remote_token: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token sent to the backend."""
    remote_token_file: OptionalPath = None
    """File with that token, instead; may be created later. Changes apply automatically."""
    remote_tenant_id: Annotated[Identifier | None, BeforeValidator(empty_is_unset)] = None
    """Tenant of the backend's sessions. Unset: default_tenant_id."""
    remote_user_id: Annotated[Identifier | None, BeforeValidator(empty_is_unset)] = None
    """User of the backend's sessions."""
    remote_user_roles: TextList = ()
    """Roles of that user."""
    remote_agent: Annotated[Identifier | None, BeforeValidator(empty_is_unset)] = None
    """Agent whose profile limits the backend's sessions."""
    remote_documents: DocumentList = None
    """Documents that the backend's sessions are limited to. Unset: all."""
    remote_ca_file: Annotated[OptionalPath, AfterValidator(_is_file)] = None
    """PEM file of CA certificates for the backend. Unset: the system's."""
    remote_allow_insecure: bool = False
    """Allow ws:// to another machine, readable on the network."""
    remote_max_frame_bytes: Count = 4_194_304
    """Maximum bytes of a frame in either direction."""
    remote_keepalive_s: Seconds = 10.0
    """Seconds between pings; without an answer the connection is closed."""
    remote_drop_grace_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds without a connection before sessions end and their calls are cancelled."""
    remote_retry_max_s: Seconds = 1.5
    """Maximum seconds before a reconnect."""

    @property
    def remote_identifier(self) -> str:
        """The gateway's identifier at the backend."""
        return self.remote_server_identifier or server_identifier_of(socket.gethostname())

    @property
    def remote_address(self) -> str | None:
        """The URL to dial, None while the connector is off.

        The identifier is inserted as it is: its characters never need percent-encoding.
        """
        if self.remote_url is None:
            return None
        return self.remote_url.replace(PLACEHOLDER, self.remote_identifier)

    @model_validator(mode="after")
    def _check_remote(self) -> Self:
        """Check combinations of settings. Raises ValueError naming the variable."""
        problems = self._unused() if self.remote_url is None else self._missing(self.remote_url)
        for problem in problems:
            raise ValueError(problem)
        return self

    def _unused(self) -> Iterator[str]:
        for name, value in (
            ("remote_server_identifier", self.remote_server_identifier),
            ("remote_token", self.remote_token),
            ("remote_token_file", self.remote_token_file),
            ("remote_tenant_id", self.remote_tenant_id),
            ("remote_user_id", self.remote_user_id),
            ("remote_user_roles", self.remote_user_roles or None),
            ("remote_agent", self.remote_agent),
            ("remote_documents", self.remote_documents),
            ("remote_ca_file", self.remote_ca_file),
        ):
            if value is not None:
                yield (
                    f"{variable('remote_url')}: is unset, so {variable(name)} is not used; set "
                    f"{variable('remote_url')}, or unset {variable(name)}"
                )

    def _missing(self, url: str) -> Iterator[str]:
        if self.remote_token is None and self.remote_token_file is None:
            yield (
                f"{variable('remote_token')}: set either this or {variable('remote_token_file')} "
                f"if {variable('remote_url')} is set"
            )
        if self.remote_token is not None and self.remote_token_file is not None:
            yield (
                f"{variable('remote_token')}: is set as well as {variable('remote_token_file')}; "
                "unset one of them"
            )
        if self.remote_ca_file is not None and url.startswith("ws:"):
            yield (
                f"{variable('remote_url')}: is ws://, so {variable('remote_ca_file')} is not used; "
                f"use wss://, or unset {variable('remote_ca_file')}"
            )
        if not self.remote_allow_insecure and not is_private(url):
            yield (
                f"{variable('remote_url')}: should start with wss://, unless "
                f"{variable('remote_allow_insecure')} is true"
            )
