from pathlib import Path

from mcp_tools_proxy.documents.document_store import CatalogQuery
from mcp_tools_proxy.documents.folder.folder_store import FolderStore
from mcp_tools_proxy.domain.caller import Caller
from tests.unit.documents.documents_folder import document, rewrite


async def ids(folder: FolderStore, tenant_id: str = "t") -> list[str]:
    caller = Caller(tenant_id=tenant_id, user_id="u")
    listed = await folder.list_readable(CatalogQuery(caller=caller, limit=9))
    return [entry.head.doc_id for entry in listed]


async def test_a_list_is_pending_for_a_tenant_with_unread_files(
    root: Path, folder: FolderStore
) -> None:
    rewrite(root, document("a"))
    rewrite(root, document("c", tenant_id="u"))
    with folder.writing("t/b.json"):
        rewrite(root, document("b"))
        await folder.load()
        pending = [folder.is_pending(tenant_id) for tenant_id in ("t", "u", "nobody")]
        before = [await ids(folder), await ids(folder, "u")]
    await folder.scan_all()
    assert (pending, before) == ([True, False, False], [["a"], ["c"]])
    assert (folder.is_pending("t"), await ids(folder)) == (False, ["a", "b"])


async def test_a_changed_file_is_not_listed_until_it_is_read_again(
    root: Path, folder: FolderStore
) -> None:
    rewrite(root, document("a"))
    await folder.load()
    before = await ids(folder)
    with folder.writing("t/a.json"):
        rewrite(root, document("a", title="another"))
        await folder.load()
        meanwhile = (await ids(folder), folder.is_pending("t"))
    assert (before, meanwhile) == (["a"], ([], True))
