"""Pages that upload several files, and show what becomes of them."""

from pathlib import PurePosixPath

from mcp_tools_proxy.console.api_client import DOCUMENT, UPLOADS, ApiRefused
from mcp_tools_proxy.console.forms import FileField
from mcp_tools_proxy.console.page_request import PageRequest, PageResult, PageView, Routes
from mcp_tools_proxy.console.page_text import sentence
from mcp_tools_proxy.console.pages.document_pages import (
    DOCUMENTS_PATH,
    TYPES,
    address,
    facts_of,
    plain_name,
    problem_of,
    upload,
)
from mcp_tools_proxy.domain.fast_dataclass import dataclass
from mcp_tools_proxy.http.api.upload_statuses import UploadStatus

MAX_FILES = 50
"""Files of one form; their statuses are in the address of the page."""

FIELDS = ("tenant_id", "tags", "language", "readers", "users", "roles", "untrusted")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFile:
    """A file: its status, or why it was refused; without an ``upload_id``, before its upload."""

    name: str
    upload_id: str = ""
    status: UploadStatus | None = None
    problem: str = ""

    @property
    def read_address(self) -> str:
        """The address of the document."""
        status = self.status
        if status is None:
            return ""
        return address("read", tenant_id=status.tenant_id, doc_id=status.doc_id)


async def show_uploads(page: PageRequest) -> PageResult:
    """Show the form for several files, and the statuses of earlier ones."""
    tenant_id = page.tenant()
    ids = [it for it in page.query("ids").split(",") if it][:MAX_FILES]
    return _view(page, tenant_id, [await _file_of(page, tenant_id, it) for it in ids], {})


async def upload_files(page: PageRequest) -> PageResult:
    """Upload the file of a form, or its files, each as a document with its name as the id."""
    form = page.form
    if not form.text("several"):
        return await upload(page)
    tenant_id = page.tenant_id or form.text("tenant_id")
    problems: dict[str, str] = {}
    if not tenant_id:
        problems["tenant_id"] = "Enter a tenant."
    if form.file is None or not form.file.name:
        problems["file"] = "Choose files."
    if form.text("readers") == "some" and not (form.lines("users") or form.lines("roles")):
        problems["users"] = "Enter users or roles, or choose “All users of the tenant”."
    sent: list[SentFile] = []
    file = None if problems else form.file
    while file is not None:
        sent.append(await _send(page, tenant_id, file, is_allowed=len(sent) < MAX_FILES))
        file = await form.next_file()
    return _view(page, tenant_id, sent, problems)


async def _send(
    page: PageRequest, tenant_id: str, file: FileField, *, is_allowed: bool
) -> SentFile:
    name = plain_name(file.name)
    suffix = PurePosixPath(name).suffix.lower()
    if not is_allowed:
        return SentFile(name=name, problem=f"Send at most {MAX_FILES} files at once.")
    if suffix not in TYPES:
        problem = f"Unsupported file type. Use one of: {', '.join(TYPES)}."
        return SentFile(name=name, problem=problem)
    try:
        answer = await page.api.send(
            "PUT",
            DOCUMENT.path,
            {"tenant_id": tenant_id, "doc_id": PurePosixPath(name).stem, **facts_of(page.form)},
            headers={
                "content-type": TYPES[suffix],
                "if-none-match": "*",
                "prefer": "respond-async",
            },
            receive=file.receive,
        )
    except ApiRefused as error:
        return SentFile(name=name, problem=problem_of(error))
    status = UploadStatus.model_validate(answer.json)
    return SentFile(name=name, upload_id=status.upload_id, status=status)


async def _file_of(page: PageRequest, tenant_id: str, upload_id: str) -> SentFile:
    try:
        status = await page.api.read(UPLOADS, {"tenant_id": tenant_id, "upload_id": upload_id})
    except ApiRefused as error:
        return SentFile(name=upload_id, upload_id=upload_id, problem=sentence(error.message))
    failure = (status.answer or {}).get("error") if status.state == "failed" else None
    if isinstance(failure, dict):
        refusal = ApiRefused(status.status_code or 500, failure)
        problem = problem_of(refusal)
        return SentFile(name=status.doc_id, upload_id=upload_id, status=status, problem=problem)
    return SentFile(name=status.doc_id, upload_id=upload_id, status=status)


def _view(
    page: PageRequest, tenant_id: str, sent: list[SentFile], problems: dict[str, str]
) -> PageView:
    statuses = [it.status for it in sent if it.status is not None]
    ids = ",".join(it.upload_id for it in sent if it.upload_id)
    return PageView(
        template="document_uploads.html",
        suggests=True,
        context={
            "tenant_id": tenant_id,
            "given": {name: page.form.text(name) for name in FIELDS},
            "sent": sent,
            "states": address("uploads", tenant_id=tenant_id, ids=ids),
            "is_running": any(not it.is_finished for it in statuses),
            "problems": problems,
            "accepted": ",".join(TYPES),
        },
        status=422 if problems else 200,
    )


ROUTES: Routes = {f"{DOCUMENTS_PATH}/uploads": {"GET": show_uploads}}
