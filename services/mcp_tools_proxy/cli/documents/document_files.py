"""The commands ``documents list``, ``show``, ``remove`` and ``rights``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from pydantic_core import to_json

from mcp_tools_proxy.cli.documents.document_stores import (
    Folder,
    LoadSettings,
    TenantOfDocuments,
    open_writer,
    print_unusable,
    run_command,
)
from mcp_tools_proxy.cli.documents.import_facts import (
    Expires,
    OwnDate,
    OwnFields,
    parse_fields,
    parse_time,
    spell_warning,
    warning_facts,
)
from mcp_tools_proxy.cli.options import identifier, identifiers
from mcp_tools_proxy.cli.output import (
    AsJson,
    echo,
    fail,
    folded,
    print_json,
    print_table,
    whole,
)
from mcp_tools_proxy.documents.document_facts import EditableFacts
from mcp_tools_proxy.documents.document_file import (
    InvalidDocument,
    dump_metadata,
    dump_readers,
    dump_source,
)
from mcp_tools_proxy.documents.document_store import DocumentFilter
from mcp_tools_proxy.documents.document_writer import (
    DocumentWriter,
    Expected,
    NoSuchDocument,
    VersionConflict,
)
from mcp_tools_proxy.documents.importers.base import one_line, pages_without_text, spell_pages
from mcp_tools_proxy.documents.versions import version_of
from mcp_tools_proxy.domain.document import Document, DocumentHead, DocumentSource, Readers
from mcp_tools_proxy.domain.json_objects import without_none

PAGE = 500
"""Documents per list request."""

_OnlyTenant = Annotated[str | None, typer.Option("--tenant", help="Only documents of this tenant.")]
_DocId = Annotated[str, typer.Argument(metavar="DOC_ID", help="The document's id, as listed.")]

_Users = Annotated[
    list[str] | None,
    typer.Option("--user", callback=identifiers, help="A user with access. May be repeated."),
]

_Roles = Annotated[
    list[str] | None,
    typer.Option(
        "--role",
        callback=identifiers,
        help="A role with access. May be repeated.",
    ),
]

_ForAll = Annotated[bool, typer.Option("--everybody", help="Give all users of the tenant access.")]

_ForNone = Annotated[bool, typer.Option("--nobody", help="Remove access for all users.")]

_NewTags = Annotated[list[str] | None, typer.Option("--tag", help="A tag. May be repeated.")]

_DocumentOwner = Annotated[
    str, typer.Option("--tenant", callback=identifier, help="The tenant of the document.")
]

_OLDER_VERSIONS = (
    "{count} older versions are kept and now have the same readers; to delete them, remove the "
    "document and import it again"
)

_COLUMNS = (
    whole("tenant"),
    whole("doc_id"),
    folded("title"),
    whole("pages", right=True),
    whole("sections", right=True),
)


def add_list(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add ``documents list``."""

    @app.command("list")
    def list_documents(
        tenant: _OnlyTenant = None, as_json: AsJson = False, documents_path: Folder = None
    ) -> None:
        """Show the documents: tenant, doc_id, title, pages, sections.

        If the output is not a terminal, columns are separated by tabs. Invalid files, and files
        with a wrong name, are listed on stderr, without changing the exit code. In PostgreSQL,
        the documents of all tenants need MCP_PROXY_DOCUMENTS_OWNER_URL.

        With --json: documents and problems.
        """
        settings = load_settings()

        async def read() -> tuple[list[DocumentHead], Mapping[str, str]]:
            async with open_writer(settings, documents_path, tenant_id=tenant) as writer:
                return await all_heads(writer, tenant), await writer.problems()

        heads, problems = run_command(read())
        if as_json:
            shown = {"documents": [_head_facts(head) for head in heads], "problems": problems}
            print_json(shown)
            return
        print_table(_COLUMNS, [_row(head) for head in heads])
        for name, reason in sorted(problems.items()):
            echo(f"{name}: {reason}", err=True)


