"""The routes of the pages about documents."""

from collections.abc import Sequence

from starlette.routing import Route

from mcp_tools_proxy.console.page_endpoint import PageEndpoint, Pages
from mcp_tools_proxy.console.pages.documents.document_list_page import or_list, show_list
from mcp_tools_proxy.console.pages.documents.manage_page import ManagePage
from mcp_tools_proxy.console.pages.documents.one_document import DOCUMENTS_PATH, DocumentLoader
from mcp_tools_proxy.console.pages.documents.page_picture import show_picture
from mcp_tools_proxy.console.pages.documents.quotation_page import QuotationPage
from mcp_tools_proxy.console.pages.documents.reading_page import ReadingPage
from mcp_tools_proxy.console.pages.documents.search_page import SearchPage
from mcp_tools_proxy.console.pages.documents.upload_page import show_upload, upload
from mcp_tools_proxy.web.request_refusals import CONSOLE_UPLOAD


def document_page_routes(pages: Pages) -> Sequence[Route]:
    """Return the routes of this part."""
    loader = DocumentLoader()
    reading, search = ReadingPage(loader), SearchPage(loader)
    quotation, manage = QuotationPage(loader), ManagePage(loader)
    return (
        Route(DOCUMENTS_PATH, PageEndpoint(pages, GET=show_list)),
        Route(f"{DOCUMENTS_PATH}/read", PageEndpoint(pages, GET=or_list(reading.show))),
        Route(f"{DOCUMENTS_PATH}/picture", PageEndpoint(pages, GET=show_picture)),
        Route(
            f"{DOCUMENTS_PATH}/search",
            PageEndpoint(pages, GET=or_list(search.show, needs_document=False)),
        ),
        Route(
            f"{DOCUMENTS_PATH}/verify",
            PageEndpoint(
                pages,
                GET=or_list(quotation.show, needs_document=False),
                POST=quotation.verify,
            ),
        ),
        Route(
            f"{DOCUMENTS_PATH}/manage",
            PageEndpoint(pages, GET=or_list(manage.show), POST=manage.change),
        ),
        Route(CONSOLE_UPLOAD[1], PageEndpoint(pages, has_file=True, GET=show_upload, POST=upload)),
    )
