"""Reads the file that sets the readers and tags of imported files."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from mcp_tools_proxy.cli.documents.source_folder import matches
from mcp_tools_proxy.domain.document import Readers
from mcp_tools_proxy.http.api.document_models import NamedReaders
from mcp_tools_proxy.wire.problem_texts import place_of, problem_of

_STRICT = ConfigDict(extra="forbid", frozen=True)


class RightsRule(BaseModel):
    """The readers, tags and trust of the files that match ``path``."""

    model_config = _STRICT

    path: Annotated[str, Field(min_length=1)]
    readers: NamedReaders | None = None
    all_users: bool = False
    tags: list[str] = []
    untrusted: bool = False
    """Whether strangers could write the files' text."""

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        if self.all_users and self.readers is not None:
            raise ValueError('give "readers", or "all_users": true')
        return self

    @property
    def sets_readers(self) -> bool:
        """Whether it sets who may read the files."""
        return self.all_users or self.readers is not None

    def to_readers(self) -> Readers | None:
        """Return the readers; None for all users of the tenant."""
        return None if self.readers is None else self.readers.to_readers()


class RightsFile(BaseModel):
    """Rules in order; the first one that matches a file applies."""

    model_config = _STRICT

    files: list[RightsRule] = []

    def rule_of(self, path: str) -> RightsRule | None:
        """Return the rule of a file, if any.

        Upper and lower case are one: on a share of Windows "HR" can become "hr", and the documents
        would be readable by all users of the tenant.
        """
        return next(
            (rule for rule in self.files if matches(path, [rule.path], ignore_case=True)), None
        )


def read_rights(path: Path) -> RightsFile:
    """Read a rights file. Raises ValueError: without it, documents could be open to all users."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        return RightsFile.model_validate_json(content, strict=True)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        problem = f"{place_of(first, whole='file')}: {problem_of(first)}"
        raise ValueError(f"{path}: {problem}") from error
