"""The settings of search by meaning: the service that makes vectors of texts."""

from typing import Annotated, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from mcp_tools_proxy.settings.types import (
    EnvironmentSettings,
    OptionalText,
    Seconds,
    empty_is_unset,
    is_token,
    starting_with,
    variable,
)


class EmbeddingsSettings(EnvironmentSettings):
    """Which service makes vectors, and how long is waited for it."""

    embeddings_url: Annotated[
        str | None, BeforeValidator(empty_is_unset), starting_with("http://", "https://")
    ] = None
    """Full URL of an OpenAI-compatible ``/embeddings`` service for search by meaning. It receives
    the texts of documents and queries. Unset: search by words only."""
    embeddings_model: OptionalText = None
    """Model named in each request; required with the URL. If it changes, vectors are computed
    again."""
    embeddings_api_key: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token sent to that service."""
    embeddings_batch: Annotated[int, Field(ge=1, le=256)] = 32
    """Chunks of a document in one request, at most 256."""
    embeddings_timeout: Seconds = 30.0
    """Total seconds for one request for chunks."""
    embeddings_query_timeout: Seconds = 0.5
    """Seconds that a search waits for the vector of its query, before it searches by words only."""
    embeddings_min_similarity: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Minimum cosine similarity of query and chunk for a match by meaning."""

    @model_validator(mode="after")
    def _check_embeddings(self) -> Self:
        """Check that a service has a model. Raises ValueError naming the variable."""
        if self.embeddings_url is not None and self.embeddings_model is None:
            raise ValueError(
                f"{variable('embeddings_model')}: is required if {variable('embeddings_url')} is "
                "set"
            )
        return self
