"""Characters of the fonts Symbol and Wingdings, which have code points of their own."""

_SYMBOL = (
    " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟ"
    "ΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"
)
_SYMBOL_UPPER = (
    "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉"
    "∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"
)
_FONTS = {
    "symbol": {
        **{0x20 + at: c for at, c in enumerate(_SYMBOL)},
        **{0xA0 + at: c for at, c in enumerate(_SYMBOL_UPPER)},
    },
    "wingdings": dict(
        zip(
            bytes.fromhex(
                "20 28 2a 46 4a 4c 52 6c 6d 6e 6f 70 71 72 73 74 75 76 77 9f a1 a7 a8 ab b1 d8 df"
                "e0 e1 e2 e8 ef f0 f1 f2 fb fc fd fe"
            ),
            " ☎✉☞☺☹☼●❍■□❐❑❒⬧⧫◆❖⬥•○▪☐★⌖➢←→↑↓➔⇦⇨⇧⇩✗✓☒☑",
            strict=True,
        )
    ),
    "wingdings 2": dict(
        zip(bytes.fromhex("4f 50 51 52 53 54 55 56 97 98 a2 a3"), "✗✓☒☑☒☒✗⊗●•■☐", strict=True)
    ),
}
_PRIVATE = range(0xF000, 0xF100)


def symbol(code: int, font: str) -> str:
    """Return the character that a font shows for a code; "" if it is unknown.

    Office programs add 0xF000 to the codes of these fonts.
    """
    if code in _PRIVATE:
        code -= _PRIVATE.start
        return _FONTS.get(font.lower(), {}).get(code, "")
    return _FONTS.get(font.lower(), {}).get(code, chr(code))


def with_symbols(text: str, font: str) -> str:
    """Return text as a font shows it: of the font Symbol, or with codes of symbol fonts."""
    if font.lower() == "symbol" or any(ord(c) in _PRIVATE for c in text):
        return "".join(
            symbol(ord(c), font) if ord(c) in _PRIVATE or font.lower() == "symbol" else c
            for c in text
        )
    return text
