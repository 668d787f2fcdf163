"""The gateway's token file, in the test's folder."""

from pathlib import Path

TOKEN_FILE = Path("token")


def write_token(content: str | bytes) -> None:
    """Replace the token file's content atomically."""
    data = content.encode() if isinstance(content, str) else content
    draft = TOKEN_FILE.with_name(".token.new")
    draft.write_bytes(data)
    draft.replace(TOKEN_FILE)


def remove_token() -> None:
    TOKEN_FILE.unlink()
