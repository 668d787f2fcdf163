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
    """URL of a service compatible with OpenAI's ``/embeddings``, whole, for search by meaning: it
    receives the texts of documents and queries. Unset: search by words."""
    embeddings_model: OptionalText = None
    """The model that is named in each request; needed with the URL. Vectors of another one are made
    anew."""
    embeddings_api_key: Annotated[
        SecretStr | None, BeforeValidator(empty_is_unset), AfterValidator(is_token)
    ] = None
    """Bearer token sent to that service."""
    embeddings_batch: Annotated[int, Field(ge=1, le=256)] = 32
    """Chunks of a document in one request, at most 256."""
    embeddings_timeout: Seconds = 30.0
    """Seconds for one request for chunks in total."""
    embeddings_query_timeout: Seconds = 0.5
    """Seconds that a search waits for the vector of its query; then it goes on without."""
    embeddings_min_similarity: Annotated[float, Field(ge=0, le=1)] = 0.35
    """Least cosine of a query and a chunk for the chunk to be found by meaning."""

    @model_validator(mode="after")
    def _check_embeddings(self) -> Self:
        """Check that a service has a model. Raises ValueError naming the variable."""
        if self.embeddings_url is not None and self.embeddings_model is None:
            raise ValueError(
                f"{variable('embeddings_model')}: is needed while {variable('embeddings_url')} is "
                "set"
            )
        return self
