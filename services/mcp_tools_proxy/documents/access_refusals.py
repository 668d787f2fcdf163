"""Errors for denied document access, and what operators are told of each."""

from mcp_tools_proxy.domain.audit.rule_source import DOCUMENT, RuleSource
from mcp_tools_proxy.domain.caller import NOT_BOUND
from mcp_tools_proxy.domain.errors import AccessDenied, DocumentNotFound, DocumentRefused
from mcp_tools_proxy.wire.text import quote

READERS = RuleSource(DOCUMENT, "$.readers")
"""The rule by which a document of the tenant is refused to some of its users."""

NOT_A_READER = "the tenant has the document, and its readers do not include this user or its roles"

NOT_THERE = "the tenant does not have a document with this id"

OF_ANOTHER = f"{NOT_THERE}; another tenant has one"


def because_of_readers(refusal: DocumentRefused) -> DocumentRefused:
    """Add to a refusal, for operators, that the document's readers decided."""
    refusal.reason, refusal.rule = NOT_A_READER, READERS
    return refusal


def access_denied(doc_id: str) -> AccessDenied:
    """Return the refusal of a document that is another's."""
    return AccessDenied(
        f"the user has no access to document {quote(doc_id)}; do not try again: use a "
        "doc_id that belongs to the user, or tell the user",
        reason=OF_ANOTHER,
    )


def not_found(doc_id: str) -> DocumentNotFound:
    """Return the refusal of a document that is not there."""
    return DocumentNotFound(
        f"there is no document {quote(doc_id)}; check the doc_id letter by letter against the "
        "one you were given, or ask the user which document is meant",
        reason=NOT_THERE,
    )


def not_bound(refusal: DocumentRefused) -> DocumentRefused:
    """Add to a refusal, for operators, that the caller is bound to other documents."""
    refusal.reason = NOT_BOUND
    return refusal
