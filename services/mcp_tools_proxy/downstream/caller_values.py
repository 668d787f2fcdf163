"""The values of callers that a server gets: texts of mcp.json, for a session and for each call.

``TextFiller`` fills in texts with parts of the caller and secrets, each encoded for its position: a
path, a header, a variable or an argument. Next to other text in a variable or an argument, as in
``--root=/srv/${caller.tenant_id}``, a value also stays one segment of a path. ``CallerDial`` dials
a server with the current values and secrets.

Ids of tenants and users can be hostile: ``../globex``, a line break and a header, ``--force``. Each
encoding is injective, so two ids never give the same value. Unicode's composed and decomposed forms
are different ids.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.caller_template import (
    CallerPart,
    CallerTemplate,
    Encode,
    credentials_missing,
)
from mcp_tools_proxy.domain.errors import CredentialsMissing, IdentityRequired
from mcp_tools_proxy.domain.server import CallerTexts, ServerConfig, Transport
from mcp_tools_proxy.downstream.connection import (
    CallHeaders,
    ConnectAttempt,
    Connection,
    ConnectionFailure,
    Dial,
    NotUsableAsConfigured,
    OnListChanged,
    ServerOutput,
    SessionAccess,
)
from mcp_tools_proxy.downstream.secret_files import Secret, SecretFiles
from mcp_tools_proxy.wire.mcp_protocol import HANDSHAKE_VERSIONS
from mcp_tools_proxy.wire.tracing import CALLER_KEY

if TYPE_CHECKING:
    from mcp_tools_proxy.downstream.oauth.session_tokens import OAuthAccess


POLL_S = 0.5

_NOT_IN_HEADER = re.compile(r"[\u0000-\u0008\u000a-\u001f\u007f]")
_NOT_ELSEWHERE = re.compile(r"\u0000")


SignAssertion = Callable[[Caller, str], str]
"""Returns a new token that identifies the caller to an audience. Raises CredentialsMissing."""

OpenOAuth = Callable[[], Awaitable["OAuthAccess"]]


class CallerValues:
    """Values of callers for the texts of entries, and their tokens.

    A session gets the values that all of its calls share: those equal for every caller, and those
    that its isolation separates. Other values go with each call.
    """

    def __init__(
        self,
        filler: "TextFiller | None" = None,
        sign: SignAssertion | None = None,
        oauth: OpenOAuth | None = None,
    ) -> None:
        self._filler = filler or TextFiller()
        self._sign = sign
        self._oauth = oauth

    def __repr__(self) -> str:
        return f"<CallerValues {self._filler} signs={self._sign is not None}>"

    async def filled(self, config: ServerConfig, caller: Caller | None) -> ServerConfig:
        """Return the configuration of a session of ``caller``, or of a session without a caller.

        Variables and headers are left out if they contain parts of the caller that are unknown, or
        that the isolation does not separate. Raises IdentityRequired for other texts with unknown
        parts, and CredentialsMissing.
        """
        texts = config.caller_texts
        if texts is None:
            return config
        separated = frozenset(it for it in config.isolation.separates if it.is_known_of(caller))
        env = {n: it for n, it in texts.env.items() if it.caller_parts <= separated}
        headers = {n: it for n, it in texts.headers.items() if it.caller_parts <= separated}
        fill = await self._filler.prepare(replace(texts, env=env, headers=headers), caller)
        return replace(
            config,
            args=tuple(
                it if isinstance(it, str) else fill(it, _in(it, encode_argument))
                for it in texts.args
            )
            or config.args,
            env={
                **config.env,
                **{n: fill(it, _in(it, encode_variable)) for n, it in env.items()},
            },
            cwd=config.cwd if texts.cwd is None else fill(texts.cwd, encode_segment),
            sandbox=config.sandbox
            if texts.sandbox is None
            else texts.sandbox.filled(lambda path: fill(path, encode_segment)),
            headers={**config.headers, **{n: fill(it, encode_header) for n, it in headers.items()}},
        )

    async def for_call(self, config: ServerConfig, caller: Caller) -> CallHeaders:
        """Return the headers of one call, and check that its caller has everything the entry needs.

        Raises IdentityRequired, CredentialsMissing, LoginRequired, CredentialsInsufficient, and
        ServerUnavailable if an issuer is not reachable; nothing of the call was sent then.
        """
        headers = await self._for_call(config, caller)
        if config.auth is None or self._oauth is None:
            return headers
        token = await (await self._oauth()).of(config, config.auth).header_for(caller)
        return replace(headers, token=token)

    async def _for_call(self, config: ServerConfig, caller: Caller) -> CallHeaders:
        headers: Mapping[str, str] = {}
        if (texts := config.caller_texts) is not None:
            fill = await self._filler.prepare(texts, caller)
            headers = {n: fill(it, encode_header) for n, it in texts.headers.items()}
            for template in templates_of(replace(texts, headers={})):
                fill(template, encode_variable)  # the session can be shared, or not open yet
        for part in config.forward:
            part.of(caller)
        return CallHeaders(headers, self._signer(config, caller))

    async def check(self, config: ServerConfig, caller: Caller) -> bool:
        """Check, without sending a call, that a call of ``caller`` would have everything it needs.

        The caller is taken as proven; return whether a call has to prove the user by a JWT. Raises
        IdentityRequired, CredentialsMissing, LoginRequired, LoginsUnavailable.
        """
        of_session = (part for part in CallerPart if part in config.isolation.separates)
        for part in (*config.forward, *of_session):
            part.of(caller)
        headers = await self._for_call(config, caller)
        headers.of_request(modern=True)  # the key of an assertion can be missing
        if config.auth is None or self._oauth is None:
            return False
        return await (await self._oauth()).of(config, config.auth).check_login(caller)

    async def offer(self, config: ServerConfig, caller: Caller) -> None:
        """Keep the caller's proof from a request, before a session of the caller is opened.

        Raises IdentityRequired for a missing proof.
        """
        if config.auth is not None and self._oauth is not None:
            (await self._oauth()).of(config, config.auth).offer(caller)

    async def access(self, config: ServerConfig, caller: Caller | None) -> SessionAccess | None:
        """Return the tokens of a session of ``caller``; None if it needs none."""
        if config.auth is None or self._oauth is None:
            return None
        return (await self._oauth()).session(config, config.auth, caller)

    async def wait_changed(
        self, config: ServerConfig, caller: Caller | None, filled: ServerConfig
    ) -> None:
        """Wait until a session would be filled in differently, as a secret changed or vanished."""
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
            raise credentials_missing("the key to sign assertions with is missing")
        return lambda: {assertion.header: sign(caller, assertion.audience)}


def _in(template: CallerTemplate, encode: Encode) -> Encode:
    return encode if template.is_alone else encode_within_text(encode)


def caller_meta(parts: tuple[CallerPart, ...], caller: Caller) -> Mapping[str, object]:
    """Build the description of the caller in a call's ``_meta``. Raises as ``CallerPart.of``."""
    return {
        CALLER_KEY: {
            part.value: list(part.values_of(caller))
            if part is CallerPart.ROLES
            else part.of(caller)
            for part in parts
        }
    }


