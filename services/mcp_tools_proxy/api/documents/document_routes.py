"""The routes that look after documents (contract §1)."""

from collections.abc import Sequence

from mcp_tools_proxy.api.documents.document_handlers import CONTENT_PATH, DocumentHandlers
from mcp_tools_proxy.api.documents.document_models import (
    DocumentQuery,
    DocumentsQuery,
    RightsChange,
    UploadQuery,
)
from mcp_tools_proxy.api.documents.upload import FILES
from mcp_tools_proxy.api.openapi.document_models import (
    DocumentContent,
    DocumentFacts,
    DocumentRights,
    DocumentsAnswer,
)
from mcp_tools_proxy.api.openapi.examples import RIGHTS_EXAMPLES
from mcp_tools_proxy.api.openapi.operation import Tag
from mcp_tools_proxy.api.openapi.parameters import CHANGE_HEADERS, PUT_HEADERS, TRACED
from mcp_tools_proxy.api.openapi.responses import Answer, document_responses
from mcp_tools_proxy.api.route_builder import RouteBuilder
from mcp_tools_proxy.domain.identity import OperatorRight
from mcp_tools_proxy.web.fast_routes import DirectRoute

RIGHTS_PATH = "/internal/documents/rights"


def document_routes(build: RouteBuilder, documents: DocumentHandlers) -> Sequence[DirectRoute]:
    """Build the routes; each needs the operator right ``documents``."""
    return (
        build.get(
            "/internal/documents",
            documents.list_documents,
            operation_id="list_documents",
            tag=Tag.DOCUMENTS,
            summary="List documents",
            description=(
                "Lists the documents of one tenant or of all tenants, in pages of 100. "
                "Requires the operator right `documents`."
            ),
            query=DocumentsQuery,
            responses=document_responses(DocumentsAnswer, "The documents."),
            headers=TRACED,
            needs_token=True,
        ),
        build.get(
            CONTENT_PATH,
            documents.show_content,
            operation_id="get_document",
            tag=Tag.DOCUMENTS,
            summary="Read a whole document",
            query=DocumentQuery,
            responses=document_responses(DocumentContent, "The document.", 404),
            headers=TRACED,
            needs_token=True,
        ),
        build.change(
            "PUT",
            CONTENT_PATH,
            documents.put_content,
            operation_id="put_document",
            tag=Tag.DOCUMENTS,
            summary="Create or replace a document",
            description=(
                "`If-None-Match: *` creates a document; `If-Match` replaces the version it "
                "names. A file that is not JSON is imported in a separate process, with OCR for "
                "scans if it is configured. A replaced document keeps its readers, unless the "
                "query or the JSON document names readers."
            ),
            query=UploadQuery,
            responses={
                **document_responses(
                    DocumentFacts, "The document was replaced.", 409, 412, 413, 415, 428
                ),
                201: Answer("The document was created.", DocumentFacts, ("X-Trace-Id", "ETag")),
            },
            headers=PUT_HEADERS,
            files=FILES,
        ),
        build.change(
            "DELETE",
            CONTENT_PATH,
            documents.remove_content,
            operation_id="remove_document",
            tag=Tag.DOCUMENTS,
            summary="Delete a document",
            description="Deletes the version named in `If-Match`; `*` matches any version.",
            query=DocumentQuery,
            responses=document_responses(
                DocumentFacts, ("The deleted document."), 404, 409, 412, 428
            ),
            headers=CHANGE_HEADERS,
        ),
        build.get(
            RIGHTS_PATH,
            documents.show_rights,
            operation_id="get_document_rights",
            tag=Tag.DOCUMENTS,
            summary="Show who may read a document",
            query=DocumentQuery,
            responses=document_responses(DocumentRights, "The document's access rights.", 404),
            headers=TRACED,
            needs_token=True,
        ),
        build.with_body(
            "PUT",
            RIGHTS_PATH,
            documents.put_rights,
            RightsChange,
            operation_id="put_document_rights",
            tag=Tag.DOCUMENTS,
            examples=RIGHTS_EXAMPLES,
            summary="Set who may read a document",
            description=(
                "Replaces the access rights: only the named users and roles can read the "
                "document, on all replicas within a second. `If-Match` takes the `ETag` of the "
                "access rights, not that of the document."
            ),
            query=DocumentQuery,
            responses=document_responses(
                DocumentRights, "The new access rights.", 404, 409, 412, 413, 428
            ),
            headers=CHANGE_HEADERS,
            needs_token=True,
            right=OperatorRight.DOCUMENTS,
        ),
    )
