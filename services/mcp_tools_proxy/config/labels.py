"""labels.json: its schema, and the labels of tools from its last valid version.

The docstrings of the models are published. Unknown keys are errors: an ignored ``claimed`` or
``labels`` would permit calls that a policy should stop.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic import WithJsonSchema as Published
from pydantic_core import ErrorDetails

from mcp_tools_proxy.config.field_types import SnakeCaseModel
from mcp_tools_proxy.config.json_file import (
    json_path,
    limit_problems,
    load_or_keep_last_good,
    problem_of_error,
    read_if_there,
)
from mcp_tools_proxy.config.unknown_keys import Oddity, group_oddities
from mcp_tools_proxy.domain.configuration import Configuration, InvalidConfig, Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.domain.run import Label, ToolLabels
from mcp_tools_proxy.policy.runs.tool_labels import OWN_NAMES
from mcp_tools_proxy.wire.identifiers import with_server_id
from mcp_tools_proxy.wire.problem_texts import closest_match, did_you_mean
from mcp_tools_proxy.wire.text import quote

LABELS_FILE = "labels.json"

NO_LABELS: Mapping[str, ToolLabels] = {}
"""The object that ``load_labels`` returns without a labels.json: compare with ``is``."""

MAX_TOOLS = 10_000
MAX_NAMES = 100

PATH_PATTERN = r"^[^\[\].]*(\[\])*(\.[^\[\].]+(\[\])*)*$"
"""Keys and ``[]``, joined by points."""

_Text = Annotated[str, Field(min_length=1, max_length=256)]
_Label = Annotated[
    Label, Field(strict=False), Published({"type": "string", "enum": [it.value for it in Label]})
]
_FieldPath = Annotated[str, Field(min_length=1, max_length=256, pattern=PATH_PATTERN)]


class LabelledTool(SnakeCaseModel):
    """What a tool does, which argument is its target, and the identifiers in its results."""

    model_config = ConfigDict(extra="forbid")

    labels: Annotated[list[_Label], Field(max_length=len(Label))] = Field(examples=[["sends"]])
    """What calls do: `reads_private`, `reads_untrusted`, `writes`, `sends` and `destructive`. An
    empty list means none of them."""
    targets: Annotated[list[_Text], Field(max_length=MAX_NAMES)] | None = Field(
        default=None, examples=[["to"]]
    )
    """The arguments that say where data goes. If omitted, all arguments are targets."""
    identifiers: Annotated[list[_FieldPath], Field(max_length=MAX_NAMES)] = Field(
        default_factory=list, examples=[["orders[].id"]]
    )
    """Fields of structured results whose values can vouch for later arguments: paths such as `id`
    or `orders[].id`."""
    claimed: Annotated[list[_FieldPath], Field(max_length=MAX_NAMES)] = Field(
        default_factory=list, examples=[["orders[].sender"]]
    )
    """Fields that strangers can write, such as a sender or title. Their values never vouch."""


class LabelsFile(SnakeCaseModel):
    """Labels of tools, for runs and policies."""

    model_config = ConfigDict(extra="forbid", title="MCP Tools Proxy: labels.json")

    schema_: str = Field(
        default="", alias="$schema", title="JSON Schema", examples=["labels.schema.json"]
    )
    """The JSON Schema of this file, for editors."""
    tools: Annotated[dict[_Text, LabelledTool], Field(max_length=MAX_TOOLS)] = Field(
        examples=[{"mail:send_email": {"labels": ["sends"], "targets": ["to"]}}]
    )
    """Labels by tool, `server:tool`. Also `server:prompts/get`, `server:resources/read` and
    `server:completion/complete`. The gateway's own tools are labelled, and have no server in their
    names. A server's tool without an entry has all labels."""


_KEYS_AT_DEPTH: dict[int, type[BaseModel]] = {1: LabelsFile, 3: LabelledTool}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveLabels:
    """The active labels by name, and the problems of the current file."""

    tools: Mapping[str, ToolLabels] | None = None
    """None until labels.json was first read or found to be absent: every tool has all labels."""
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = field(default=())


def load_active_labels(
    folder: Path, before: ActiveLabels, configuration: Configuration | None
) -> ActiveLabels:
    """Load labels.json, and return the state that follows ``before``. Blocks."""
    tools, problems = load_or_keep_last_good(
        partial(load_labels, folder), before.tools, absent=NO_LABELS, file=LABELS_FILE
    )
    servers = None if configuration is None else configuration.server_ids
    odd = group_oddities(LABELS_FILE, _unknown_servers(tools or {}, servers))
    return ActiveLabels(tools=tools, problems=problems, warnings=limit_problems(LABELS_FILE, odd))


def load_labels(folder: Path) -> Mapping[str, ToolLabels]:
    """Load labels.json; ``NO_LABELS`` if it does not exist. Raises InvalidConfig."""
    written = read_if_there(folder / LABELS_FILE)
    if written is None:
        return NO_LABELS
    try:
        file = LabelsFile.model_validate(written)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise InvalidConfig(limit_problems(LABELS_FILE, [*map(_problem, found)])) from error
    tools: dict[str, ToolLabels] = {}
    problems: list[Problem] = []
    for name, entry in file.tools.items():
        if (message := _fault(name, entry, tools)) is not None:
            path = json_path(("tools", name))
            problems.append(Problem(file=LABELS_FILE, path=path, message=message))
        tools[with_server_id(name)] = ToolLabels(
            labels=frozenset(entry.labels),
            targets=None if entry.targets is None else frozenset(entry.targets),
            identifiers=tuple(entry.identifiers),
            claimed=tuple(entry.claimed),
        )
    if problems:
        raise InvalidConfig(limit_problems(LABELS_FILE, problems))
    return tools


def _fault(name: str, entry: LabelledTool, others: Mapping[str, ToolLabels]) -> str | None:
    if ":" not in name and name not in OWN_NAMES:
        hint = did_you_mean(closest_match(name, OWN_NAMES), "; write server:tool")
        return f"{quote(name)} is not a tool of the gateway{hint}"
    if with_server_id(name) in others:
        return "names the same tool as an earlier entry; keep one of them"
    if both := sorted({*entry.identifiers} & {*entry.claimed}):
        return f"has {quote(both[0])} in identifiers and in claimed; keep one of them"
    return None


def _problem(error: ErrorDetails) -> Problem:
    place = error["loc"]
    if error["type"] != "extra_forbidden":
        return problem_of_error(LABELS_FILE, error)
    key = str(place[-1])
    hint = did_you_mean(
        closest_match(key, [*_KEYS_AT_DEPTH[len(place)].model_fields]), "; correct or remove it"
    )
    message = f"{quote(key)} is not a known key{hint}"
    return Problem(file=LABELS_FILE, path=json_path(place), message=message)


def _unknown_servers(tools: Iterable[str], servers: frozenset[str] | None) -> Iterator[Oddity]:
    if servers is None:
        return
    for name in sorted(tools):
        server, colon, _ = name.partition(":")
        if colon and server not in servers:
            hint = did_you_mean(closest_match(server, servers), ", so the entry has no effect")
            yield ("tools", name), f"{quote(server)} is not a server in mcp.json{hint}"
