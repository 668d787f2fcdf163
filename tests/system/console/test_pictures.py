"""The pictures of the documentation, which ``make console-pictures`` takes of the demo."""

import pytest
from PIL import Image

from mcp_tools_proxy.console.navigation import PARTS, Part
from tests.system.console.opened_pages import HEIGHT, WIDTH
from tests.system.console.pictures import MAX_BYTES, picture_of


@pytest.mark.parametrize("part", PARTS, ids=lambda it: it.title)
def test_each_part_of_the_console_has_a_picture(part: Part) -> None:
    picture = picture_of(part)
    assert picture.stat().st_size <= MAX_BYTES
    with Image.open(picture) as opened:
        assert opened.size == (WIDTH, HEIGHT)
