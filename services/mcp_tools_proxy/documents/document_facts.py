"""Facts about a document that operators set: tags, date, own fields, expiry and trust."""

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Self

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from mcp_tools_proxy.documents.document_file import Metadata, load_metadata
from mcp_tools_proxy.domain.document import Document, DocumentHead, MetadataValue
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.problem_texts import place_of, problem_of


@dataclass(frozen=True, slots=True, kw_only=True)
class EditableFacts:
    """The facts that can be changed without a new upload, as in ``Document``."""

    tags: tuple[str, ...] = ()
    date: str | None = None
    metadata: Mapping[str, MetadataValue] = dataclasses.field(default_factory=dict)
    expires_at: datetime | None = None
    is_untrusted: bool | None = None
    """None keeps the present mark."""

    @classmethod
    def of(cls, head: DocumentHead) -> Self:
        """Return the facts of a document."""
        return cls(
            tags=head.tags,
            date=head.date,
            metadata=head.metadata,
            expires_at=head.expires_at,
            is_untrusted=head.is_untrusted,
        )

    @property
    def etag(self) -> str:
        """The SHA-256, in hex, of the facts: changes name the one that they replace."""
        expires_at = None if self.expires_at is None else self.expires_at.isoformat()
        facts: tuple[object, ...] = (
            *(self.tags, self.date, sorted(self.metadata.items()), expires_at),
        )
        if self.is_untrusted:  # keeps the tags of documents without the mark
            facts += ("untrusted",)
        return hashlib.sha256(to_json(facts)).hexdigest()

    def set_on(self, document: Document) -> Document:
        """Return a document with these facts."""
        return dataclasses.replace(
            document,
            tags=self.tags,
            date=self.date,
            metadata=self.metadata,
            expires_at=self.expires_at,
            is_untrusted=document.is_untrusted if self.is_untrusted is None else self.is_untrusted,
        )


_PLAIN_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?")
_METADATA = TypeAdapter(Metadata, config=ConfigDict(defer_build=True))


def parse_metadata(pairs: Iterable[str]) -> dict[str, MetadataValue]:
    """Return own fields from texts ``KEY=VALUE``; a repeated key has a list of texts.

    ``true``, ``false`` and numbers that keep their spelling are stored as such; ``007`` and
    ``1.10`` are texts. Raises ValueError with the problem.
    """
    values: dict[str, list[str]] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise ValueError("should be KEY=VALUE")
        values.setdefault(name, []).append(value)
    parsed = {
        name: _typed_value(several[0]) if len(several) == 1 else several
        for name, several in values.items()
    }
    try:
        return load_metadata(_METADATA.validate_python(parsed))
    except ValidationError as error:
        problem = error.errors(include_input=False, include_url=False)[0]
        raise ValueError(f"{place_of(problem, whole='metadata')}: {problem_of(problem)}") from None


def _typed_value(text: str) -> str | int | float | bool:
    if text in ("true", "false"):
        return text == "true"
    if _PLAIN_NUMBER.fullmatch(text) and to_json(number := from_json(text)).decode() == text:
        return number  # type: ignore[no-any-return] # an int or a float
    return text


_DURATION = re.compile(r"([1-9][0-9]{0,5})([hdw])")
_HOURS: Mapping[str, int] = {"h": 1, "d": 24, "w": 7 * 24}


def parse_duration(text: str) -> timedelta:
    """Return a duration such as ``12h``, ``30d`` or ``8w``. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError("should be a duration such as 12h, 30d or 8w")
    return timedelta(hours=int(found[1]) * _HOURS[found[2]])


def parse_expiry(text: str, now: datetime) -> datetime:
    """Return the time of a duration from ``now``, a date (its start in UTC) or a time.

    Raises ValueError.
    """
    try:
        if _DURATION.fullmatch(text):
            return now + parse_duration(text)
        if len(text) == len("2027-01-31"):
            return datetime.combine(date.fromisoformat(text), time(), UTC)
        parsed = datetime.fromisoformat(text)
        if parsed.tzinfo is not None:
            return parsed.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("should be a date, a time such as 2027-01-31T12:00:00Z, or 30d")
