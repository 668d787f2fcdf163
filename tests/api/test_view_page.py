"""view_doc_page through the API: a page of a PDF as an image (contract §2)."""

import base64
from collections.abc import AsyncIterator
from io import BytesIO
from typing import Any

import pytest
from fpdf import FPDF
from mcp_types import ImageContent
from PIL import Image

from mcp_tools_proxy.documents.document_writer import Expected
from mcp_tools_proxy.domain.document import Readers
from tests.api.document_operator import CONTENT, NEW, NOTE, Operator, operated
from tests.support.builders import make_document
from tests.support.configuration import Config, make_agent
from tests.support.mcp_endpoint import serving
from tests.support.service import Envelope

PDF_TYPE = {"Content_Type": "application/pdf"}


def manual() -> bytes:
    """Return a PDF with a text page and a picture that no format compresses well."""
    pdf = FPDF()
    pdf.set_font("helvetica", size=12)
    pdf.add_page()
    pdf.cell(text="Turn the valve to 12 bar.")
    pdf.add_page()
    pdf.cell(text="A picture.")
    pdf.image(Image.effect_noise((800, 1100), 80), 10, 20, 180)
    return bytes(pdf.output())


async def put(operator: Operator, doc_id: str, content: bytes, kind: dict[str, str]) -> None:
    query = {"tenant_id": "acme", "doc_id": doc_id}
    response = await operator.send("PUT", CONTENT, query, content, **kind, **NEW)
    assert response.status_code == 201, response.text


@pytest.fixture(scope="module")
async def operator(shared_settings: dict[str, Any]) -> AsyncIterator[Operator]:
    """Serve the manual to all tests; each adds documents under unique names."""
    settings = {**shared_settings, "documents_keep_originals": True, "max_image_bytes": 60_000}
    async with operated(**settings) as made:
        await put(made, "manual", manual(), PDF_TYPE)
        yield made


async def view(operator: Operator, page: object = 1, **more: Any) -> Envelope:
    return await operator.service.execute(
        "view_doc_page", {"doc_id": more.pop("doc_id", "manual"), "page": page}, tenant_id="acme"
    )


def image_of(envelope: Envelope) -> tuple[bytes, Image.Image, str]:
    (block,) = envelope["result"]["content"]
    assert block["type"] == "image"
    data = base64.b64decode(block["data"], validate=True)
    return data, Image.open(BytesIO(data)), block["mimeType"]


async def test_a_text_page_has_its_full_size(operator: Operator) -> None:
    envelope = await view(operator)
    data, image, media_type = image_of(envelope)
    result = envelope["result"]
    assert (image.width, image.height) == (result["width"], result["height"])
    assert (max(image.size), media_type, image.format) == (1600, "image/png", "PNG")
    assert len(data) <= 60_000
    assert image.convert("L").getextrema() == (0, 255)  # text on white
    assert result["tokens"] == image.width * image.height // 750


async def test_a_large_page_is_scaled_down(operator: Operator) -> None:
    data, image, _ = image_of(await view(operator, 2))
    assert len(data) <= 60_000
    assert 100 <= max(image.size) < 1600


async def test_the_same_page_returns_the_same_image(operator: Operator) -> None:
    assert (await view(operator))["result"] == (await view(operator))["result"]


async def test_a_page_past_the_end_is_not_found(operator: Operator) -> None:
    error = (await view(operator, 3))["error"]
    assert (error["code"], error["details"]) == ("PAGES_NOT_FOUND", {"pages": 2})


async def test_the_error_for_a_document_without_a_pdf_has_advice(
    operator: Operator,
) -> None:
    await put(operator, "note", NOTE, {"Content_Type": "text/markdown"})
    error = (await view(operator, doc_id="note"))["error"]
    assert error["code"] == "PAGE_IMAGE_UNAVAILABLE"
    assert "sets MCP_PROXY_DOCUMENTS_KEEP_ORIGINALS and imports the PDF again" in error["message"]


async def test_a_file_that_cannot_be_rendered_is_an_error(operator: Operator) -> None:
    document = make_document(tenant_id="acme", doc_id="broken")
    await operator.service.gateway.documents.writer.put(
        document, expected=Expected.NOTHING, keep_readers=False, original=b"%PDF- nonsense"
    )
    error = (await view(operator, doc_id="broken"))["error"]
    assert (error["code"], "retryable" in error) == ("PAGE_IMAGE_UNAVAILABLE", False)
    assert "the original file cannot be read" in error["message"]


async def test_pages_are_limited_to_readers(operator: Operator) -> None:
    await put(operator, "anns", manual(), PDF_TYPE)
    assert (await view(operator, doc_id="anns"))["status"] == "ok"
    writer = operator.service.gateway.documents.writer
    readers = Readers(users=frozenset({"ann"}))
    await writer.set_readers(("acme", "anns"), readers, expected=Expected.ANYTHING)
    assert (await view(operator, doc_id="anns"))["error"]["code"] == "ACCESS_DENIED"
    envelope = await operator.service.execute(
        "view_doc_page", {"doc_id": "manual", "page": 1}, tenant_id="globex"
    )
    assert envelope["error"]["code"] == "ACCESS_DENIED"


async def test_an_image_is_charged_to_the_documents_budget() -> None:
    async with operated(documents_keep_originals=True, rate_limit_tokens=100) as operator:
        await put(operator, "manual", manual(), PDF_TYPE)
        seen = [(await view(operator))["status"], (await view(operator))["error"]["code"]]
        assert seen == ["ok", "RATE_LIMIT_EXCEEDED"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_mcp_the_image_is_the_content(mode: str) -> None:
    async with serving(documents_keep_originals=True) as served:
        document = make_document(doc_id="manual", pages=("Turn the valve.", "A picture."))
        await served.service.gateway.documents.writer.put(
            document, expected=Expected.NOTHING, keep_readers=False, original=manual()
        )
        async with served.client(mode=mode) as client:
            result = await client.call_tool("view_doc_page", {"doc_id": "manual", "page": 1})
    (block,) = result.content
    assert isinstance(block, ImageContent)
    assert block.mime_type == "image/png"
    assert result.structured_content is not None
    assert result.structured_content.keys() == {
        *("doc_id", "version", "page", "width", "height", "tokens")
    }


async def test_a_caller_bound_to_other_documents_gets_no_page(operator: Operator) -> None:
    envelope = await operator.service.execute(
        "view_doc_page",
        {"doc_id": "manual", "page": 1},
        tenant_id="acme",
        documents=["another"],
    )
    assert envelope["error"]["code"] == "ACCESS_DENIED"


async def test_a_profile_can_exclude_the_tool() -> None:
    config = Config(agents=[make_agent(exclude=["view_doc_page"])])
    async with operated(documents_keep_originals=True, config=config) as operator:
        listed = await operator.service.get("/internal/mcp/tools", agent="reader")
        names = [tool["name"] for tool in listed["tools"]]
        assert "read_doc_pages" in names
        assert "view_doc_page" not in names


async def test_without_the_setting_the_tool_does_not_exist() -> None:
    async with operated() as operator:
        assert (await view(operator))["error"]["code"] == "TOOL_NOT_FOUND"
        names = [
            tool["name"] for tool in (await operator.service.get("/internal/mcp/tools"))["tools"]
        ]
        assert "view_doc_page" not in names


async def test_with_the_setting_the_tool_is_listed(operator: Operator) -> None:
    listed = await operator.service.get("/internal/mcp/tools")
    assert "view_doc_page" in [tool["name"] for tool in listed["tools"]]
