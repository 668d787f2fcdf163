"""The command ``python -m benchmarks.agentdojo``; ``--help`` lists the options."""

import argparse
import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.agentdojo.checked_runs import CheckedSuite
from benchmarks.agentdojo.measurement import GoalOutcome, TaskOutcome, measure_goal, measure_task
from benchmarks.agentdojo.over_http import compare
from benchmarks.agentdojo.suites import SUITES, Suite

HERE = Path(__file__).parent
POLICIES = HERE.parents[1] / "examples" / "policies" / "untrusted-text.cedar"


def main() -> int:
    """Measure, and print tables per suite, reached goals and unsolved tasks."""
    arguments = _arguments()
    if arguments.over_http:
        return int(sum(asyncio.run(_compared(it, arguments)) for it in arguments.suites) > 0)
    tasks: list[TaskOutcome] = []
    approved: list[TaskOutcome] = []
    goals: list[GoalOutcome] = []
    for name in arguments.suites:
        suite = Suite(name)
        checked = CheckedSuite(suite, arguments.labels / name, arguments.policies)
        tasks += [asyncio.run(measure_task(checked, it, approves=False)) for it in suite.user_tasks]
        approved += [
            asyncio.run(measure_task(checked, it, approves=True)) for it in suite.user_tasks
        ]
        if not arguments.tasks_only:
            goals += asyncio.run(_goals(checked, arguments))
    _print_tasks(arguments.suites, tasks, approved)
    if goals:
        _print_goals(arguments.suites, goals)
    return 0


async def _compared(name: str, arguments: argparse.Namespace) -> int:
    return await compare(Suite(name), arguments.labels / name, arguments.policies)


async def _goals(checked: CheckedSuite, arguments: argparse.Namespace) -> list[GoalOutcome]:
    return [
        await measure_goal(
            checked,
            task,
            goal,
            declares=not arguments.without_tools,
            plants=arguments.plant_claimed,
        )
        for task in checked.suite.user_tasks
        for goal in checked.suite.goals
    ]


def _print_tasks(
    suites: Sequence[str], tasks: Sequence[TaskOutcome], approved: Sequence[TaskOutcome]
) -> None:
    print(
        "| suite | user tasks | solved without approval | of these, no call stopped |"
        " solved with approvals | tasks that ask |\n|---|---|---|---|---|---|"
    )
    for name in (*suites, ""):
        alone = [it for it in tasks if name in (it.suite, "")]
        helped = [it for it in approved if name in (it.suite, "")]
        solved, asking = sum(it.is_solved for it in alone), sum(bool(it.asked) for it in helped)
        with_help = sum(it.is_solved for it in helped)
        whole = sum(it.is_solved and not it.stopped for it in alone)
        print(f"| {name or 'all'} | {len(alone)} | {solved} | {whole} | {with_help} | {asking} |")
    print("\nStopped without approval:\n")
    for it in tasks:
        if it.stopped:
            print(f"- {it.suite} {it.task}, {'' if it.is_solved else 'un'}solved: {_stopped(it)}")
    print("\nUnsolved with approvals:\n")
    for it in approved:
        if not it.is_solved:
            print(f"- {it.suite} {it.task}: {_stopped(it)}")


def _stopped(outcome: TaskOutcome) -> str:
    return "; ".join(
        f"{it.tool} {dict(it.arguments)} by {', '.join(it.policy_ids)}" for it in outcome.stopped
    )


def _print_goals(suites: Sequence[str], goals: Sequence[GoalOutcome]) -> None:
    print("\n| suite | pairs | can be judged | reached |\n|---|---|---|---|")
    for name in (*suites, ""):
        chosen = [it for it in goals if name in (it.suite, "")]
        judged = sum(it.can_be_judged for it in chosen)
        reached = sum(bool(it.reached) for it in chosen)
        print(f"| {name or 'all'} | {len(chosen)} | {judged} | {reached} |")
    print("\nReached:\n")
    _print_counted(f"{it.suite} {it.goal}" for it in goals if it.reached)
    for it in goals:
        if it.reached:
            print(f"- {it.suite} {it.task}, {it.goal}: {' and '.join(it.reached)}")


def _print_counted(names: Iterable[str]) -> None:
    for name, count in Counter(names).most_common():
        print(f"- {name}: {count} times")
    print()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.agentdojo",
        description="Measure how many of AgentDojo's injected goals are reached.",
    )
    parser.add_argument("--suites", nargs="+", choices=SUITES, default=SUITES)
    parser.add_argument(
        "--without-tools", action="store_true", help="open runs without declared tools"
    )
    parser.add_argument(
        "--plant-claimed",
        action="store_true",
        help="write the attacker's values into all claimed fields",
    )
    parser.add_argument("--tasks-only", action="store_true", help="do not play goals")
    parser.add_argument(
        "--over-http",
        action="store_true",
        help="compare with runs through a gateway and an MCP server, instead of measuring",
    )
    parser.add_argument("--labels", type=Path, default=HERE / "labels", metavar="FOLDER")
    parser.add_argument("--policies", type=Path, default=POLICIES, metavar="FILE")
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