def is_fixed_beyond(config: ServerConfig) -> bool:
    """Return whether headers contain parts of the caller that sessions are not separated by."""
    texts = config.caller_texts
    return texts is not None and any(
        not it.caller_parts <= config.isolation.separates for it in texts.headers.values()
    )


def has_session_secrets(config: ServerConfig) -> bool:
    """Return whether an open session can have a secret that changes."""
    texts = config.caller_texts
    return texts is not None and any(template.has_secret for template in templates_of(texts))


class CallerDial:
    """Dial for the sessions of ``caller``, which is optional."""

    def __init__(self, dial: Dial, values: CallerValues, caller: Caller | None = None) -> None:
        self._dial = dial
        self._values = values
        self._caller = caller
        self._filled: ServerConfig | None = None

    def __repr__(self) -> str:
        return f"<CallerDial {self._values} has_caller={self._caller is not None}>"

    @asynccontextmanager
    async def dial(
        self,
        config: ServerConfig,
        on_list_changed: OnListChanged,
        output: ServerOutput,
        attempt: ConnectAttempt,
    ) -> AsyncIterator[Connection]:
        """Connect with everything filled in; see Dial. ``output`` is emptied first.

        Raises NotUsableAsConfigured if the transport fixes headers for the session, and headers of
        the entry vary between its calls.
        """
        try:
            self._filled = await self._values.filled(config, self._caller)
        except (CredentialsMissing, IdentityRequired) as error:
            raise ConnectionFailure(
                error.message, for_operators=error.reason or error.message
            ) from None
        output.begin(_secrets_of(config, self._filled))
        access = await self._values.access(config, self._caller)
        async with self._dial(self._filled, on_list_changed, access, output, attempt) as connection:
            _check_era(config, connection)
            yield connection

    async def wait_secrets_changed(self, config: ServerConfig) -> None:
        """Wait until a secret of the session has changed."""
        if self._filled is None or not has_session_secrets(config):
            await asyncio.Event().wait()  # until cancelled
        else:
            await self._values.wait_changed(config, self._caller, self._filled)


def _secrets_of(config: ServerConfig, filled: ServerConfig) -> Iterator[str]:
    """Yield the secrets of a program, which are removed from its quoted output."""
    yield from config.secrets
    yield from filled.env.values()
    texts = config.caller_texts
    for written, argument in zip(texts.args if texts else (), filled.args, strict=False):
        if not isinstance(written, str):
            yield argument


