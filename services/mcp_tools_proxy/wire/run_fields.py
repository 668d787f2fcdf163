"""The run of a request, as HTTP bodies and MCP's ``_meta`` name it."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from mcp_tools_proxy.domain.run import MAX_TASK_CHARS, RunRequest
from mcp_tools_proxy.wire.identifiers import Identifier

RUN_HEADER = "X-Run-Id"
"""The header with the id of a run, for requests that give only the id."""

RUN_ID_RULE = "should be 1-256 characters without control characters"

MAX_DECLARED_TOOLS = 1_000

_ToolName = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class RunFields(BaseModel):
    """The run that a call belongs to: the calls for one task of a user."""

    model_config = ConfigDict(title="Run", extra="forbid")

    id: Annotated[
        Identifier,
        Field(
            description="The runtime's id for the run. It is the user's own, and never used again."
        ),
    ]
    task: Annotated[
        Annotated[str, StringConstraints(max_length=MAX_TASK_CHARS)] | None,
        Field(
            description=(
                "The user's own words, never a model's: values in them may be sent to tools. The "
                "words of later requests are added."
            )
        ),
    ] = None
    tools: Annotated[
        Annotated[list[_ToolName], Field(max_length=MAX_DECLARED_TOOLS, fail_fast=True)] | None,
        Field(
            description=(
                "The only tools that the run may use, by their listed names. Later requests can "
                "only leave out more."
            )
        ),
    ] = None
    read_only: Annotated[
        bool,
        Field(
            strict=True,
            description=(
                "Allow only tools without the labels `writes`, `sends` and `destructive`. It stays "
                "so for the rest of the run."
            ),
        ),
    ] = False

    def request(self) -> RunRequest:
        """Return the run for the call."""
        return RunRequest(
            run_id=self.id,
            task=self.task,
            tools=None if self.tools is None else frozenset(self.tools),
            read_only=self.read_only,
        )
