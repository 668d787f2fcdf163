"""The screenshots of the documentation, taken from the demo by ``make console-pictures``."""

import pytest
from PIL import Image

from mcp_tools_proxy.console.navigation import PARTS, Part
from tests.system.console.opened_pages import HEIGHT, WIDTH
from tests.system.console.pictures import MAX_BYTES, picture_of


@pytest.mark.parametrize("part", PARTS, ids=lambda it: it.title)
def test_each_section_of_the_console_has_a_screenshot(part: Part) -> None:
    picture = picture_of(part)
    assert picture.stat().st_size <= MAX_BYTES
    with Image.open(picture) as opened:
        assert opened.size == (WIDTH, HEIGHT)
