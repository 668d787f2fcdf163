"""Makes sentences of messages, which begin in lower case and have no full stop."""

import re

_WORD = re.compile(r"[a-z]+(?:['’][a-z]+)?[,;.!?]?(?=\s|$)")
"""A first word that is no name: names have other characters, and a field's ends with a colon."""

_ENDS = (".", "!", "?", "…", ":")


def sentence(message: str) -> str:
    """Return a message as a sentence; a name or the place of a mistake stays as it is written."""
    text = message.strip()
    if _WORD.match(text):
        text = f"{text[0].upper()}{text[1:]}"
    return text if not text or text.endswith(_ENDS) else f"{text}."
