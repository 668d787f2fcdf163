"""policies/*.cedar: reads the files of policies. The last valid set stays active.

Cedar's engine is imported only if the folder exists.
"""

import os
import stat
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_tools_proxy.config.json_file import json_path, limit_problems
from mcp_tools_proxy.config.loader import CONFIGURATION_FILE
from mcp_tools_proxy.domain.configuration import Configuration, InvalidConfig, Problem
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.wire.text import quote

if TYPE_CHECKING:
    from mcp_tools_proxy.policy.cedar.condition_facts import InvalidPolicy
    from mcp_tools_proxy.policy.cedar.written_policy import WrittenPolicy

POLICIES_FOLDER = "policies"

POLICY_SUFFIX = ".cedar"

MAX_FILES = 100
MAX_POLICY_FILE_BYTES = 256 * 1024
MAX_POLICIES = 1_000

RESERVED_SERVER_IDS = {
    "gateway": "the gateway's own tools have this server in policies",
    "label": 'a tool could have the name of a label, such as "label:sends"',
    "server": 'a tool could have the name of a server, such as "server:mail"',
}
"""Ids that no server may have beside policies, whose names would be ambiguous, with the reason."""

NO_ENGINE = "policies need the extra policies: pip install 'mcp-tools-proxy[policies]'"


def policy_files(folder: Path) -> list[Path] | None:
    """Return the files of policies in order, None without a folder. Raises InvalidConfig."""
    names = _names_in(folder)
    if names is None:
        return None
    names = [it for it in names if it.endswith(POLICY_SUFFIX)]
    if len(names) > MAX_FILES:
        raise _invalid(POLICIES_FOLDER, f"has more than {MAX_FILES} files of policies")
    return [folder / POLICIES_FOLDER / it for it in names]


def _names_in(folder: Path) -> list[str] | None:
    """Return the names in the folder of policies, without hidden ones; None without a folder."""
    place = folder / POLICIES_FOLDER
    try:
        return sorted(it for it in os.listdir(place) if it[0] != ".")
    except FileNotFoundError:
        if place.is_symlink():
            raise _invalid(POLICIES_FOLDER, "is a broken symbolic link") from None
        return None
    except OSError as error:
        raise _invalid(POLICIES_FOLDER, f"cannot be read: {error.strerror}") from error


def has_engine() -> bool:
    """Return whether Cedar's engine is installed."""
    return find_spec("cedarpy") is not None


def require_engine(folder: Path) -> None:
    """Raise InvalidConfig if there is a folder of policies without Cedar's engine."""
    if (folder / POLICIES_FOLDER).exists() and not has_engine():
        raise _invalid(POLICIES_FOLDER, NO_ENGINE)


def load_written_policies(folder: Path) -> "tuple[WrittenPolicy, ...] | None":
    """Load all policies, None without a folder. Blocks. Raises InvalidConfig."""
    files = policy_files(folder)
    if files is None:
        return None
    require_engine(folder)
    from mcp_tools_proxy.policy.cedar.condition_facts import (  # noqa: PLC0415 - an extra
        InvalidPolicy,
    )
    from mcp_tools_proxy.policy.cedar.written_policy import (  # noqa: PLC0415 - an extra
        read_policies,
    )

    problems: list[Problem] = []
    found: dict[str, WrittenPolicy] = {}
    for path in files:
        name = f"{POLICIES_FOLDER}/{path.name}"
        try:
            policies = list(read_policies(name, _read(path, name)))
        except InvalidConfig as error:
            problems += error.problems
            continue
        except InvalidPolicy as error:
            problems.append(policy_problem(error, name))
            continue
        problems += _repeated(policies, found)
    if len(found) > MAX_POLICIES:
        message = f"has more than {MAX_POLICIES} policies"
        problems.append(Problem(file=POLICIES_FOLDER, path="$", message=message))
    if problems:
        raise InvalidConfig(limit_problems(POLICIES_FOLDER, problems))
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyFiles:
    """The policies of the last readable files, and the problems of the current ones.

    ``written`` is None without policies, also before the first load. With ``configured``, there
    are or were files: until policies are valid, calls are refused.
    """

    written: "tuple[WrittenPolicy, ...] | None" = None
    configured: bool = False
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def load_policy_files(folder: Path, before: PolicyFiles) -> PolicyFiles:
    """Load the files of policies, and return the state that follows ``before``. Blocks.

    The policies of a folder that was removed or emptied stay active until a restart, and so do
    those of an emptied file: an editor that does not save atomically empties a file first.
    """
    try:
        written = load_written_policies(folder)
        if written is not None:
            _refuse_emptied(written, before, folder)
    except InvalidConfig as error:
        return PolicyFiles(written=before.written, configured=True, problems=error.problems)
    if written is None and before.configured:
        message = "was removed; its last valid policies stay active"
        problem = Problem(file=POLICIES_FOLDER, path="$", message=message)
        return PolicyFiles(written=before.written, configured=True, problems=(problem,))
    return PolicyFiles(
        written=written,
        configured=written is not None,
        warnings=() if written is None else _warnings(folder, {it.file for it in written}),
    )


