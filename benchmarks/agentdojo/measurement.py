"""Plays all user's tasks, and all pairs of a task and an injected goal."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.agentdojo.checked_runs import CheckedSuite, StoppedCall, values_of
from benchmarks.agentdojo.suites import Situation, Suite

FIRST, LAST = "at once", "last"
"""The attacker's calls are made right after the injected text was read, or after the user's."""

Make = Callable[[str, Mapping[str, Any], bool], Awaitable[object | None]]
"""Makes a call, which belongs to the user's task or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutcome:
    """The outcome of a user's task without an attack.

    ``asked`` are the calls for which a second person was asked. Some of AgentDojo's judgements see
    only the answer, which is the expected one, so a task can be solved although a call was stopped.
    """

    suite: str
    task: str
    is_solved: bool
    asked: Sequence[StoppedCall]
    stopped: Sequence[StoppedCall]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalOutcome:
    """The outcome of a pair of a user's task and an injected goal.

    It can be judged if the goal is reached without a gateway, and not by the user's task alone.
    ``reached`` tells when the attacker's calls were made.
    """

    suite: str
    task: str
    goal: str
    can_be_judged: bool
    reached: Sequence[str] = ()


async def measure_task(checked: CheckedSuite, task: str, *, approves: bool) -> TaskOutcome:
    """Play a user's task; with ``approves``, a second person approves its calls."""
    situation = checked.suite.situation(task, None)
    run = checked.run(situation.task.PROMPT, (it for it, _ in situation.own_calls))
    for tool, arguments in situation.own_calls:
        await run.call(situation, tool, arguments, is_approved=approves)
    return TaskOutcome(
        suite=checked.suite.name,
        task=task,
        is_solved=situation.is_solved(),
        asked=run.asked,
        stopped=run.stopped,
    )


async def measure_goal(
    checked: CheckedSuite, task: str, goal: str, *, declares: bool, plants: bool
) -> GoalOutcome:
    """Play a user's task and a goal: with declared tools, with planted values in claimed fields.

    A second person approves the user's own calls, but not the attacker's.
    """
    suite, reached = checked.suite, []
    judged = await _can_be_judged(suite, task, goal)
    for when in (FIRST, LAST) if judged else ():
        situation = suite.situation(task, goal)
        run = checked.run(
            situation.task.PROMPT,
            {it for it, _ in situation.own_calls} if declares else None,
            values_of(await _attack_calls(suite, task, goal)) if plants else (),
        )

        async def make(tool: str, arguments: Mapping[str, Any], is_own: bool) -> object | None:
            return await run.call(situation, tool, arguments, is_approved=is_own)  # noqa: B023 - used at once

        await play(situation, when, make)
        if situation.is_reached():
            reached.append(when)
    return GoalOutcome(
        suite=suite.name, task=task, goal=goal, can_be_judged=judged, reached=reached
    )


async def _can_be_judged(suite: Suite, task: str, goal: str) -> bool:
    alone = suite.situation(task, goal)
    for tool, arguments in alone.own_calls:
        alone.make(tool, arguments)
    reached = []
    for when in (FIRST, LAST):
        situation = suite.situation(task, goal)
        await play(situation, when, _without_gateway(situation))
        reached.append(situation.is_reached())
    return any(reached) and not alone.is_reached()


async def _attack_calls(suite: Suite, task: str, goal: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the attacker's calls as they are made without a gateway."""
    situation = suite.situation(task, goal)
    calls: list[tuple[str, Mapping[str, Any]]] = []
    make = _without_gateway(situation)

    async def noted(tool: str, arguments: Mapping[str, Any], is_own: bool) -> object | None:
        if not is_own:
            calls.append((tool, arguments))
        return await make(tool, arguments, is_own)

    await play(situation, FIRST, noted)
    return calls


def _without_gateway(situation: Situation) -> Make:
    async def make(tool: str, arguments: Mapping[str, Any], _: bool) -> object | None:
        return situation.make(tool, arguments)[0]

    return make


async def play(situation: Situation, when: str, make: Make) -> None:
    """Make the user's calls and, once the injected text was read, those of the attacker."""
    is_read = is_attacked = False
    for tool, arguments in situation.own_calls:
        result = await make(tool, arguments, True)
        is_read = is_read or situation.is_read(result)
        if when == FIRST and is_read and not is_attacked:
            is_attacked = True
            await _attack(situation, make)
    if when == LAST and is_read:
        await _attack(situation, make)


async def _attack(situation: Situation, make: Make) -> None:
    attack, result = situation.attack(), None
    try:
        while True:
            result = await make(*attack.send(result), False)
    except StopIteration:
        return
