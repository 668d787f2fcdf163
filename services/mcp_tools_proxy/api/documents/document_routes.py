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
            description="Of one tenant, or of all, in pages of 100. Needs the right `documents`.",
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
            summary="Put a document",
            description=(
                "A new one with `If-None-Match: *`, else in place of the version that `If-Match` "
                "names. A file of another kind than JSON is imported in a process of its own, "
                "a scan by OCR where it is set. A document that is replaced keeps its readers, "
                "unless the query names readers or the JSON form has `readers`."
            ),
            query=UploadQuery,
            responses={
                **document_responses(
                    DocumentFacts, "The document was replaced.", 409, 412, 413, 415, 428
                ),
                201: Answer("The document is new.", DocumentFacts, ("X-Trace-Id", "ETag")),
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
            summary="Remove a document",
            description="The version that `If-Match` names, or any with `*`.",
            query=DocumentQuery,
            responses=document_responses(DocumentFacts, "What was removed.", 404, 409, 412, 428),
            headers=CHANGE_HEADERS,
        ),
        build.get(
            RIGHTS_PATH,
            documents.show_rights,
            operation_id="get_document_rights",
            tag=Tag.DOCUMENTS,
            summary="Show who may read a document",
            query=DocumentQuery,
            responses=document_responses(DocumentRights, "Who may read it.", 404),
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
                "Those named are all who may: others no longer, within a second and on every "
                "replica. `If-Match` takes the `ETag` of the rights, which is not the document's."
            ),
            query=DocumentQuery,
            responses=document_responses(
                DocumentRights, "Who may read it now.", 404, 409, 412, 413, 428
            ),
            headers=CHANGE_HEADERS,
            needs_token=True,
            right=OperatorRight.DOCUMENTS,
        ),
    )
