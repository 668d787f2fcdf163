"""Equations of Word files as LaTeX. Letters and symbols stay as Unicode, as search needs them."""

import re
from collections.abc import Callable, Iterable, Mapping
from xml.etree.ElementTree import Element

_SPECIAL = re.compile(r"[\\{}$&#%_^~]")
_ESCAPES = {"\\": r"\backslash ", "^": r"\^{}", "~": r"\sim "}

_LARGE = {
    sign: f"\\{name}"
    for sign, name in zip(
        "∫∬∭∮∑∏∐⋃⋂⋁⋀",
        re.findall(r"\w+", "int iint iiint oint sum prod coprod bigcup bigcap bigvee bigwedge"),
        strict=True,
    )
}
_ACCENTS = {
    sign: f"\\{name}"
    for name, signs in {
        "hat": "\u0302^",
        "tilde": "\u0303~",
        "dot": "\u0307",
        "ddot": "\u0308",
        "dddot": "\u20db",
        "bar": "\u0304\u00af",
        "overline": "\u0305",
        "vec": "\u20d7\u2192",
        "overleftarrow": "\u20d6",
        "breve": "\u0306",
        "check": "\u030c",
        "acute": "\u0301",
        "grave": "\u0300",
    }.items()
    for sign in signs
}
_GROUPS = {"⏞": r"\overbrace", "⏟": r"\underbrace"}
_FUNCTION = re.compile(
    "arc(?:cos|sin|tan)|arg|(?:cos|sin|tan|cot)h?|csc|deg|det|dim|exp|gcd|hom|inf|ker|lg|ln|log|"
    "lim(?:inf|sup)?|max|min|Pr|sec|sup"
)
_SCRIPTS = {"double-struck": r"\mathbb", "script": r"\mathcal", "fraktur": r"\mathfrak"}
_FENCES = {"{": r"\{", "}": r"\}", "‖": r"\|", "": "."}

_LINE_END = r" \\ "

_PROPERTIES = re.compile(r"m_(?:\w+Pr|ctrlPr)|w_rPr|w_del|w_moveFrom")


