"""Writes the lists of ``reference/error-messages.md``: every message of an error, from the code.

``make docs`` runs this; a test fails while the page is not what this would write.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from docs.message_texts import PLACEHOLDER, ROOT, calls, has_words, modules
from mcp_tools_proxy.domain.client import CapacityExceeded
from mcp_tools_proxy.domain.errors import (
    InternalError,
    InvalidRequest,
    LoginsUnavailable,
    NotAllowed,
    Unauthenticated,
    errors_by_code,
)
from mcp_tools_proxy.wire.problem_texts import TEXTS

PAGE = Path(__file__).parent / "reference/error-messages.md"

ERRORS: Mapping[str, Sequence[str]] = {
    **{kind.__name__: (code,) for code, kind in errors_by_code().items()},
    CapacityExceeded.__name__: (CapacityExceeded.code,),
    "_NOT_ALLOWED": [kind.code for kind in NotAllowed.__subclasses__()],
    "InvalidClaims": (Unauthenticated.code,),
    "InvalidNameStyle": (InvalidRequest.code,),
    LoginsUnavailable.__name__: (LoginsUnavailable.code,),
    "JsonRpcError": ("MCP",),
    "ConnectionFailure": ("connections",),
}
"""The lists of an exception's messages, a code each or a name, by the exception's name."""

PROBLEMS: Mapping[str, Sequence[str]] = {
    "json": ("wire/strict_json.py",),
    "values": ("wire/identifiers.py", "documents/tools", "http/api/models.py"),
}
"""The files whose ValueErrors are put into messages, by the list that shows them."""

_LIST = re.compile(r"(<!-- errors: (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def written(page: str) -> str:
    """Return the page with each list as the code has it."""
    messages = _messages()
    codes = "".join(f"### {code}\n\n{_listed(messages[code])}\n" for code in _codes())
    lists = {"codes": codes} | {name: _listed(texts) for name, texts in messages.items()}
    return _LIST.sub(lambda found: f"{found[1]}\n{lists[found[2]]}\n{found[3]}", page)


def _codes() -> Iterable[str]:
    return (*errors_by_code(), CapacityExceeded.code)


def _listed(messages: Iterable[str]) -> str:
    """Return a list without what only passes on another message, or differs in placeholders."""
    shown = {PLACEHOLDER.sub("{}", text): text for text in sorted(messages) if has_words(text)}
    return "".join(f"- {text.replace('<', '&lt;')}\n" for text in shown.values())


def _messages() -> Mapping[str, Sequence[str]]:
    """Return the messages of each code."""
    found: dict[str, list[str]] = defaultdict(list)
    found[InternalError.code] = [InternalError().message]
    found["values"] = list(TEXTS.values())
    for name, lists in ERRORS.items():
        for module, call in calls()[name]:
            if call.args:
                message = call.args[1 if name == "JsonRpcError" else 0]
                for of_one in lists:
                    found[of_one] += module.messages(message)
    for name, files in PROBLEMS.items():
        for module in modules():
            if str(module.path.relative_to(ROOT)).startswith(tuple(files)):
                found[name] += module.reasons()
    return found


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
