"""Reads the forms of pages."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.types import Receive

from mcp_tools_proxy.domain.errors import InvalidRequest
from mcp_tools_proxy.web.body import read_body

MAX_FIELDS = 2_000

MAX_LINES = 10_000
"""Lines of one field; a page of 240,000 roles kept other calls waiting for 0.3 s."""

MAX_AT_ONCE_BYTES = 64 * 1024
"""A larger form is parsed in a thread: 1 MiB of percent-encoded text takes 0.1 s."""

FORM_TYPE = "application/x-www-form-urlencoded"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileField:
    """The file of a form: its ``name`` is "" where none was chosen.

    ``receive`` has its content, once, as the body of a request.
    """

    name: str
    receive: Receive


class Form:
    """The fields of a form; a field may be there several times."""

    def __init__(
        self, fields: Sequence[tuple[str, str]] = (), file: FileField | None = None
    ) -> None:
        self.file = file
        self._fields: Mapping[str, list[str]] = {}
        collected: dict[str, list[str]] = {}
        for name, value in fields:
            collected.setdefault(name, []).append(value)
        self._fields = collected

    def text(self, name: str) -> str:
        """Return a field without blanks around it; "" if it is not there."""
        return self.raw(name).strip()

    def raw(self, name: str) -> str:
        """Return a field as it was typed, the last of several; "" if it is not there."""
        return self._fields.get(name, [""])[-1]

    def texts(self, name: str) -> list[str]:
        """Return every value of a field that is not blank."""
        return [value.strip() for value in self._fields.get(name, ()) if value.strip()]

    def lines(self, name: str) -> list[str]:
        """Return the lines of a field, where commas end lines as well, without blank ones.

        Only what a browser makes of the end of a line is one: ids may have other separators. Raises
        InvalidRequest for too many.
        """
        parts = re.split("[\r\n,]", self.raw(name))
        found = [part.strip() for part in parts if part.strip()]
        if len(found) > MAX_LINES:
            raise InvalidRequest(f"{name}: more than {MAX_LINES} lines; enter fewer")
        return found

    def items(self) -> list[tuple[str, str]]:
        """Return the fields with their values, the last of several, in their order."""
        return [(name, values[-1]) for name, values in self._fields.items()]

    def names(self) -> list[str]:
        """Return the names of the fields, in their order."""
        return [*self._fields]


async def read_form(request: Request, max_bytes: int) -> Form:
    """Read a form. Raises PayloadTooLarge, ClientDisconnect, InvalidRequest."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != FORM_TYPE:
        raise InvalidRequest("the request is not a form; go back and submit the form again")
    body = await read_body(request.receive, max_bytes)
    try:
        if len(body) <= MAX_AT_ONCE_BYTES:
            return Form(_fields_of(body))
        return Form(await asyncio.to_thread(_fields_of, body))
    except ValueError:
        raise InvalidRequest("the form could not be read; go back and submit it again") from None


def _fields_of(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(
        body.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
    )
