"""Validates the answers of an embeddings service, and converts them to vectors of length 1."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from pydantic_core import from_json

from mcp_tools_proxy.documents.service_http import BadAnswer

MAX_DIMENSION = 4_096
"""Most numbers of a vector; a document of 5,000 chunks then takes 40 MB in its store."""

Vectors = NDArray[np.float32]
"""Vectors as rows, or one of them."""


class _Item(BaseModel, strict=True):
    embedding: Annotated[list[float], Field(min_length=1, max_length=MAX_DIMENSION)]
    index: int | None = None


class _Answer(BaseModel, strict=True):
    data: list[_Item]


def max_answer_bytes(count: int) -> int:
    """Return the size of the largest answer for so many texts: 40 bytes for each number."""
    return 65_536 + count * MAX_DIMENSION * 40


def read_vectors(body: bytes, count: int) -> Vectors:
    """Return the vectors of ``count`` texts in their order. Raises BadAnswer."""
    try:
        items = _Answer.model_validate(from_json(body, allow_inf_nan=False)).data
    except (ValueError, RecursionError) as error:
        raise BadAnswer("sent an answer that is not valid") from error
    if len(items) != count:
        raise BadAnswer(f"sent {len(items)} vectors for {count} texts")
    if any(item.index is not None for item in items):
        items.sort(key=lambda item: -1 if item.index is None else item.index)
        if [item.index for item in items] != list(range(count)):
            raise BadAnswer("sent vectors whose indexes are not those of the texts")
    if len({len(item.embedding) for item in items}) > 1:
        raise BadAnswer("sent vectors of several lengths")
    return _normalized(np.array([item.embedding for item in items], np.float64))


def _normalized(rows: NDArray[np.float64]) -> Vectors:
    """Return the rows with a length of 1; one of zeros stays. Raises BadAnswer."""
    with np.errstate(over="ignore"):
        lengths = np.sqrt((rows * rows).sum(axis=1, keepdims=True))
    if not np.isfinite(lengths).all():
        raise BadAnswer("sent a vector that is not finite")
    lengths[lengths == 0] = 1
    vectors: Vectors = (rows / lengths).astype(np.float32)
    return vectors
