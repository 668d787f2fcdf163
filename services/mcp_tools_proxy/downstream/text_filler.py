"""Fills in texts with parts of the caller and secrets, each value encoded for its place.

A place is a path, a header, a variable or an argument. Beside other text in a variable or an
argument, as in ``--root=/srv/${caller.tenant_id}``, a value is one segment of a path as well.

A tenant or user may be called anything: ``../globex``, a line break and a header, ``--force``. Each
encoding is injective, so that two ids never give one value. Text in Unicode's composed form and in
its decomposed form are two ids, and stay two.
"""

import re
from collections.abc import Callable, Mapping
from urllib.parse import quote_from_bytes

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.caller_template import CallerTemplate, Encode, credentials_missing
from mcp_tools_proxy.domain.server import CallerTexts
from mcp_tools_proxy.downstream.secret_files import Secret, SecretFiles

_NOT_IN_HEADER = re.compile(r"[\u0000-\u0008\u000a-\u001f\u007f]")
_NOT_ELSEWHERE = re.compile(r"\u0000")


class TextFiller:
    """Fills in texts; ``secrets`` is None where there is no folder of them."""

    def __init__(self, secrets: SecretFiles | None = None) -> None:
        self._secrets = secrets

    def __repr__(self) -> str:
        return f"<TextFiller {self._secrets}>"

    async def fill_texts(
        self, texts: Mapping[str, str | CallerTemplate], caller: Caller | None
    ) -> Mapping[str, str]:
        """Return texts filled in, their parts of the caller unchanged.

        Raises IdentityRequired, CredentialsMissing.
        """
        templates = {n: it for n, it in texts.items() if isinstance(it, CallerTemplate)}
        plain = {n: it for n, it in texts.items() if isinstance(it, str)}
        if not templates:
            return plain
        fill = await self.prepare(CallerTexts(headers=templates), caller)
        return {**plain, **{name: fill(it, str) for name, it in templates.items()}}

    async def prepare(
        self, texts: CallerTexts, caller: Caller | None
    ) -> Callable[[CallerTemplate, Encode], str]:
        """Read the secrets of all ``texts``, and return a function that fills in one of them."""
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
    """Return the text of a secret. Raises CredentialsMissing."""
    if secret.text is None:
        raise credentials_missing(secret.problem)
    if unusable.search(secret.text):
        raise credentials_missing(f"the secret {path} has a control character or a line break")
    return secret.text


_PLAIN_IN_SEGMENT = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.")
_PLAIN_IN_HEADER = "!#$&'()*+-./:<=>?@[]^_`{|}~"
"""Beside letters and digits. A comma would make two values of a header, a semicolon a parameter."""

_OPTION_STARTS = ("-", "@")
"""What begins an option, or with many programs the name of a file with options."""


def encode_segment(value: str) -> str:
    """Encode a value as one segment of a path: ``a_b/c`` is ``a__b_2fc``.

    ASCII letters, digits, ``-`` and dots stand for themselves, but for a dot in front; ``_`` is
    ``__``, and every other byte of UTF-8 is ``_`` and two hexadecimal digits.
    """
    encoded = "".join(map(_in_segment, value))
    return f"_2e{encoded[1:]}" if encoded.startswith(".") else encoded


def encode_header(value: str) -> str:
    """Percent-encode all but visible ASCII, and ``%``, ``,``, ``;``, ``"`` and the backslash."""
    return quote_from_bytes(value.encode("utf-8", "surrogatepass"), safe=_PLAIN_IN_HEADER)


def encode_variable(value: str) -> str:
    """Percent-encode ``%`` and what is not printable: line breaks, NUL, other control characters.

    Text in other scripts stays as it is.
    """
    return "".join(map(_printable, value))


def encode_argument(value: str) -> str:
    """Encode as ``encode_variable``, and a ``-`` or ``@`` in front: no value becomes an option."""
    encoded = encode_variable(value)
    if encoded.startswith(_OPTION_STARTS):
        return f"%{ord(encoded[0]):02X}{encoded[1:]}"
    return encoded


def encode_within_text(encode: Encode) -> Encode:
    """Return ``encode`` for a value beside other text: no value leaves its segment of a path.

    ``/``, the backslash, and a value of dots only are percent-encoded. ``..`` beside ``/srv/`` was
    the folder of all tenants, and ``../globex`` that of another.
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
