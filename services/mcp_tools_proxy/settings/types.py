"""Base class, field types and parsers of the settings."""

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    TypeAdapter,
)
from pydantic_core import from_json
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from mcp_tools_proxy.domain.server import ListedCommand, StdioMode
from mcp_tools_proxy.policy.document_tools import chosen_tools
from mcp_tools_proxy.wire.identifiers import is_loopback, is_visible_ascii
from mcp_tools_proxy.wire.text import quote

ENV_PREFIX = "MCP_PROXY_"

_BEGINS_WITH_IPV6 = re.compile(r"\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\]")
"""An IPv6 address in brackets, as in a ``Host`` header; it must not be parsed as a JSON list."""

T = TypeVar("T")


class _CommandEntry(BaseModel):
    """A program of ``MCP_PROXY_STDIO_COMMANDS``, as it is written."""

    model_config = ConfigDict(extra="forbid")

    command: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    cwd: str | None = None


_COMMANDS = TypeAdapter(tuple[_CommandEntry, ...])


class EnvironmentSettings(BaseSettings):
    """Settings read once from ``MCP_PROXY_*`` and ``.env``, then frozen."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_file=".env", extra="ignore", frozen=True, populate_by_name=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leave out a ``.env`` that is missing or empty: it took half of the time."""
        has_file = isinstance(dotenv_settings, DotEnvSettingsSource) and dotenv_settings.env_vars
        return init_settings, env_settings, *([dotenv_settings] if has_file else ())


class SettingWarning(NamedTuple):
    """A setting that is not read as it is written, or a variable that is no setting."""

    variable: str
    message: str

    def __str__(self) -> str:
        return f"{self.variable}: {self.message}"


_NEAREST_VALUES = (
    ("log_level", ("critical", "fatal"), "error", "is above every level here; read as error"),
    ("max_pages_per_call", ("0",), "1", "would refuse every call; read as 1, the minimum"),
    ("max_chunk_window", ("0",), "1", "is not a window; read as 1, only the anchor (radius 0)"),
)
"""Values that other systems allow: setting, values, the value used instead, and the reason."""


def nearest_values(
    values: Mapping[str, object],
) -> tuple[dict[str, object], tuple[SettingWarning, ...]]:
    """Replace values that only other systems know; return the values, and a warning for each."""
    read = dict(values)
    warnings: list[SettingWarning] = []
    for name, foreign, nearest, reason in _NEAREST_VALUES:
        written = str(values.get(name, "")).strip().lower()
        if written in foreign:
            read[name] = nearest
            warnings.append(SettingWarning(variable(name), f"{written} {reason}"))
    return read, tuple(warnings)


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"{ENV_PREFIX}{name.upper()}"


def secret_text(secret: SecretStr | None) -> str | None:
    """Return the text of a secret; None if it is not set."""
    return None if secret is None else secret.get_secret_value()


def secret_keys(secrets: Sequence[SecretStr]) -> list[bytes]:
    """Return the bytes of keys, in their order."""
    return [secret.get_secret_value().encode() for secret in secrets]


def empty_is_unset(value: object) -> object:
    """Convert an empty value to None."""
    return None if isinstance(value, str) and not value.strip() else value


def not_empty(value: object) -> object:
    """Refuse an empty value. Raises ValueError."""
    if isinstance(value, str) and not value.strip():
        raise ValueError("should not be empty")
    return value


def parse_list(value: object) -> object:
    """Read a comma-separated list or a JSON array of strings; empty means none."""
    if not isinstance(value, str):
        return value
    text = value.strip()
    is_json = text.startswith("[") and not _BEGINS_WITH_IPV6.match(text)
    try:
        items = from_json(text) if is_json else text.split(",")
    except ValueError:
        raise ValueError("begins with [ but is not a JSON list") from None
    if not all(isinstance(item, str) for item in items):
        raise ValueError("should be a JSON list of strings")
    return tuple(word for item in items if (word := item.strip()))


def yaml_switch(value: object) -> object:
    """Convert ``true`` and ``false``, as YAML reads ``on`` and ``off``, to these words."""
    words: Mapping[object, str] = {"true": "on", "false": "off"}
    return words.get(value, value)


