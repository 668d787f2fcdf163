"""Builds a Tool from a pydantic argument model and one async function.

Also defines shared arguments, such as a document's id, and its lookup.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Generic, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from mcp_tools_proxy.documents.document_cache import CachedDocument
from mcp_tools_proxy.documents.document_filter import parse_filter
from mcp_tools_proxy.documents.document_repository import DocumentRepository
from mcp_tools_proxy.documents.document_store import DocumentFilter, Wanted
from mcp_tools_proxy.documents.tools.sources import read_of, without_sources
from mcp_tools_proxy.domain.caller import Call
from mcp_tools_proxy.domain.components import DOCUMENT_ARGUMENT, JsonObject, Result, ToolSpec
from mcp_tools_proxy.domain.errors import InvalidArguments, ProxyError
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.json_objects import without_none
from mcp_tools_proxy.wire.identifiers import ContentVersion, Identifier, id_of
from mcp_tools_proxy.wire.problem_texts import (
    MAX_PROBLEMS,
    closest_match,
    did_you_mean,
    join_first,
    problem_of,
)
from mcp_tools_proxy.wire.strict_json import whole_number
from mcp_tools_proxy.wire.text import QUOTE_CHARS, quote

LARGEST = 10**18
"""Larger integers are clamped to it; documents have fewer pages, characters and sections."""

_INTEGER = re.compile(r"-?[0-9]{1,4300}")


def _integer(value: object) -> object:
    """Validate an integer, including ``3.0`` and strings, which models send (T-01)."""
    value = whole_number(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("should be an integer")  # noqa: TRY004 - pydantic reports ValueError
    return max(-LARGEST, min(value, LARGEST))


Natural = Annotated[int, Field(ge=0), BeforeValidator(_integer)]
"""An integer, 0 or more."""

Positive = Annotated[int, Field(ge=1), BeforeValidator(_integer)]
"""An integer, 1 or more."""

Id = Annotated[Identifier, BeforeValidator(id_of)]
"""An id; integers are accepted as strings."""

StartChar = Annotated[
    Natural, Field(description="To continue a truncated answer: its next_start_char.")
]

WantedDocuments = Annotated[
    DocumentFilter,
    PlainValidator(parse_filter),
    WithJsonSchema(
        {
            "type": "object",
            "properties": {
                "tags": {"type": "object", "description": "Lists any, all, not."},
                "language": {"type": "string"},
                "date": {"type": "object", "description": "from, to: 2027-01-31."},
                "metadata": {"type": "object", "description": "By key: values, or min, max."},
            },
        }
    ),
]
"""A filter of documents."""

MAX_ARGUMENTS = 100
"""Maximum validated arguments of a call; tools have fewer."""

MAX_IGNORED = 20
"""Maximum ignored arguments named in a result."""

NEAR_MISS = 0.8
"""Minimum similarity, without case and underscores, of an unknown name to a misspelt one."""

_NOT_SHOWN = ("title", "pattern", "minLength", "maxLength", "maxItems")


class Arguments(BaseModel):
    """Base of argument models; frozen; unknown arguments are refused (T-01)."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ConflictingArguments(ValueError):
    """Arguments are individually valid but inconsistent; raised in validators of a model.

    ``names`` are these arguments: pydantic has no location for errors of a whole model.
    """

    def __init__(self, message: str, *names: str) -> None:
        super().__init__(message)
        self.names = names


ArgumentsT = TypeVar("ArgumentsT", bound=Arguments)
DocumentT = TypeVar("DocumentT", bound=CachedDocument | None)