def _check_era(config: ServerConfig, connection: Connection) -> None:
    if connection.transport is Transport.STDIO or not is_fixed_beyond(config):
        return
    if connection.transport is Transport.STREAMABLE_HTTP and (
        connection.era not in HANDSHAKE_VERSIONS
    ):
        return
    how = f"{connection.transport.value} of MCP {connection.era}"
    raise NotUsableAsConfigured(
        f"the server uses {how}, where headers are fixed for a session, but headers of its entry "
        "contain parts of the caller that sessions are not separated by; "
        'set "isolation", or remove these headers'
    )


class TextFiller:
    """Replacement of the variables in texts; ``secrets`` is optional."""

    def __init__(self, secrets: SecretFiles | None = None) -> None:
        self._secrets = secrets

    def __repr__(self) -> str:
        return f"<TextFiller {self._secrets}>"

    async def fill_texts(
        self, texts: Mapping[str, str | CallerTemplate], caller: Caller | None
    ) -> Mapping[str, str]:
        """Return texts with unencoded values. Raises IdentityRequired, CredentialsMissing."""
        templates = {n: it for n, it in texts.items() if isinstance(it, CallerTemplate)}
        plain = {n: it for n, it in texts.items() if isinstance(it, str)}
        if not templates:
            return plain
        fill = await self.prepare(CallerTexts(headers=templates), caller)
        return {**plain, **{name: fill(it, str) for name, it in templates.items()}}

    async def prepare(
        self, texts: CallerTexts, caller: Caller | None
    ) -> Callable[[CallerTemplate, Encode], str]:
        """Read the secrets of all ``texts``; return a function that fills in one text."""
        paths: set[str] = set()

        def collect(path: str) -> str:
            paths.add(path)
            return ""

        for template in templates_of(texts):
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


def templates_of(texts: CallerTexts) -> list[CallerTemplate]:
    """Return all templates of a configuration's texts."""
    cwd = [] if texts.cwd is None else [texts.cwd]
    args = [it for it in texts.args if isinstance(it, CallerTemplate)]
    paths = () if texts.sandbox is None else texts.sandbox.templates
    return [*args, *texts.env.values(), *cwd, *paths, *texts.headers.values()]


def _usable(secret: Secret, path: str, unusable: re.Pattern[str]) -> str:
    if secret.text is None:
        raise credentials_missing(secret.problem)
    if unusable.search(secret.text):
        raise credentials_missing(f"the secret {path} has a control character or a line break")
    return secret.text


_PLAIN_IN_SEGMENT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.")
_PLAIN_IN_HEADER = "!#$&'()*+-./:<=>?@[]^_`{|}~"
"""Unencoded besides letters and digits. A comma would separate values, a semicolon a parameter."""

_OPTION_STARTS = ("-", "@")
"""Begin an option, or in many programs the name of a file with options."""


def encode_segment(value: str) -> str:
    """Encode a value as one segment of a path: ``a_b/c`` is ``a__b_2fc``.

    ASCII letters, digits, ``-`` and dots except a leading one are kept; ``_`` is ``__``, and every
    other byte of UTF-8 is ``_`` and two hexadecimal digits.
    """
    encoded = "".join(map(_in_segment, value))
    return f"_2e{encoded[1:]}" if encoded.startswith(".") else encoded


def encode_header(value: str) -> str:
    """Percent-encode all but visible ASCII, and ``%``, ``,``, ``;``, ``"`` and the backslash."""
    return quote_from_bytes(value.encode("utf-8", "surrogatepass"), safe=_PLAIN_IN_HEADER)


def encode_variable(value: str) -> str:
    """Percent-encode ``%`` and unprintable characters, such as line breaks and NUL."""
    return "".join(map(_printable, value))


def encode_argument(value: str) -> str:
    """Encode as ``encode_variable``, and a leading ``-`` or ``@``: no value becomes an option."""
    encoded = encode_variable(value)
    if encoded.startswith(_OPTION_STARTS):
        return f"%{ord(encoded[0]):02X}{encoded[1:]}"
    return encoded


def encode_within_text(encode: Encode) -> Encode:
    """Return ``encode`` for a value next to other text: the value stays one segment of a path.

    ``/``, the backslash, and a value of dots only are percent-encoded. Otherwise ``..`` after
    ``/srv/`` would be the folder of all tenants, and ``../globex`` that of another tenant.
    """
    return lambda value: _no_path(encode(value))


def _no_path(encoded: str) -> str:
    if not encoded.strip("."):
        return "%2E" * len(encoded)
    return encoded.replace("/", "%2F").replace("\\", "%5C")


def _in_segment(character: str) -> str:
    if character in _PLAIN_IN_SEGMENT:
        return character
    if character == "_":
        return "__"
    return "".join(f"_{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def _printable(character: str) -> str:
    if character.isprintable() and character != "%":
        return character
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
