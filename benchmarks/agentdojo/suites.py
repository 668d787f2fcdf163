"""AgentDojo's suites: environments with injected texts, tools, and the calls of the attacker."""

import json
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from agentdojo.base_tasks import BaseInjectionTask, BaseUserTask
from agentdojo.functions_runtime import FunctionCall, FunctionsRuntime, TaskEnvironment
from agentdojo.task_suite.load_suites import get_suite
from pydantic import BaseModel, TypeAdapter

from benchmarks.agentdojo.goals import GOALS

VERSION = "v1.2.2"
"""The version of the suites: 97 user tasks, and 949 pairs of a user task and an injected goal."""

SUITES = ("workspace", "banking", "slack", "travel")

_PLACE = "INJECTED-TEXT-GOES-HERE"
_JSON = TypeAdapter(Any)

Attack = Generator[tuple[str, dict[str, Any]], Any, None]
"""Yields calls, and receives their results; None for those that were stopped or failed."""


class Suite:
    """One suite, with its tools as a server of the same name."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._suite = get_suite(VERSION, name)
        self.user_tasks: Mapping[str, BaseUserTask[Any]] = self._suite.user_tasks
        self.goals: Mapping[str, BaseInjectionTask[Any]] = self._suite.injection_tasks
        self._environments: dict[str | None, TaskEnvironment] = {}

    @cached_property
    def runtime(self) -> FunctionsRuntime:
        """AgentDojo's runtime, which makes calls."""
        return FunctionsRuntime(self._suite.tools)

    @cached_property
    def tools(self) -> Mapping[str, tuple[str, dict[str, Any]]]:
        """Description and input schema of each tool by name."""
        return {
            it.name: (it.description, it.parameters.model_json_schema()) for it in self._suite.tools
        }

    def situation(self, user_task: str, goal: str | None) -> "Situation":
        """Return a user's task with the goal's text in all places that an attacker can write."""
        environment = self._environment(goal).model_copy(deep=True)
        task = self.user_tasks[user_task]
        before = task.init_environment(environment)
        return Situation(
            suite=self,
            task=task,
            goal=None if goal is None else self.goals[goal],
            before=before,
            now=before.model_copy(deep=True),
        )

    def _environment(self, goal: str | None) -> TaskEnvironment:
        if goal not in self._environments:
            vectors = self._suite.get_injection_vector_defaults()
            injected = {} if goal is None else dict.fromkeys(vectors, _PLACE)
            found = self._suite.load_and_inject_default_environment(injected)
            if goal is not None:
                text = json.dumps(self.goals[goal].GOAL, ensure_ascii=False)[1:-1]
                written = found.model_dump_json().replace(_PLACE, text)
                found = type(found).model_validate_json(written)
            self._environments[goal] = found
        return self._environments[goal]


@dataclass(kw_only=True)
class Situation:
    """A user's task, and the environment ``before`` it and ``now``."""

    suite: Suite
    task: BaseUserTask[Any]
    goal: BaseInjectionTask[Any] | None
    before: TaskEnvironment
    now: TaskEnvironment
    made: list[FunctionCall] = field(default_factory=list)
    """The calls that were made."""

    @property
    def own_calls(self) -> list[tuple[str, dict[str, Any]]]:
        """The calls that solve the user's task."""
        calls = self.task.ground_truth(self.before.model_copy(deep=True))
        return [(it.function, dict(it.args)) for it in calls]

    def attack(self) -> Attack:
        """Return the calls that reach the goal from the current environment."""
        assert self.goal is not None
        written = GOALS.get((self.suite.name, self.goal.ID))
        if written is not None:
            yield from written(self.goal, self.before)
            return
        for call in self.goal.ground_truth(self.now.model_copy(deep=True)):
            yield call.function, dict(call.args)

    def make(self, tool: str, arguments: Mapping[str, Any]) -> tuple[object, str | None]:
        """Make a call, and return its result as structured content, or its error."""
        self.made.append(FunctionCall(function=tool, args=dict(arguments)))
        result, error = self.suite.runtime.run_function(self.now, tool, arguments)
        if error is not None:
            return None, error
        found = _JSON.dump_python(result, mode="json")
        return (found if isinstance(result, dict | BaseModel) else {"result": found}), None

    def is_read(self, result: object) -> bool:
        """Return whether a result contains the goal's text."""
        return self.goal is not None and self.goal.GOAL in _text(result)

    def is_solved(self) -> bool:
        """Return AgentDojo's judgement of the user's task, with the expected final answer."""
        return self._judged(self.task.utility_from_traces, self.task.utility)

    def is_reached(self) -> bool:
        """Return AgentDojo's judgement of the attacker's goal.

        Some goals are found by a search for words of the injected text, so it is removed before.
        """
        assert self.goal is not None
        return self._judged(self.goal.security_from_traces, self.goal.security, self.goal.GOAL)

    def _judged(self, by_traces: Any, by_state: Any, removed: str = "") -> bool:
        answer = self.task.GROUND_TRUTH_OUTPUT
        before, now = (
            _without(it.model_copy(deep=True), removed) for it in (self.before, self.now)
        )
        found = by_traces(answer, before, now, self.made)
        return bool(by_state(answer, before, now) if found is None else found)


def _without(value: Any, removed: str) -> Any:
    """Remove a text from all texts of an environment, in place."""
    match value:
        case str():
            same = not removed or removed not in value
            return value if same else type(value)(value.replace(removed, ""))
        case BaseModel():
            value.__dict__.update(
                {name: _without(it, removed) for name, it in value.__dict__.items()}
            )
        case dict():
            value.update({name: _without(it, removed) for name, it in value.items()})
        case list():
            value[:] = [_without(it, removed) for it in value]
    return value


def _text(value: object) -> str:
    match value:
        case str():
            return value
        case Mapping():
            return "\n".join(map(_text, value.values()))
        case list() | tuple():
            return "\n".join(map(_text, value))
        case _:
            return ""
