"""Fills in what an entry of mcp.json says of callers: for a session, and for each call."""

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.caller_template import (
    CallerPart,
    CallerTemplate,
    Encode,
    credentials_missing,
)
from mcp_tools_proxy.domain.errors import CredentialsMissing
from mcp_tools_proxy.domain.server import CallerTexts, ServerConfig
from mcp_tools_proxy.downstream.callers.encoding import (
    encode_argument,
    encode_header,
    encode_segment,
    encode_variable,
)
from mcp_tools_proxy.downstream.callers.secret_files import Secret, SecretFiles
from mcp_tools_proxy.downstream.connection import CallHeaders
from mcp_tools_proxy.wire.tracing import CALLER_KEY

POLL_S = 0.5
"""Seconds between two looks at the secrets of an open session."""

_NOT_IN_HEADER = re.compile(r"[\u0000-\u0008\u000a-\u001f\u007f]")
_NOT_ELSEWHERE = re.compile(r"\u0000")


class SignAssertion(Protocol):
    """Signs who calls, for one audience."""

    def __call__(self, caller: Caller, audience: str, /) -> str:
        """Return a new token. Raises CredentialsMissing if there is no key."""
        ...


class CallerValues:
    """Fills in the texts of entries; ``secrets`` and ``sign`` are None where not configured.

    A session is given what stays the same in all its calls: what is the same for every caller, and
    what its isolation separates callers by. Everything else goes with each call.
    """

    def __init__(
        self, secrets: SecretFiles | None = None, sign: SignAssertion | None = None
    ) -> None:
        self._secrets = secrets
        self._sign = sign

    def __repr__(self) -> str:
        return f"<CallerValues {self._secrets} signs={self._sign is not None}>"

    async def filled(self, config: ServerConfig, caller: Caller | None) -> ServerConfig:
        """Return the configuration of a session of ``caller``, None for one without a caller.

        Variables and headers with a part of the caller that is not known are left out. Raises
        IdentityRequired for other values, CredentialsMissing.
        """
        texts = config.caller_texts
        if texts is None:
            return config
        separated = frozenset(it for it in config.isolation.separates if it.is_known_of(caller))
        env = {n: it for n, it in texts.env.items() if it.caller_parts <= separated}
        headers = {n: it for n, it in texts.headers.items() if it.caller_parts <= separated}
        fill = await self._filler(replace(texts, env=env, headers=headers), caller)
        return replace(
            config,
            args=tuple(
                it if isinstance(it, str) else fill(it, encode_argument) for it in texts.args
            )
            or config.args,
            env={**config.env, **{n: fill(it, encode_variable) for n, it in env.items()}},
            cwd=config.cwd if texts.cwd is None else fill(texts.cwd, encode_segment),
            headers={**config.headers, **{n: fill(it, encode_header) for n, it in headers.items()}},
        )

    async def for_call(self, config: ServerConfig, caller: Caller) -> CallHeaders:
        """Return the headers of one call, and check that its caller has all that the entry needs.

        Raises IdentityRequired, CredentialsMissing: nothing of the call was sent then.
        """
        headers: Mapping[str, str] = {}
        if (texts := config.caller_texts) is not None:
            fill = await self._filler(texts, caller)
            headers = {n: fill(it, encode_header) for n, it in texts.headers.items()}
            for template in _templates(replace(texts, headers={})):
                fill(template, encode_variable)  # its session may be another's, or not open yet
        for part in config.forward:
            part.of(caller)
        return CallHeaders(headers, self._signer(config, caller))

    async def check(self, config: ServerConfig, caller: Caller) -> None:
        """Check that a call of ``caller`` would have all that the entry needs, without sending one.

        Raises IdentityRequired, CredentialsMissing, as the call would.
        """
        of_session = (part for part in CallerPart if part in config.isolation.separates)
        for part in (*config.forward, *of_session):
            part.of(caller)
        headers = await self.for_call(config, caller)
        headers.of_request(modern=True)  # an assertion may lack its key

    async def wait_changed(
        self, config: ServerConfig, caller: Caller | None, filled: ServerConfig
    ) -> None:
        """Wait until a session would be filled in otherwise, since a secret changed or is gone."""
        while True:
            await asyncio.sleep(POLL_S)
            try:
                if await self.filled(config, caller) != filled:
                    return
            except CredentialsMissing:
                return

    def _signer(
        self, config: ServerConfig, caller: Caller
    ) -> Callable[[], Mapping[str, str]] | None:
        assertion, sign = config.assertion, self._sign
        if assertion is None:
            return None
        CallerPart.TENANT_ID.of(caller)
        CallerPart.USER_ID.of(caller)
        if sign is None:
            raise credentials_missing("there is no key to sign assertions with")
        return lambda: {assertion.header: sign(caller, assertion.audience)}

    async def _filler(
        self, texts: CallerTexts, caller: Caller | None
    ) -> Callable[[CallerTemplate, Encode], str]:
        """Read the secrets of all ``texts``, and return a function that fills in one of them."""
        paths: set[str] = set()

        def collect(path: str) -> str:
            paths.add(path)
            return ""

        for template in _templates(texts):
            template.fill(caller, encode=str, segment=encode_segment, read_secret=collect)
        secrets = await self._read(paths) if paths else {}

        def fill(template: CallerTemplate, encode: Encode) -> str:
            unusable = _NOT_IN_HEADER if encode is encode_header else _NOT_ELSEWHERE
            return template.fill(
                caller,
                encode=encode,
                segment=encode_segment,
                read_secret=lambda path: _usable(secrets[path], path, unusable),
            )

        return fill

    async def _read(self, paths: set[str]) -> Mapping[str, Secret]:
        if self._secrets is None:
            raise credentials_missing("MCP_PROXY_SECRETS_DIR is not set")
        return await self._secrets.read(paths)


def caller_meta(parts: tuple[CallerPart, ...], caller: Caller) -> Mapping[str, object]:
    """Return what a call's ``_meta`` says of its caller. Raises IdentityRequired."""
    return {
        CALLER_KEY: {
            part.value: list(caller.roles) if part is CallerPart.ROLES else part.of(caller)
            for part in parts
        }
    }


def is_fixed_beyond(config: ServerConfig) -> bool:
    """Return whether headers need more of a caller than a session with fixed headers separates."""
    texts = config.caller_texts
    return texts is not None and any(
        not it.caller_parts <= config.isolation.separates for it in texts.headers.values()
    )


def has_session_secrets(config: ServerConfig) -> bool:
    """Return whether an open session may have a secret that changes."""
    texts = config.caller_texts
    return texts is not None and any(template.has_secret for template in _templates(texts))


def _templates(texts: CallerTexts) -> list[CallerTemplate]:
    cwd = [] if texts.cwd is None else [texts.cwd]
    args = [it for it in texts.args if isinstance(it, CallerTemplate)]
    return [*args, *texts.env.values(), *cwd, *texts.headers.values()]


def _usable(secret: Secret, path: str, unusable: re.Pattern[str]) -> str:
    """Return the text of a secret. Raises CredentialsMissing."""
    if secret.text is None:
        raise credentials_missing(secret.problem)
    if unusable.search(secret.text):
        raise credentials_missing(f"the secret {path} has a control character or a line break")
    return secret.text
