"""policies/*.cedar: reads the files of policies. The last valid set stays active.

Cedar's engine is imported only if the folder exists.
"""

import os
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mcp_tools_proxy.config.json_file import limit_problems
from mcp_tools_proxy.domain.configuration import InvalidConfig, Problem

if TYPE_CHECKING:
    from mcp_tools_proxy.policy.cedar.written_policy import WrittenPolicy

POLICIES_FOLDER = "policies"

MAX_FILES = 100
MAX_POLICY_FILE_BYTES = 256 * 1024
MAX_POLICIES = 1_000

NO_ENGINE = "policies need the extra policies: pip install 'mcp-tools-proxy[policies]'"


def policy_files(folder: Path) -> list[Path] | None:
    """Return the files of policies in order, None without a folder. Raises InvalidConfig."""
    place = folder / POLICIES_FOLDER
    try:
        names = sorted(it for it in os.listdir(place) if it.endswith(".cedar") and it[0] != ".")
    except FileNotFoundError:
        if place.is_symlink():
            raise _invalid(POLICIES_FOLDER, "is a broken symbolic link") from None
        return None
    except OSError as error:
        raise _invalid(POLICIES_FOLDER, f"cannot be read: {error.strerror}") from error
    if len(names) > MAX_FILES:
        raise _invalid(POLICIES_FOLDER, f"has more than {MAX_FILES} files of policies")
    return [place / it for it in names]


def require_engine(folder: Path) -> None:
    """Raise InvalidConfig if there is a folder of policies without Cedar's engine."""
    if policy_files(folder) is not None and find_spec("cedarpy") is None:
        raise _invalid(POLICIES_FOLDER, NO_ENGINE)


def load_written_policies(folder: Path) -> "tuple[WrittenPolicy, ...] | None":
    """Load all policies, None without a folder. Blocks. Raises InvalidConfig."""
    files = policy_files(folder)
    if files is None:
        return None
    require_engine(folder)
    from mcp_tools_proxy.policy.cedar.condition_facts import InvalidPolicy  # noqa: PLC0415
    from mcp_tools_proxy.policy.cedar.written_policy import read_policies  # noqa: PLC0415

    problems: list[Problem] = []
    found: dict[str, WrittenPolicy] = {}
    for path in files:
        name = f"{POLICIES_FOLDER}/{path.name}"
        try:
            for policy in read_policies(name, _read(path, name)):
                if (other := found.get(policy.policy_id)) is not None:
                    raise InvalidPolicy(
                        policy.policy_id, f"has the id of a policy in {other.file}; change one"
                    )
                found[policy.policy_id] = policy
        except InvalidConfig as error:
            problems += error.problems
        except InvalidPolicy as error:
            described = f'policy "{error.policy_id}" ' if error.policy_id else ""
            problems.append(Problem(file=name, path="$", message=f"{described}{error.problem}"))
    if len(found) > MAX_POLICIES:
        message = f"has more than {MAX_POLICIES} policies"
        problems.append(Problem(file=POLICIES_FOLDER, path="$", message=message))
    if problems:
        raise InvalidConfig(limit_problems(POLICIES_FOLDER, problems))
    return tuple(found.values())


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