class _Prepared(Generic[ArgumentsT, DocumentT]):
    """Validated and ignored arguments of a call, and its document once found."""

    __slots__ = ("arguments", "document", "ignored")

    def __init__(self, arguments: ArgumentsT, ignored: Sequence[str]) -> None:
        self.arguments = arguments
        self.ignored = ignored
        self.document: DocumentT | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTool(Generic[ArgumentsT, DocumentT]):
    """A Tool over an argument model and a function; see ``build_local_tool``."""

    spec: ToolSpec
    model: type[ArgumentsT]
    check: Callable[[ArgumentsT], None] | None
    function: Callable[[ArgumentsT, Call, DocumentT], Awaitable[Result]]
    find_document: Callable[[ArgumentsT, Call], Awaitable[DocumentT]]
    ignores_unknown_arguments: bool
    shows_sources: bool = True
    """Whether answers have sources if neither the request nor the agent's profile decides."""

    def complete_arguments(self, call: Call) -> Call:
        """Return the call with its doc_id as text, by default the only one of the caller."""
        given = call.arguments.get(DOCUMENT_ARGUMENT)
        documents = call.caller.documents
        if given is not None:
            document = id_of(given)
        elif documents is not None and len(documents) == 1:
            (document,) = documents
        else:
            return call
        if document is given or DOCUMENT_ARGUMENT not in self.spec.argument_names:
            return call
        return replace(call, arguments={**call.arguments, DOCUMENT_ARGUMENT: document})

    def parse(self, arguments: JsonObject) -> object:
        """Validate ``arguments``; null counts as absent (contract §1). Raises InvalidArguments."""
        if len(arguments) > MAX_ARGUMENTS:  # each unknown one is a problem: 80,000 took 0.2 s
            names = self.model.model_fields
            known = {name: arguments[name] for name in names if name in arguments}
            arguments = dict(islice(arguments.items(), MAX_ARGUMENTS)) | known
        parsed, ignored = self._validate(without_none(arguments))
        if self.check is not None:
            self.check(parsed)
        prepared: _Prepared[ArgumentsT, DocumentT] = _Prepared(parsed, ignored)
        return prepared

    async def check_document(self, parsed: Any, call: Call) -> str | None:
        """Return the version of the document. Raises AccessDenied, DocumentNotFound."""
        document = parsed.document = await self.find_document(parsed.arguments, call)
        return None if document is None else document.head.version

    async def call(self, parsed: Any, call: Call) -> Result:
        """Call the function with the arguments and the checked document.

        The result names the ignored arguments. That of a run's call also names the document.
        """
        head = None if parsed.document is None else parsed.document.head
        try:
            result = await self.function(parsed.arguments, call, parsed.document)
        except ProxyError as error:
            error.reads_untrusted = head is not None and head.is_untrusted
            raise
        if call.run is not None and head is not None:
            result = replace(
                result, read=(read_of(head, result.value),), reads_untrusted=head.is_untrusted
            )
        if not (self.shows_sources if call.sources is None else call.sources):
            result = replace(result, value=without_sources(result.value))
        if not parsed.ignored:
            return result
        named = [name[:QUOTE_CHARS] for name in parsed.ignored[:MAX_IGNORED]]
        return replace(result, value={**result.value, "ignored_arguments": named})

    def _validate(self, present: JsonObject) -> tuple[ArgumentsT, Sequence[str]]:
        """Return the valid arguments and the names of the ignored ones."""
        try:
            return self.model.model_validate(present), ()
        except ValidationError as error:
            ignored = self._ignorable(error)
            if not ignored:
                raise self._refusal(error) from None
        known = {name: value for name, value in present.items() if name not in ignored}
        return self._validate(known)[0], ignored

    def _ignorable(self, error: ValidationError) -> Sequence[str]:
        """Return the unknown arguments if they are the only problem and not misspelt."""
        if not self.ignores_unknown_arguments:
            return ()
        errors = error.errors(include_url=False, include_input=False, include_context=False)
        names = [str(it["loc"][0]) for it in errors if it["type"] == "extra_forbidden"]
        if len(names) < len(errors) or any(map(self._similar_argument, names)):
            return ()
        return names

    def _similar_argument(self, name: str) -> str | None:
        """Return the argument that ``name`` resembles, if any."""
        spellings = {_spelling(known): known for known in self._shown_arguments()}
        match = closest_match(_spelling(name), spellings, least=NEAR_MISS)
        return None if match is None else spellings[match]

    def _refusal(self, error: ValidationError) -> InvalidArguments:
        errors = error.errors(include_url=False, include_input=False)
        message = join_first(errors, self._problem)
        names = [name for problem in errors[:MAX_PROBLEMS] for name in _names_in(problem)]
        return InvalidArguments(message, details={"arguments": list(dict.fromkeys(names))})

    def _problem(self, error: ErrorDetails) -> str:
        if not error["loc"]:
            return problem_of(error)
        if error["type"] == "extra_forbidden":
            name = str(error["loc"][0])
            known = ", ".join(self._shown_arguments()) or "none"
            hint = did_you_mean(self._similar_argument(name), f", which takes: {known}")
            return f"{quote(name)} is not an argument of {self.spec.name}{hint}"
        return f"{error['loc'][0]}: {problem_of(error)}"

    def _shown_arguments(self) -> list[str]:
        return [name for name in self.model.model_fields if name in self.spec.argument_names]


def _spelling(name: str) -> str:
    """Return a name without case and separators: models write docId for doc_id."""
    return re.sub(r"[\W_]", "", name[:QUOTE_CHARS]).casefold()


def _names_in(error: ErrorDetails) -> tuple[str, ...]:
    if error["loc"]:
        return (str(error["loc"][0])[:QUOTE_CHARS],)
    match error.get("ctx"):
        case {"error": ConflictingArguments(names=names)}:
            return names
    return ()


async def no_document(_arguments: Arguments, _call: Call) -> None:
    """Return None, for tools without a document argument."""


class DocumentArguments(Arguments):
    """Base of arguments with a document."""

    doc_id: Id


class VersionArguments(DocumentArguments):
    """Base of arguments with a document and an optional version."""

    version: Annotated[
        ContentVersion | None,
        Field(description="To read an older version: the version in a source."),
    ] = None