_SetUntrusted = Annotated[
    bool | None,
    typer.Option(
        "--untrusted/--trusted",
        help="Whether strangers could write its text; by default it stays as it is.",
    ),
]


def add_show(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add ``documents show``."""

    @app.command("show")
    def show(
        doc_id: _DocId,
        tenant: TenantOfDocuments,
        as_json: AsJson = False,
        documents_path: Folder = None,
    ) -> None:
        """Show a document's metadata, versions and sections, without its text.

        Shows title, tags, readers, pages, pages without text, size, file, versions and sections.
        """
        settings = load_settings()

        async def read() -> tuple[Document | None, str, Sequence[str]]:
            key = (tenant, doc_id)
            async with open_writer(settings, documents_path, tenant_id=tenant) as writer:
                document = await _usable(writer, key)
                return document, writer.place(key), await writer.older_versions(key)

        document, place, older_versions = run_command(read())
        if document is None:
            raise typer.Exit(1)
        facts = _facts(document, place, older_versions)
        if as_json:
            print_json(facts)
        else:
            _print_facts(facts, document, older_versions)


def add_edit(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add ``documents edit``."""

    @app.command("edit")
    def edit(
        doc_id: _DocId,
        tenant: _DocumentOwner,
        tags: _NewTags = None,
        metadata: OwnFields = None,
        date: OwnDate = None,
        expires: Expires = None,
        untrusted: _SetUntrusted = None,
        as_json: AsJson = False,
        documents_path: Folder = None,
    ) -> None:
        """Change a document's tags, date, own fields, expiry or trust.

        --tag replaces all tags; --metadata sets the named fields, and KEY= removes one. An empty
        value removes the tags, the date or the expiry.

        With --json: the new facts.
        """
        settings = load_settings()
        key = (tenant, doc_id)

        async def change() -> EditableFacts | None:
            async with open_writer(settings, documents_path, tenant_id=tenant) as writer:
                head = await writer.head(key)
                if head is None:
                    await print_unusable(writer, key)
                    return None
                old = EditableFacts.of(head)
                own = {**old.metadata, **parse_fields(metadata)}
                facts = EditableFacts(
                    tags=old.tags if tags is None else tuple(filter(None, map(one_line, tags))),
                    date=old.date if date is None else date or None,
                    metadata={name: value for name, value in own.items() if value != ""},
                    expires_at=old.expires_at if expires is None else parse_time(expires),
                    is_untrusted=old.is_untrusted if untrusted is None else untrusted,
                )
                try:
                    await writer.set_facts(key, facts, expected=old.etag)
                except VersionConflict:
                    fail(f"{doc_id} was changed at the same time; run the command again", 1)
                except InvalidDocument as error:
                    fail(f"{doc_id}: {error.reason}", 1)
                return facts

        facts = run_command(change())
        if facts is None:
            raise typer.Exit(1)
        shown = _own_facts(facts)
        if as_json:
            print_json({"doc_id": doc_id, "tenant_id": tenant, "tags": list(facts.tags), **shown})
        else:
            spelled = [f"tags {', '.join(facts.tags) or '-'}", *_spell_facts(facts).values()]
            echo(f"{doc_id}  {'; '.join(spelled)}")


def add_rights(app: typer.Typer, load_settings: LoadSettings) -> None:
    """Add the command."""

    @app.command("rights")
    def rights(
        doc_id: _DocId,
        tenant: _DocumentOwner,
        users: _Users = None,
        roles: _Roles = None,
        for_all: _ForAll = False,
        for_none: _ForNone = False,
        as_json: AsJson = False,
        documents_path: Folder = None,
    ) -> None:
        """Set which users and roles may read a document.

        A user, or one of the user's roles, has to be named; all others lose access. This also
        applies to older versions.

        A running gateway applies the change within a second.
        """
        readers = wanted_readers(users, roles, for_all=for_all, for_none=for_none)
        settings = load_settings()
        key = (tenant, doc_id)

        async def set_readers() -> tuple[str, int] | None:
            async with open_writer(settings, documents_path, tenant_id=tenant) as writer:
                try:
                    await writer.set_readers(key, readers, expected=Expected.ANYTHING)
                except NoSuchDocument:
                    await print_unusable(writer, key)
                    return None
                return writer.place(key), len(await writer.older_versions(key))

        written = run_command(set_readers())
        if written is None:
            raise typer.Exit(1)
        place, older_count = written
        if as_json:
            named = None if readers is None else dump_readers(readers)
            shown = {"doc_id": doc_id, "tenant_id": tenant, "readers": named, "place": place}
            print_json(shown)
        else:
            echo(f"{doc_id}  {spell_readers(readers)}  -> {place}")
        if older_count:
            echo(_OLDER_VERSIONS.format(count=older_count), err=True)


async def all_heads(
    writer: DocumentWriter, tenant_id: str | None, wanted: DocumentFilter | None = None
) -> list[DocumentHead]:
    """Return the heads of all or one tenant's documents, ordered by id."""
    heads: list[DocumentHead] = []
    while page := await writer.list_heads(
        tenant_id,
        after=(heads[-1].tenant_id, heads[-1].doc_id) if heads else None,
        limit=PAGE,
        filter=wanted,
    ):
        heads += page
    return heads


async def _usable(writer: DocumentWriter, key: tuple[str, str]) -> Document | None:
    """Return a document; print the reason and return None if it is missing or unreadable."""
    if await writer.problems_of(key):
        await print_unusable(writer, key)
        return None
    document = await writer.document(key)
    if document is None:
        await print_unusable(writer, key)
    return document


def _row(head: DocumentHead) -> tuple[str, ...]:
    return (
        head.tenant_id,
        head.doc_id,
        one_line(head.title),
        str(head.page_count),
        str(head.section_count),
    )


def _head_facts(head: DocumentHead) -> dict[str, object]:
    return {
        "tenant_id": head.tenant_id,
        "doc_id": head.doc_id,
        "title": head.title,
        "tags": list(head.tags),
        "language": head.language,
        "readers": None if head.readers is None else dump_readers(head.readers),
        "pages": head.page_count,
        "sections": head.section_count,
        "text_chars": head.text_chars,
        "version": head.version,
        **_own_facts(head),
        **({} if head.source is None else {"source": dump_source(head.source)}),
    }


def _own_facts(facts: DocumentHead | Document | EditableFacts) -> dict[str, object]:
    """Return date, own fields and expiry, as far as they are set."""
    expires_at = None if facts.expires_at is None else facts.expires_at.isoformat()
    named = {
        "date": facts.date,
        "metadata": dump_metadata(facts.metadata) or None,
        "expires_at": expires_at,
        "untrusted": True if facts.is_untrusted else None,
    }
    return dict(without_none(named))


def _spell_facts(facts: Document | EditableFacts) -> dict[str, str]:
    """Return date, own fields and expiry as text, as far as they are set."""
    spelled = {}
    if facts.date:
        spelled["date"] = f"date {facts.date}"
    if facts.metadata:
        own = {
            name: ", ".join(value)
            if isinstance(value, tuple)
            else to_json(value).decode().strip('"')
            for name, value in facts.metadata.items()
        }
        spelled["metadata"] = "; ".join(one_line(f"{name}={it}") for name, it in own.items())
    if facts.expires_at:
        spelled["expires"] = f"expires {facts.expires_at:%Y-%m-%dT%H:%M:%SZ}"
    if facts.is_untrusted:
        spelled["untrusted"] = "untrusted"
    return spelled


def _facts(document: Document, place: str, older_versions: Sequence[str]) -> dict[str, object]:
    facts: dict[str, object] = {
        "doc_id": document.doc_id,
        "tenant_id": document.tenant_id,
        "title": document.title,
        "tags": list(document.tags),
        "language": document.language,
        "readers": None if document.readers is None else dump_readers(document.readers),
        "pages": len(document.pages),
        "pages_without_text": pages_without_text(document),
        **({"ocr": list(document.ocr)} if document.ocr else {}),
        "sections": [
            {
                "section_id": section.section_id,
                "title": section.title,
                "page_start": section.page_start,
                "page_end": section.page_end,
            }
            for section in document.sections.values()
        ],
        "text_chars": sum(map(len, document.pages)),
        "version": version_of(document),
        "older_versions": list(older_versions),
        **_own_facts(document),
        **({} if document.source is None else {"source": dump_source(document.source)}),
        **(
            {"warnings": warning_facts(document.warnings, document.source)}
            if document.warnings
            else {}
        ),
    }
    file = Path(place)
    if file.is_file():
        facts |= {"file": place, "file_bytes": file.stat().st_size}
    return facts


def _spell_ocr(document: Document) -> str:
    """Return the pages read by OCR, and its confidence."""
    sure = {page: it for page, it in enumerate(document.ocr, start=1) if it is not None}
    least, most = min(sure.values()), max(sure.values())
    confidence = f"{least} %" if least == most else f"{least} to {most} %"
    noun = "page" if len(sure) == 1 else "pages"
    return f"{noun} {spell_pages(list(sure))}, confidence {confidence}"


def _spell_source(source: DocumentSource) -> str:
    return one_line(f"{source.name}: {source.path}")


def _print_facts(
    facts: Mapping[str, object], document: Document, older_versions: Sequence[str]
) -> None:
    textless = pages_without_text(document)
    pages = str(len(document.pages)) + (f" (no text: {spell_pages(textless)})" if textless else "")
    size = f"{facts['text_chars']} characters of text"
    shown = {
        "doc_id": document.doc_id,
        "tenant": document.tenant_id,
        "title": one_line(document.title),
        "tags": ", ".join(map(one_line, document.tags)) or "-",
        **({"language": document.language} if document.language else {}),
        "readers": spell_readers(document.readers),
        "pages": pages,
        **({"ocr": _spell_ocr(document)} if document.ocr else {}),
        "size": f"{size}, {facts['file_bytes']} bytes of file" if "file" in facts else size,
        **({"file": str(facts["file"])} if "file" in facts else {}),
        "version": str(facts["version"]),
        **({"older": ", ".join(older_versions)} if older_versions else {}),
        **{name: it.removeprefix(f"{name} ") for name, it in _spell_facts(document).items()},
        **({"source": _spell_source(document.source)} if document.source else {}),
        "sections": str(len(document.sections)),
    }
    for name, value in shown.items():
        echo(f"{name:<9} {value}")
    for warning in document.warnings:
        echo(f"warning   {spell_warning(warning, document.source)}")
    for section in document.sections.values():
        first, last = section.page_start, section.page_end
        span = f"page {first}" if first == last else f"pages {first}-{last}"
        echo(f"  {section.section_id}  {one_line(section.title)}  {span}")


def wanted_readers(
    users: list[str] | None, roles: list[str] | None, *, for_all: bool, for_none: bool
) -> Readers | None:
    """Return the readers in the options; None for all users of the tenant.

    Raises BadParameter unless exactly one kind of option is used.
    """
    is_some = bool(users or roles)
    if [is_some, for_all, for_none].count(True) != 1:
        raise typer.BadParameter(
            "name readers with --user and --role, or use --everybody or --nobody"
        )
    return None if for_all else Readers(users=frozenset(users or ()), roles=frozenset(roles or ()))


def spell_readers(readers: Readers | None) -> str:
    """Return readers as text, such as ``user ann, role audit``."""
    if readers is None:
        return "all users of the tenant"
    named = [f"user {one_line(user)}" for user in sorted(readers.users)]
    named += [f"role {one_line(role)}" for role in sorted(readers.roles)]
    return ", ".join(named) or "nobody"
