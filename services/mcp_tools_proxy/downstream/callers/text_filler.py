"""Fills in texts with parts of the caller and secrets, each value encoded for its place."""

import re
from collections.abc import Callable, Mapping

from mcp_tools_proxy.domain.caller import Caller
from mcp_tools_proxy.domain.caller_template import (
    CallerTemplate,
    Encode,
    credentials_missing,
)
from mcp_tools_proxy.domain.server import CallerTexts
from mcp_tools_proxy.downstream.callers.encoding import encode_header, encode_segment
from mcp_tools_proxy.downstream.callers.secret_files import Secret, SecretFiles

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
