"""Makes sentences of the API's messages, which begin in lower case and have no full stop."""


def capitalized(text: str) -> str:
    """Return a text that begins with a capital letter."""
    return f"{text[:1].upper()}{text[1:]}"


def sentence(message: str) -> str:
    """Return a message as a sentence of its own."""
    return f"{capitalized(message)}."