DocumentArgumentsT = TypeVar("DocumentArgumentsT", bound=DocumentArguments)

VersionArgumentsT = TypeVar("VersionArgumentsT", bound=VersionArguments)

FindDocument = Callable[[DocumentArgumentsT, Call], Awaitable[CachedDocument]]


def document_finder(
    repository: DocumentRepository, wanted: Callable[[DocumentArgumentsT], Wanted]
) -> FindDocument[DocumentArgumentsT]:
    """Build a function that finds the document of a call, with the wanted parts.

    The function raises AccessDenied, DocumentNotFound, DocumentsUnavailable.
    """

    def find(arguments: DocumentArgumentsT, call: Call) -> Awaitable[CachedDocument]:
        return repository.find(call.caller, arguments.doc_id, wanted(arguments))

    return find


def version_finder(
    repository: DocumentRepository, wanted: Callable[[VersionArgumentsT], Wanted]
) -> FindDocument[VersionArgumentsT]:
    """Build a ``document_finder`` for an optional version. It also raises VersionNotKept."""
    find_present = document_finder(repository, wanted)

    def find(arguments: VersionArgumentsT, call: Call) -> Awaitable[CachedDocument]:
        if arguments.version is None:
            return find_present(arguments, call)
        return repository.find_version(
            call.caller, arguments.doc_id, arguments.version, wanted(arguments)
        )

    return find


def build_local_tool(
    *,
    name: str,
    description: str,
    arguments: type[ArgumentsT],
    result: type[Mapping[str, object]],
    function: Callable[[ArgumentsT, Call, DocumentT], Awaitable[Result]],
    find_document: Callable[[ArgumentsT, Call], Awaitable[DocumentT]],
    check: Callable[[ArgumentsT], None] | None = None,
    needs_tenant: bool = True,
    ignores_unknown_arguments: bool = False,
    is_configured: bool = True,
) -> LocalTool[ArgumentsT, DocumentT]:
    """Build a local tool, whose alias is its name.

    ``check`` raises the *_TOO_LARGE errors that depend on arguments only. ``result`` is a TypedDict
    of the result's JSON. ``find_document`` raises AccessDenied or DocumentNotFound before the call
    is charged; if it returns None, even a call for a missing document is charged to the document's
    budget. ``function`` receives the found document. A tool without documents (``no_document``)
    needs no tenant. A tool that is not configured is not listed, and its calls are refused. With
    ``ignores_unknown_arguments``, the result names unknown arguments; misspelt ones are refused.
    """
    spec = ToolSpec(
        name=name,
        alias=name,
        description=description,
        input_schema=_arguments_schema(arguments),
        output_schema=_result_schema(result),
        annotations={"readOnlyHint": True, "openWorldHint": False},
        needs_tenant=needs_tenant,
        is_configured=is_configured,
    )
    return LocalTool(
        spec=spec,
        model=arguments,
        check=check,
        function=function,
        find_document=find_document,
        ignores_unknown_arguments=ignores_unknown_arguments,
    )


@lru_cache(maxsize=64)
def _arguments_schema(model: type[Arguments]) -> dict[str, object]:
    """Return the input schema; cached, because pydantic takes milliseconds."""
    schema = model.model_json_schema()
    properties = schema.get("properties", {})
    shown: dict[str, object] = {
        "type": "object",
        "properties": {name: _plain(part) for name, part in properties.items()},
        "additionalProperties": False,
    }
    return shown | {"required": schema["required"]} if "required" in schema else shown


@lru_cache(maxsize=64)
def _result_schema(result: type[Mapping[str, object]]) -> dict[str, object]:
    """Return the output schema; cached, because pydantic takes milliseconds."""
    fields = TypeAdapter(result).json_schema()["properties"]
    return {"type": "object", "properties": {name: _typed(it) for name, it in fields.items()}}


def _plain(part: dict[str, Any]) -> dict[str, object]:
    """Return the shortened schema of an argument.

    Each keyword costs tokens in every request to a model. Bounds that models do not reach are
    omitted but still checked. "T or null" becomes T, because null means absent and models handle a
    single type better.
    """
    plain = {key: value for key, value in part.items() if key not in _NOT_SHOWN}
    match plain.get("anyOf"):
        case [dict() as present, {"type": "null"}]:
            del plain["anyOf"]
            plain = without_none(_plain(present) | plain)
    if "items" in plain:
        plain["items"] = _plain(plain["items"])
    return plain


def _typed(part: dict[str, Any]) -> dict[str, object]:
    """Return only the type from the output schema of a field.

    The full schemas of nine tools were 3,500 of their 5,900 tokens over MCP.
    """
    typed: dict[str, object] = {"type": part.get("type", "object")}  # a reference has no type
    if "items" in part:
        typed["items"] = _typed(part["items"])
    return typed
