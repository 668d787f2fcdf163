"""The format of the tokens file: one bearer token per line, as JSON that users can also write.

A token is 256 random bits. The file has only its SHA-256, so a stolen file reveals no token; with
that much entropy, a slow password hash would add nothing.
"""

import hashlib
import re
import secrets
from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from pydantic_core import from_json, to_json

from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.wire.identifiers import MAX_DOCUMENTS, Identifier
from mcp_tools_proxy.wire.problem_texts import place_of, problem_of
from mcp_tools_proxy.wire.strict_json import RepeatedKey, check_keys

TOKEN_PREFIX = "mtp_"  # noqa: S105 - the start of every token
"""The start of every token, so that secret scanners can find it."""

ID_PATTERN = r"^[A-Za-z0-9_.-]{1,64}$"

SOON = timedelta(days=7)
"""Warning time for operators before the expiry of a token."""

MAX_ROLES = 100

_BOM = b"\xef\xbb\xbf"
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_SPAN = re.compile(r"([1-9][0-9]{0,5})([hdw])")
_TOKEN_BYTES = 32
_TOKEN = re.compile(rf"{TOKEN_PREFIX}[A-Za-z0-9_-]{{43}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEntry:
    """A token of the file; ``hash`` is its SHA-256 in hex."""

    id: str
    hash: str = field(repr=False)
    principal: Principal
    created: datetime | None = None
    expires: datetime | None = None
    note: str = ""

    def is_expired(self, now: datetime) -> bool:
        """Return whether the token has expired."""
        return self.expires is not None and self.expires <= now

    def expires_soon(self, now: datetime) -> bool:
        """Return whether the token is valid and has less than ``SOON`` left."""
        return self.expires is not None and now < self.expires <= now + SOON


@dataclass(frozen=True, slots=True)
class ParsedTokens:
    """The content of a tokens file: valid lines, and problems of the others by line number."""

    entries: tuple[TokenEntry, ...] = ()
    problems: Mapping[int, str] = field(default_factory=dict)


def token_facts(entry: TokenEntry) -> dict[str, object]:
    """Return a token for JSON, without its hash; ``agents`` and ``documents`` None are any."""
    principal, now = entry.principal, datetime.now(UTC)
    return {
        "id": entry.id,
        "tenant_id": principal.tenant_id,
        "user_id": principal.user_id,
        "roles": list(principal.roles),
        "asserts_users": principal.asserts_users,
        "agents": None if principal.agents is None else sorted(principal.agents),
        "documents": None if principal.documents is None else sorted(principal.documents),
        "rights": sorted(principal.rights),
        "execute": principal.executes,
        "created": _format_timestamp(entry.created),
        "expires": _format_timestamp(entry.expires),
        "is_expired": entry.is_expired(now),
        "expires_soon": entry.expires_soon(now),
        "note": entry.note,
    }


def contradiction_of(principal: Principal) -> Literal["tenant", "asserts_users"] | None:
    """Return the field of a token that contradicts others, if any.

    Only an operator's token can lack a tenant; a token that asserts users names neither user nor
    roles.
    """
    if principal.tenant_id is None and not principal.rights:
        return "tenant"
    if principal.asserts_users and (principal.user_id is not None or principal.roles):
        return "asserts_users"
    return None


def new_token() -> str:
    """Create a random token."""
    return TOKEN_PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)


def sha256_of(token: str) -> str:
    """Return the SHA-256 of a token in hex."""
    return hashlib.sha256(token.encode()).hexdigest()


def token_hash(text: str) -> str | None:
    """Return the SHA-256 in hex of a text in the form of a token, otherwise None."""
    return sha256_of(text) if _TOKEN.fullmatch(text) else None


def read_lines(data: bytes) -> ParsedTokens:
    """Parse a tokens file, without empty lines and comments (``#``).

    An invalid line, or one that repeats an earlier token or id, is a problem instead of an entry.
    """
    entries: dict[str, TokenEntry] = {}
    problems: dict[int, str] = {}
    ids: set[str] = set()
    for number, line in enumerate(data.removeprefix(_BOM).split(b"\n"), start=1):
        if not line.strip() or line.lstrip().startswith(b"#"):
            continue
        try:
            entry = parse_line(line)
        except ValueError as error:
            problems[number] = str(error)
            continue
        if entry.hash in entries or entry.id in ids:
            problems[number] = "its id or token is used on an earlier line"
            continue
        entries[entry.hash] = entry
        ids.add(entry.id)
    return ParsedTokens(tuple(entries.values()), problems)


def parse_line(line: bytes) -> TokenEntry:
    """Parse a line. Raises ValueError, which quotes no value of the line."""
    try:
        content = from_json(line)
        check_keys(line, content)
    except RepeatedKey as error:
        place = place_of({"loc": error.place}, whole="line")
        raise ValueError(f"{place}: appears twice; keep one of them") from None
    except ValueError:
        raise ValueError("is not JSON") from None
    try:
        return _Line.model_validate(content).to_entry()
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{place_of(first, whole='line')}: {problem_of(first)}") from None


