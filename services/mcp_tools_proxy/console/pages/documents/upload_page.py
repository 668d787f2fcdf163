"""Takes a file as a new document, or as a new version of one, and sends it on as it arrives."""

from collections.abc import Mapping
from pathlib import PurePosixPath, PureWindowsPath

from mcp_tools_proxy.console.api_client import ApiRefused
from mcp_tools_proxy.console.forms import Form
from mcp_tools_proxy.console.page_request import Done, PageRequest, PageResult, PageView
from mcp_tools_proxy.console.pages.documents.one_document import CONTENT_REQUEST, address
from mcp_tools_proxy.console.sentences import sentence

TYPES: Mapping[str, str] = {
    ".pdf": "application/pdf",
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".txt": "text/plain",
    ".html": "text/html",
    ".htm": "text/html",
    ".csv": "text/csv",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".json": "application/json",
}
"""Media types by the end of a file's name: browsers name others, or none."""

FIELDS = (
    "tenant_id",
    "doc_id",
    "version",
    "title",
    "tags",
    "language",
    "readers",
    "users",
    "roles",
)

_FIELD_OF: Mapping[str, str] = {"tag": "tags", "reader_user": "users", "reader_role": "roles"}
"""Fields of the form by the parameters of the API that they become."""


async def show_upload(page: PageRequest) -> PageResult:
    """Show the form: for a new document, or for a new version of the one that is named."""
    return _view(page, {name: page.query(name) for name in FIELDS})


async def upload(page: PageRequest) -> PageResult:
    """Upload a file; where that is refused, show the form again with what to do."""
    form = page.form
    tenant_id = page.tenant_id or form.text("tenant_id")
    name = "" if form.file is None else _plain_name(form.file.name)
    suffix = PurePosixPath(name).suffix.lower()
    doc_id = form.text("doc_id") or PurePosixPath(name).stem
    problems = _problems(form, tenant_id, suffix)
    if problems or form.file is None:
        return _again(page, problems)
    version = form.text("version")
    try:
        await page.api.send(
            "PUT",
            CONTENT_REQUEST,
            {"tenant_id": tenant_id, "doc_id": doc_id, **_facts(form)},
            headers={
                "content-type": TYPES[suffix],
                **({"if-match": f'"{version}"'} if version else {"if-none-match": "*"}),
            },
            receive=form.file.receive,
        )
    except ApiRefused as error:
        return _again(page, {_place_of(error): _problem_of(error)}, error, doc_id)
    done = "New version added" if version else "Document added"
    return Done(
        path=address("read", tenant_id=tenant_id, doc_id=doc_id),
        message=f"{done}. Models can read it now.",
    )


def _problems(form: Form, tenant_id: str, suffix: str) -> dict[str, str]:
    problems: dict[str, str] = {}
    if not tenant_id:
        problems["tenant_id"] = "Enter a tenant."
    if form.file is None or not form.file.name:
        problems["file"] = "Choose a file."
    elif suffix not in TYPES:
        problems["file"] = f"Unsupported file type. Use one of: {', '.join(TYPES)}."
    if form.text("readers") == "some" and not (form.lines("users") or form.lines("roles")):
        problems["users"] = "Enter users or roles, or choose “All users of the tenant”."
    return problems


def _facts(form: Form) -> Mapping[str, object]:
    """Return what the form says of the document besides its ids."""
    chosen = form.text("readers") == "some"
    return {
        "title": form.text("title"),
        "tag": tuple(form.lines("tags")),
        "language": form.text("language"),
        "reader_user": tuple(form.lines("users")) if chosen else (),
        "reader_role": tuple(form.lines("roles")) if chosen else (),
    }


def _place_of(error: ApiRefused) -> str:
    """Return beside which field a refusal is shown."""
    if error.code == "VERSION_MISMATCH":
        return "doc_id"
    named = str(error.details.get("field", "")).partition(".")[0]
    field = _FIELD_OF.get(named, named)
    return field if field in FIELDS else "file"


def _problem_of(error: ApiRefused) -> str:
    """Return what is wrong with that field."""
    if error.code == "VERSION_MISMATCH":
        return "A document with this ID already exists."
    return sentence(error.message)


def _again(
    page: PageRequest,
    problems: Mapping[str, str],
    refusal: ApiRefused | None = None,
    doc_id: str = "",
) -> PageView:
    given = {name: page.form.text(name) for name in FIELDS}
    given["doc_id"] = given["doc_id"] or doc_id
    return _view(page, given, problems, refusal)


def _view(
    page: PageRequest,
    given: Mapping[str, str],
    problems: Mapping[str, str] | None = None,
    refusal: ApiRefused | None = None,
) -> PageView:
    tenant_id = page.tenant_id or given["tenant_id"]
    existing = None
    if refusal is not None and refusal.code == "VERSION_MISMATCH":
        existing = address("manage", tenant_id=tenant_id, doc_id=given["doc_id"])
    return PageView(
        template="document_upload.html",
        suggests=True,
        context={
            "tenant_id": tenant_id,
            "own_tenant": page.tenant_id,
            "given": given,
            "problems": problems or {},
            "refusal": refusal,
            "existing": existing,
            "accepted": ",".join(TYPES),
        },
        status=200 if not problems else 422 if refusal is None else refusal.status,
    )


def _plain_name(name: str) -> str:
    """Return a file's name without the folders that some browsers send with it."""
    return PureWindowsPath(name).name
