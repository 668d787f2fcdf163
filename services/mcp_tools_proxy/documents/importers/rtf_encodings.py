"""Code pages and character sets of RTF files."""

_WINDOWS_PAGES = (
    *((128, 932), (129, 949), (161, 1253), (162, 1254), (163, 1258), (177, 1255), (178, 1256)),
    *((186, 1257), (204, 1251), (222, 874), (238, 1250), (254, 437), (255, 850)),
)

_CHARSETS = {
    **{number: f"cp{page}" for number, page in _WINDOWS_PAGES},
    77: "mac-roman",
    130: "johab",
    134: "gb18030",
    136: "big5",
}

_CODE_PAGES = {65001: "utf-8", 10000: "mac-roman", 936: "gb18030", 950: "big5", 1361: "johab"}

_SYMBOLS = 2
"""Character set of fonts of signs; those that office programs use for bullets."""


class RtfEncodings:
    """The code page of a file, and the character sets of its fonts."""

    def __init__(self) -> None:
        self.code_page = "cp1252"
        self._fonts: dict[int, int] = {}

    def set_code_page(self, number: int) -> None:
        """Set the code page by its number in Windows."""
        self.code_page = _CODE_PAGES.get(number, f"cp{number}")

    def add_font(self, font: int, charset: int) -> None:
        """Store the character set of a font."""
        self._fonts[font] = charset

    def decode(self, content: bytes, font: int, *, is_wide: bool) -> str:
        """Return bytes as text; ``is_wide`` says that they are UTF-16."""
        charset = self._fonts.get(font, 0)
        encoding = "utf-16-le" if is_wide else _CHARSETS.get(charset, self.code_page)
        try:
            text = content.decode(encoding, "replace")
        except LookupError:
            text = content.decode("cp1252", "replace")
        if charset == _SYMBOLS:
            text = text.replace("·", "-").replace("\uf0b7", "-")
        return text