def dump_line(entry: TokenEntry) -> bytes:
    """Serialize a line, with its line feed. Raises ValueError if it could not be parsed back."""
    principal = entry.principal
    fields: dict[str, object] = {
        "id": entry.id,
        "sha256": entry.hash,
        "tenant": principal.tenant_id,
        "user": principal.user_id,
        "roles": principal.roles or None,
        "asserts_users": principal.asserts_users or None,
        "agents": None if principal.agents is None else sorted(principal.agents),
        "documents": None if principal.documents is None else sorted(principal.documents),
        "admin": OperatorRight.PRESETS in principal.rights or None,
        "may": sorted(principal.rights - {OperatorRight.PRESETS}) or None,
        "execute": None if principal.executes else False,
        "created": _format_timestamp(entry.created),
        "expires": _format_timestamp(entry.expires),
        "note": entry.note or None,
    }
    line = to_json(without_none(fields))
    parse_line(line)
    return line + b"\n"


def id_of(line: bytes) -> str | None:
    """Return a line's id, if any, even if the line is otherwise invalid."""
    return _text_of(line, "id")


def tenant_of(line: bytes) -> str | None:
    """Return a line's tenant, if any, even if the line is otherwise invalid."""
    return _text_of(line, "tenant")


def _text_of(line: bytes, key: str) -> str | None:
    try:
        content = from_json(line.removeprefix(_BOM))
    except ValueError:
        return None
    found = content.get(key) if isinstance(content, dict) else None
    return found if isinstance(found, str) else None


def parse_timestamp(value: object) -> object:
    """Parse an ISO 8601 date or time; without an offset it is UTC. Raises ValueError.

    Other types are returned unchanged, for pydantic to validate.
    """
    if not isinstance(value, str):
        return value
    try:
        timestamp = datetime.fromisoformat(value)
    except ValueError:
        raise ValueError("should be a date or time in ISO 8601") from None
    return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)


def parse_expiry(text: str, now: datetime) -> datetime:
    """Parse an expiry: a span from ``now`` such as ``90d``, or a time.

    Raises ValueError for other texts, for times in the past, and for times without a form in UTC,
    which could not be shown.
    """
    span = _SPAN.fullmatch(text)
    try:
        if span:
            return now + timedelta(**{_UNITS[span[2]]: int(span[1])})
        moment = cast("datetime", parse_timestamp(text))
        moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(
            "should be hours, days or weeks (12h, 90d, 4w), or a time in ISO 8601"
        ) from None
    if moment <= now:
        raise ValueError("is in the past")
    return moment


def _format_timestamp(timestamp: datetime | None) -> str | None:
    return None if timestamp is None else timestamp.isoformat(timespec="seconds")


_Timestamp = Annotated[datetime, BeforeValidator(parse_timestamp)]


class _Line(BaseModel):
    """A line as JSON. Unknown keys are refused: a misspelt one would widen the token."""

    model_config = ConfigDict(strict=True, extra="forbid", defer_build=True)

    id: Annotated[str, StringConstraints(pattern=ID_PATTERN)]
    sha256: Annotated[
        str, StringConstraints(pattern=r"^[0-9a-fA-F]{64}$"), AfterValidator(str.lower)
    ]
    tenant: Identifier | None = None
    user: Identifier | None = None
    roles: Annotated[list[Identifier], Field(max_length=MAX_ROLES)] = Field(default_factory=list)
    asserts_users: bool = False
    agents: Annotated[list[Identifier], Field(min_length=1)] | None = None
    documents: Annotated[list[Identifier], Field(max_length=MAX_DOCUMENTS)] | None = None
    admin: bool = False
    """The right PRESETS in files of older versions."""
    may: list[Annotated[OperatorRight, Field(strict=False)]] = Field(default_factory=list)
    execute: bool = True
    created: _Timestamp | None = None
    expires: _Timestamp | None = None
    note: str = ""

    def to_entry(self) -> TokenEntry:
        rights = frozenset(self.may) | ({OperatorRight.PRESETS} if self.admin else frozenset())
        principal = Principal(
            tenant_id=self.tenant,
            user_id=self.user,
            roles=tuple(self.roles),
            asserts_users=self.asserts_users,
            agents=None if self.agents is None else frozenset(self.agents),
            documents=None if self.documents is None else frozenset(self.documents),
            rights=rights,
            executes=self.execute,
            token_log_fields={"token_id": self.id},
        )
        match contradiction_of(principal):
            case "tenant":
                raise ValueError("tenant: is missing")
            case "asserts_users":
                raise ValueError(
                    "asserts_users: each request sets user and roles, so the line cannot"
                )
        return TokenEntry(
            id=self.id,
            hash=self.sha256,
            principal=principal,
            created=self.created,
            expires=self.expires,
            note=self.note,
        )