class EquationWriter:
    """Writes equations; ``unknown`` counts those with structures that only left their letters."""

    def __init__(self) -> None:
        self.unknown = 0
        self._is_known = True
        self._hidden_chars = 0
        self._is_hidden: Callable[[Element | None], bool] = lambda _: False
        self._writers: Mapping[str, Callable[[Element], str]] = {
            "m_r": self._run,
            "w_r": self._run,
            "m_t": lambda element: _escaped(element.text or ""),
            "w_t": lambda element: _escaped(element.text or ""),
            "m_f": self._fraction,
            "m_rad": self._root,
            "m_nary": self._large_operator,
            "m_sSup": lambda element: self._scripts(element, sup="m_sup"),
            "m_sSub": lambda element: self._scripts(element, sub="m_sub"),
            "m_sSubSup": lambda element: self._scripts(element, sub="m_sub", sup="m_sup"),
            "m_sPre": self._scripts_before,
            "m_d": self._fences,
            "m_func": self._function,
            "m_limLow": lambda element: self._limit(element, "_", r"\underset"),
            "m_limUpp": lambda element: self._limit(element, "^", r"\overset"),
            "m_acc": self._accent,
            "m_bar": self._bar,
            "m_groupChr": self._group,
            "m_borderBox": lambda element: rf"\boxed{self._part(element, 'm_e')}",
            "m_m": self._matrix,
            "m_phant": self._phantom,
            "m_eqArr": self._rows,
        }

    def write(self, element: Element, is_hidden: Callable[[Element | None], bool]) -> str:
        """Return ``m_oMath`` as LaTeX without dollar signs.

        ``is_hidden`` says whether properties of a run (``w_rPr``) hide its text.
        """
        self._is_known = True
        self._is_hidden = is_hidden
        text = self._inside(element)
        self.unknown += not self._is_known
        return " ".join(text.split())

    def take_hidden_chars(self) -> int:
        """Return the number of letters that were left out since the last call."""
        taken, self._hidden_chars = self._hidden_chars, 0
        return taken

    def _inside(self, element: Element) -> str:
        return "".join(map(self._any, element))

    def _left_out(self, element: Element) -> str:
        """Count the letters of a hidden part."""
        texts = (it.text or "" for it in element.iter() if it.tag in ("m_t", "w_t"))
        self._hidden_chars += sum(len(it.strip()) for it in texts)
        return ""

    def _any(self, element: Element) -> str:
        writer = self._writers.get(element.tag)
        if writer is not None:
            return writer(element)
        if _PROPERTIES.fullmatch(element.tag):
            return ""
        if not _WITHOUT_SIGN.fullmatch(element.tag):
            self._is_known = False
        return self._inside(element)

    def _part(self, element: Element, name: str) -> str:
        """Return a child in braces."""
        child = element.find(name)
        return "{}" if child is None else f"{{{self._inside(child).strip()}}}"

    def _phantom(self, element: Element) -> str:
        """Return the content of a part that only takes up space, unless it shows it."""
        shows = _value(element, "m_phantPr/m_show", "1") not in ("0", "off", "false")
        return self._inside(element) if shows else self._left_out(element)

    def _run(self, element: Element) -> str:
        if self._is_hidden(element.find("w_rPr")):
            return self._left_out(element)
        text = "".join(map(self._any, element))
        if element.find("m_rPr/m_nor") is not None and any(c.isalpha() for c in text):
            return rf"\text{{{text}}}"
        script = _SCRIPTS.get(_value(element, "m_rPr/m_scr", ""))
        return f"{script}{{{text}}}" if script and text.strip() else text

    def _fraction(self, element: Element) -> str:
        upper, lower = self._part(element, "m_num"), self._part(element, "m_den")
        match _value(element, "m_fPr/m_type", "bar"):
            case "lin" | "skw":
                return f"{_plain(upper)}/{_plain(lower)}"
            case "noBar":
                return rf"\binom{upper}{lower}"
            case _:
                return rf"\frac{upper}{lower}"

    def _root(self, element: Element) -> str:
        degree = self._part(element, "m_deg")[1:-1]
        body = self._part(element, "m_e")
        return rf"\sqrt[{degree}]{body}" if degree else rf"\sqrt{body}"

    def _large_operator(self, element: Element) -> str:
        # Word leaves out the character of an integral
        sign = _value(element, "m_naryPr/m_chr", "∫")
        text = _LARGE.get(sign) or _escaped(sign)
        for name, mark in (("m_sub", "_"), ("m_sup", "^")):
            limit = self._part(element, name)
            if limit != "{}":
                text += mark + limit
        body = self._part(element, "m_e")[1:-1]
        return _joined(text, body)

    def _scripts(self, element: Element, *, sub: str = "", sup: str = "") -> str:
        base = self._part(element, "m_e")
        text = base if "^" in base or "_" in base else base[1:-1]
        if sub:
            text += f"_{self._part(element, sub)}"
        return text + (f"^{self._part(element, sup)}" if sup else "")

    def _scripts_before(self, element: Element) -> str:
        sub, sup = self._part(element, "m_sub"), self._part(element, "m_sup")
        return f"{{}}_{sub}^{sup}{self._part(element, 'm_e')[1:-1]}"

    def _fences(self, element: Element) -> str:
        start = _value(element, "m_dPr/m_begChr", "(")
        end = _value(element, "m_dPr/m_endChr", ")")
        separator = _value(element, "m_dPr/m_sepChr", "|")
        parts = (self._inside(child).strip() for child in element.iterfind("m_e"))
        body = _escaped(separator).join(parts)
        if len(body) == len(body.strip("\\{}")) and start and end:
            return f"{_FENCES.get(start, start)}{body}{_FENCES.get(end, end)}"
        left, right = _FENCES.get(start, start), _FENCES.get(end, end)
        return _joined(rf"\left{left}", body) + rf"\right{right}"

    def _function(self, element: Element) -> str:
        name = self._part(element, "m_fName")[1:-1].strip()
        if _FUNCTION.fullmatch(name):
            name = f"\\{name}"
        return _joined(name, self._part(element, "m_e")[1:-1])

    def _limit(self, element: Element, mark: str, otherwise: str) -> str:
        base, limit = self._part(element, "m_e"), self._part(element, "m_lim")
        name = base[1:-1].strip()
        if _FUNCTION.fullmatch(name):
            return f"\\{name}{mark}{limit}"
        if name.startswith((r"\underbrace", r"\overbrace")):
            return f"{name}{mark}{limit}"
        return f"{otherwise}{limit}{base}"

    def _accent(self, element: Element) -> str:
        accent = _value(element, "m_accPr/m_chr", "\u0302")
        body = self._part(element, "m_e")
        name = _ACCENTS.get(accent)
        if name is None:
            return body[1:-1] + accent
        wide = {r"\hat": r"\widehat", r"\tilde": r"\widetilde"} if len(body) > 3 else {}
        return wide.get(name, name) + body

    def _bar(self, element: Element) -> str:
        is_above = _value(element, "m_barPr/m_pos", "bot") == "top"
        return (r"\overline" if is_above else r"\underline") + self._part(element, "m_e")

    def _group(self, element: Element) -> str:
        sign = _value(element, "m_groupChrPr/m_chr", "⏟")
        body = self._part(element, "m_e")
        if sign in _GROUPS:
            return _GROUPS[sign] + body
        is_above = _value(element, "m_groupChrPr/m_pos", "bot") == "top"
        return (r"\overset" if is_above else r"\underset") + f"{{{_escaped(sign)}}}{body}"

    def _rows(self, element: Element) -> str:
        rows = (self._inside(child).strip() for child in element.iterfind("m_e"))
        # "&" is where the rows are aligned
        return _environment("aligned", (row.replace(r"\&", "&") for row in rows))

    def _matrix(self, element: Element) -> str:
        rows = (
            " & ".join(self._inside(cell).strip() for cell in line.iterfind("m_e"))
            for line in element.iterfind("m_mr")
        )
        return _environment("matrix", rows)


_WITHOUT_SIGN = re.compile(
    "m_(?:oMath|oMathPara|e|num|den|sub|sup|deg|lim|fName|box|mr)|w_(?:ins|moveTo|sdt|sdtPr|"
    "sdtContent|smartTag|customXml|hyperlink|bookmark(?:Start|End)|comment(?:RangeStart|RangeEnd|"
    "Reference)|proofErr|perm(?:Start|End)|br|tab|lastRenderedPageBreak|fldChar|instrText|"
    "footnoteReference)"
)


def _value(element: Element, path: str, default: str) -> str:
    found = element.find(path)
    return default if found is None else found.get("m_val", "")


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: _ESCAPES.get(match[0], f"\\{match[0]}"), text)


def _environment(name: str, rows: Iterable[str]) -> str:
    return rf"\begin{{{name}}} {_LINE_END.join(rows)} \end{{{name}}}"


def _plain(braced: str) -> str:
    inner = braced[1:-1]
    return inner if inner.isalnum() else f"({inner})"


def _joined(command: str, body: str) -> str:
    """Join a command and what follows it, which could be read as part of its name."""
    needs_space = command[-1:].isalpha() and "\\" in command and body[:1].isalpha()
    return f"{command} {body}" if needs_space else command + body
