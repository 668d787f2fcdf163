"""Settings of the reference Retrieval Service: ``RETRIEVAL_*`` and ``.env``, read once at start."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

ENV_PREFIX = "RETRIEVAL_"


class SettingsError(Exception):
    """A setting has a bad value; one line that names the variable and never the value."""


class RetrievalSettings(BaseSettings):
    """Everything that an operator can set; an empty variable counts as unset."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, env_file=".env", env_ignore_empty=True, extra="ignore", frozen=True
    )

    documents_path: Path = Path("./documents")
    """Folder of document files, the same as the gateway's (contract §5); it may not exist yet."""
    documents_url: SecretStr | None = None
    """PostgreSQL that holds the documents in place of the folder, the same as the gateway's."""
    documents_timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 2.0
    """Seconds that one request may wait for the database in all."""
    documents_stale_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 30.0
    """Seconds that cached documents are served while the database is not reachable; 0 is never."""
    cache_dir: Path | None = None
    """Folder for what is known of document files; unset, one in the system's temporary folder."""
    documents_cache_bytes: Annotated[int, Field(ge=1)] = 67_108_864
    """Bytes of memory for the texts of the documents used last."""
    token: SecretStr | None = None
    """Bearer token that callers must send; unset, only loopback may be listened on."""
    host: str = "127.0.0.1"
    """Address to listen on."""
    port: Annotated[int, Field(ge=0, le=65535)] = 8083
    """Port to listen on; 0 takes a free one."""
    mock_mode: bool = True
    """Hold the seed document ``doc_1`` of ``tenant_1`` (T-05)."""
    max_window: Annotated[int, Field(ge=1)] = 101
    """Largest window served, in chunks: window_before + window_after + 1."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Least severe level to log."""


def load_settings() -> RetrievalSettings:
    """Read the environment. Raises SettingsError naming each bad variable, in one line."""
    try:
        return RetrievalSettings()
    except ValidationError as error:
        problems = (f"{ENV_PREFIX}{str(e['loc'][0]).upper()}: {e['msg']}" for e in error.errors())
        raise SettingsError("; ".join(problems)) from None