_KEPT = "the last valid policies stay active until a restart"


def _refuse_emptied(
    written: "tuple[WrittenPolicy, ...]", before: PolicyFiles, folder: Path
) -> None:
    """Raise InvalidConfig if there are no policies any more, or a file was emptied."""
    if before.configured and before.written != () and not written:
        raise _invalid(POLICIES_FOLDER, f"has no policies any more; {_KEPT}")
    had_policies = {it.file for it in before.written or ()} - {it.file for it in written}
    for path in policy_files(folder) or ():
        name = f"{POLICIES_FOLDER}/{path.name}"
        if name in had_policies and not _read(path, name).strip():
            raise _invalid(name, f"is empty now; {_KEPT}, or until it is removed")


def _warnings(folder: Path, used: set[str]) -> tuple[Problem, ...]:
    """Return warnings about an empty folder, files without policies, and other names."""
    found: list[Problem] = []
    if not used:
        message = "has no policies, so no policy is active"
        found.append(Problem(file=POLICIES_FOLDER, path="$", message=message))
    for it in _names_in(folder) or ():
        name = f"{POLICIES_FOLDER}/{it}"
        if not it.endswith(POLICY_SUFFIX):
            message = f"is not read: policies are in files *{POLICY_SUFFIX} of this folder"
        elif name not in used:
            message = "has no policies"
        else:
            continue
        found.append(Problem(file=name, path="$", message=message))
    return limit_problems(POLICIES_FOLDER, found)


def reserved_id_problems(configuration: Configuration) -> Iterator[Problem]:
    """Yield a problem for each server whose id would make names in policies ambiguous."""
    for server_id, reason in RESERVED_SERVER_IDS.items():
        if server_id in configuration.server_ids:
            yield Problem(
                file=CONFIGURATION_FILE,
                path=json_path(("mcpServers", configuration.key_of(server_id))),
                message=f"the id {quote(server_id)} cannot be used with policies: {reason}; "
                "rename the server",
            )


def policy_problem(error: "InvalidPolicy", file: str) -> Problem:
    """Return the problem of an invalid policy, or of its whole file."""
    named = f"policy {quote(error.policy_id)}: " if error.policy_id else ""
    return Problem(file=file, path="$", message=f"{named}{error.problem}")


def _repeated(
    policies: "list[WrittenPolicy]", found: "dict[str, WrittenPolicy]"
) -> Iterator[Problem]:
    """Add policies, and yield a problem for each with the id of an earlier one."""
    for policy in policies:
        other = found.setdefault(policy.policy_id, policy)
        if other is not policy:
            message = f"policy {quote(policy.policy_id)}: has the id of a policy in {other.file}"
            yield Problem(file=policy.file, path="$", message=message)


def _read(path: Path, name: str) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise _invalid(name, "is not a file")  # reading a pipe would block for a writer
        with path.open("rb") as file:
            content = file.read(MAX_POLICY_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise _invalid(name, "is a broken symbolic link, or was removed") from error
    except OSError as error:
        raise _invalid(name, f"cannot be read: {error.strerror}") from error
    if len(content) > MAX_POLICY_FILE_BYTES:
        raise _invalid(name, f"is over {MAX_POLICY_FILE_BYTES} bytes, the limit")
    try:
        return content.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise _invalid(name, f"is not UTF-8: byte {error.start} is invalid") from error


def _invalid(file: str, message: str) -> InvalidConfig:
    return InvalidConfig((Problem(file=file, path="$", message=message),))
