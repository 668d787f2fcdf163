"""Imports e-mail: EML and MHTML. Attachments are named and never opened."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import field, replace
from email import message_from_bytes, policy
from email.errors import HeaderParseError
from email.header import decode_header, make_header
from email.message import Message
from email.utils import parsedate_to_datetime
from html import escape, unescape

from mcp_tools_proxy.documents.importers.base import (
    TOO_DEEP,
    FileFacts,
    ImportFailed,
    ImportOptions,
    build_document,
    clean,
    one_line,
    paginate,
)
from mcp_tools_proxy.documents.importers.html import decode_html, html_to_markdown
from mcp_tools_proxy.documents.importers.markdown import build_from_markdown
from mcp_tools_proxy.documents.importers.text_encoding import decode_text
from mcp_tools_proxy.domain.document import Document, ImportWarning
from mcp_tools_proxy.domain.fast_dataclass import dataclass

_HEADERS = ("From", "To", "Cc", "Bcc", "Date", "Subject")
_MAX_HEAD_BYTES = 1024 * 1024
_HEADER = re.compile(rb"^([A-Za-z][\w-]*):[ \t]*([^\n]*(?:\n[ \t]+[^\n]*)*)", re.MULTILINE)
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*\n\s*")
_SOFT_BREAK = re.compile(r"(?<!--) \n(?![>\n])")
_MAX_DEPTH = 50

_FRAME = re.compile(r"\b(?:src|href)\s*=\s*[\"']?(?:cid:)?([^\s\"'<>]+)", re.IGNORECASE)
_ADDRESS = re.compile(r"(?:https?://|mailto:|www\.)[^\s<>()\[\]]+")
_MAX_ADDRESSES = 1_000
_LETTERS = re.compile(r"\d(?:[.,:/]?\d)*|[^\W\d_]")


@dataclass(slots=True)
class MailContent:
    """What a mail shows. A body is given as text, as HTML, or in both forms."""

    headers: dict[str, str] = field(default_factory=dict)
    date: str | None = None
    bodies: list[tuple[str, str]] = field(default_factory=list)
    attachments: list[str] = field(default_factory=list)
    warnings: list[ImportWarning] = field(default_factory=list)


def import_eml(data: bytes, options: ImportOptions) -> Document:
    """Build a document from a mail in the form of RFC 5322, or MHTML. Raises ImportFailed."""
    if b"\0" in data[:100]:
        data = decode_text(data, options).text.encode()
    content = MailContent(headers=_headers(data))
    if not content.headers:
        raise ImportFailed("is not a readable e-mail, as it has no headers: save it again as .eml")
    try:
        _read_part(message_from_bytes(data, policy=policy.compat32), content, options, 0)
    except RecursionError as error:
        raise ImportFailed(TOO_DEEP) from error
    content.date = _date(content.headers.get("Date", ""))
    return mail_document(content, options)


def _headers(data: bytes) -> dict[str, str]:
    """Return the known headers, decoded; lines that break the rules of mail are read as well."""
    end = re.search(rb"\r?\n\r?\n", data[:_MAX_HEAD_BYTES])
    head = data[: end.start() if end else _MAX_HEAD_BYTES].replace(b"\r\n", b"\n")
    found: dict[str, str] = {}
    for match in _HEADER.finditer(head):
        name = match[1].decode().capitalize()
        if name in _HEADERS and name not in found:
            found[name] = _decoded(match[2])
    return {name: found[name] for name in _HEADERS if found.get(name)}


def _decoded(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = value.decode("cp1252", "replace")
    text = " ".join(text.split())
    with suppress(HeaderParseError, LookupError, ValueError):  # then it stays as it is
        text = str(make_header(decode_header(text)))
    return one_line(text)


def _date(text: str) -> str | None:
    try:
        return parsedate_to_datetime(text).date().isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _read_part(part: Message, content: MailContent, options: ImportOptions, depth: int) -> None:
    """Add the bodies and attachments of a part and its parts."""
    kind = part.get_content_maintype()
    if kind == "multipart" and part.is_multipart() and depth < _MAX_DEPTH:
        parts = [it for it in part.get_payload() if isinstance(it, Message)]
        subtype = part.get_content_subtype()
        if subtype == "alternative":
            content.bodies.append(_alternatives(parts, content, options, depth))
            return
        for number, each in enumerate(parts):
            if number == 0 or subtype != "related" or _is_related(each, content):
                _read_part(each, content, options, depth + 1)
    elif _is_body(part):
        is_html = part.get_content_subtype() == "html"
        text = _text(part, content, options, is_html=is_html)
        content.bodies.append(("", text) if is_html else (text, ""))
    elif name := _attachment(part):
        content.attachments.append(name)


def _alternatives(
    parts: Sequence[Message], content: MailContent, options: ImportOptions, depth: int
) -> tuple[str, str]:
    """Return one body from forms of the same text; the last one of a kind is shown."""
    plain = html = ""
    for part in parts:
        form = MailContent()
        _read_part(part, form, options, depth + 1)
        content.attachments += form.attachments
        content.warnings += form.warnings
        plain = "\n\n".join(text for text, _ in form.bodies if text) or plain
        html = "\n".join(text for _, text in form.bodies if text) or html
    return plain, html


def _is_related(part: Message, content: MailContent) -> bool:
    """Return whether a part beside a page belongs to it: a file, or a text that it refers to."""
    if not _is_body(part):
        return True
    names = {str(part[name] or "").strip("<> ") for name in ("Content-ID", "Content-Location")}
    return any(not names.isdisjoint(_FRAME.findall(html)) for _, html in content.bodies)


def _is_body(part: Message) -> bool:
    return (
        part.get_content_type() in ("text/plain", "text/html")
        and part.get_content_disposition() != "attachment"
        and not part.get_filename()
    )


def _text(part: Message, content: MailContent, options: ImportOptions, *, is_html: bool) -> str:
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return ""
    decode = decode_html if is_html else decode_text
    decoded = decode(payload, replace(options, encoding=None), declared=part.get_content_charset())
    content.warnings += decoded.warnings
    is_flowed = str(part.get_param("format", "")).lower() == "flowed"
    return _SOFT_BREAK.sub(" ", decoded.text) if is_flowed else decoded.text


def _attachment(part: Message) -> str:
    """Return the name of an attachment, or "" for a picture within the text."""
    name = part.get_filename()
    if (
        part.get_content_maintype() == "image"
        and part["Content-ID"]
        and (part.get_content_disposition() != "attachment")
    ):
        return ""
    if part.get_content_type() == "message/rfc822" and not name:
        subjects = (it["Subject"] for it in part.walk() if it is not part)
        name = f"message {next(subjects, None) or ''}".strip()
    return _decoded(str(name or part.get_content_type()).encode("utf-8", "surrogateescape"))


def mail_document(content: MailContent, options: ImportOptions) -> Document:
    """Build a document of the headers, the names of attachments, and each body once."""
    lines = [f"{name}: {value}" for name, value in content.headers.items()]
    if content.attachments:
        lines.append(f"Attachments: {', '.join(content.attachments)}")
    facts = FileFacts(title=content.headers.get("Subject", ""), date=content.date)
    head = "\n".join(lines)
    bodies = [_chosen(plain, html) for plain, html in content.bodies]
    if any(html for _, html in bodies):
        page = "".join(html or _as_html(plain) for plain, html in bodies)
        converted = html_to_markdown(page, with_link_targets=options.with_link_targets)
        return build_from_markdown(
            f"{head}\n\n{converted.markdown}",
            options,
            facts=facts,
            warnings=content.warnings[:1],
            hidden_chars=converted.hidden_chars,
        )
    text = clean("\n\n".join([head, *(plain.strip("\n") for plain, _ in bodies)]))
    pages = paginate(text, [match.end() for match in _PARAGRAPH_END.finditer(text)])
    return build_document(
        options,
        facts=facts,
        pages=pages,
        headings=(),
        text_format="plain",
        warnings=content.warnings[:1],
    )


def _chosen(plain: str, html: str) -> tuple[str, str]:
    """Return the form of a body that readers see, and "" for the other one.

    It is the HTML, unless that has no text, or the plain text says the same: anybody can send other
    instructions in the plain text.
    """
    if not (plain.strip() and html):
        return plain, html
    shown = html_to_markdown(html, with_link_targets=False).markdown
    is_plain = not shown.strip() or _is_copy(plain, shown, unescape(html))
    return (plain, "") if is_plain else ("", html)


def _is_copy(plain: str, shown: str, html: str) -> bool:
    """Return whether a plain text has the letters, numbers and addresses of the HTML."""
    addresses = set(_ADDRESS.findall(plain))
    if len(addresses) > _MAX_ADDRESSES or not all(it in html for it in addresses):
        return False
    plain, shown = (_ADDRESS.sub(" ", it).casefold() for it in (plain, shown))
    return _LETTERS.findall(plain) == _LETTERS.findall(shown)


def _as_html(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", escape(text).strip())
    return "".join(f"<p>{'<br>'.join(it.splitlines())}</p>" for it in paragraphs)