def are_document_tools(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse what is not ``all``, ``none`` or names of document tools. Raises ValueError."""
    chosen_tools(names)
    return names


def parse_commands(value: object) -> object:
    """Read a JSON list of programs; empty means none. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        entries = _COMMANDS.validate_json(value.strip() or "[]")
        return tuple(ListedCommand(**it.model_dump()) for it in entries)
    except ValueError:
        raise ValueError(
            'should be a JSON list of objects with "command", and if needed "args", "env" and '
            '"cwd", such as [{"command": "npx", "args": ["-y", "@scope/notes@1.2.0"]}]'
        ) from None


def parse_log_level(value: object) -> object:
    """Convert a log level to lower case, and ``warn`` to ``warning``."""
    name = value.lower() if isinstance(value, str) else value
    return "warning" if name == "warn" else name


MAX_WORKERS = 256


def parse_workers(value: object) -> object:
    """Read a number of workers, or ``auto``. Raises ValueError."""
    text = str(value).strip().lower()
    if text == "auto":
        return text
    if not re.fullmatch(r"[0-9]{1,3}", text) or not 1 <= int(text) <= MAX_WORKERS:
        raise ValueError(f"should be auto, or a number of processes from 1 to {MAX_WORKERS}")
    return int(text)


def starting_with(*prefixes: str, word: str | None = None) -> AfterValidator:
    """Build a validator for a text, or a secret, that begins with a prefix or is ``word``."""
    expected = f"should start with {' or '.join(prefixes)}"
    if word is not None:
        expected += f", or be {word}"

    def check(value: T) -> T:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if isinstance(text, str) and text != word and not text.startswith(prefixes):
            raise ValueError(expected)
        return value

    return AfterValidator(check)


REDIS_SCHEMES = ("redis://", "rediss://", "unix://")
POSTGRES_SCHEMES = ("postgresql://", "postgres://")

MIN_KEY_CHARS = 32


def hard_to_guess(min_chars: int) -> AfterValidator:
    """Build a validator for a secret that has at least so many characters."""

    def check(value: T) -> T:
        if isinstance(value, SecretStr) and len(value.get_secret_value()) < min_chars:
            raise ValueError(
                f"should have at least {min_chars} characters, or it can be guessed; make one "
                "with: openssl rand -hex 32"
            )
        return value

    return AfterValidator(check)


def is_private(url: str) -> bool:
    """Return whether no third party can read or change what is sent: TLS, or loopback."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"https", "wss"} or is_loopback(parts.hostname or "")


def is_token(value: SecretStr | None) -> SecretStr | None:
    """Refuse a token that no ``Authorization`` header can carry: it would lock all callers out."""
    text = value.get_secret_value() if value is not None else ""
    if not is_visible_ascii(text):
        raise ValueError("should be printable ASCII without spaces")
    return value


Count = Annotated[int, Field(ge=1)]
Budget = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Radius = Annotated[Annotated[int, Field(ge=0)] | None, BeforeValidator(empty_is_unset)]
TextList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(parse_list)]


def are_passed_on(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names of variables. Raises ValueError for a name that no server may be given."""
    for name in names:
        if "=" in name:
            raise ValueError(
                f"{quote(name.partition('=')[0])} has a value, which may be a secret; remove it"
            )
        if "\0" in name:
            raise ValueError(f"{quote(name)} is not the name of a variable; remove it")
        if name.upper().startswith(ENV_PREFIX):
            raise ValueError(
                f"{quote(name)} is a setting of the gateway, which may be a secret; remove it"
            )
    return names


WEBHOOK_SECRET_PREFIX = "whsec_"  # noqa: S105 - the start of every secret


def webhook_key(secret: SecretStr) -> bytes:
    """Return the key of a secret of Standard Webhooks. Raises ValueError, without quoting it."""
    text = secret.get_secret_value()
    try:
        key = b64decode(text.removeprefix(WEBHOOK_SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    if not text.startswith(WEBHOOK_SECRET_PREFIX) or not 24 <= len(key) <= 64:
        raise ValueError("should be whsec_ and 24 to 64 random bytes as base64")
    return key


def is_webhook_secret(secret: SecretStr | None) -> SecretStr | None:
    """Return a valid secret of Standard Webhooks. Raises ValueError."""
    if secret is not None:
        webhook_key(secret)
    return secret


SigningKeys = Annotated[
    tuple[Annotated[SecretStr, hard_to_guess(MIN_KEY_CHARS)], ...],
    NoDecode,
    BeforeValidator(parse_list),
]
DocumentToolChoice = Annotated[
    TextList, BeforeValidator(not_empty), AfterValidator(are_document_tools)
]
StdioChoice = Annotated[StdioMode, BeforeValidator(yaml_switch)]
ListedCommands = Annotated[tuple[ListedCommand, ...], NoDecode, BeforeValidator(parse_commands)]
OptionalText = Annotated[str | None, BeforeValidator(empty_is_unset)]
OptionalPath = Annotated[Path | None, BeforeValidator(empty_is_unset)]
