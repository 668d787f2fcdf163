from collections.abc import Mapping

import pytest

from mcp_tools_proxy.auth.claims import ClaimNames, InvalidClaims, check_times, principal_of
from mcp_tools_proxy.domain.identity import OperatorRight, Principal
from tests.support.tables import each_row

NAMES = ClaimNames()
NOW = 1_800_000_000.0
LEEWAY = 10.0


def test_claims_give_tenant_user_roles_and_agents() -> None:
    claims = {"tenant_id": "acme", "sub": "u", "roles": ["r"], "agents": ["a", "b"], "other": 1}
    assert principal_of(claims, NAMES) == Principal(
        tenant_id="acme", user_id="u", roles=("r",), agents=frozenset({"a", "b"})
    )


def test_a_token_without_agents_allows_any_agent() -> None:
    assert principal_of({"tenant_id": "acme"}, NAMES).agents is None


@each_row(
    ("claim", "agents"),
    [("one", ["one"]), ("my agent", ["my agent"]), (["one", "two"], ["one", "two"]), ([], [])],
)
def test_the_agents_claim_is_a_list_or_a_single_name(claim: object, agents: list[str]) -> None:
    principal = principal_of({"tenant_id": "acme", "agents": claim}, NAMES)
    assert principal.agents == frozenset(agents)


def test_roles_can_be_a_space_separated_string() -> None:
    names = ClaimNames(roles="scope")
    assert principal_of({"tenant_id": "acme", "scope": "a b"}, names).roles == ("a", "b")


@each_row(
    ("name", "claims"),
    [
        ("org.tenant", {"org": {"tenant": "acme"}}),
        ("org.tenant", {"org.tenant": "acme", "org": {"tenant": "rival"}}),
        ("https://acme.example/tenant", {"https://acme.example/tenant": "acme"}),
    ],
)
def test_a_claim_name_can_be_a_path(name: str, claims: Mapping[str, object]) -> None:
    assert principal_of(claims, ClaimNames(tenant=name)).tenant_id == "acme"


def test_the_user_is_empty_if_no_user_claim_is_configured() -> None:
    claims = {"tenant_id": "acme", "sub": "machine"}
    assert principal_of(claims, ClaimNames(user=None)).user_id is None


@each_row(
    ("admin_role", "roles", "rights"),
    [
        ("ops", ["ops"], {OperatorRight.PRESETS}),
        ("ops", ["oops"], set()),
        (None, ["admin", "None", "presets"], set()),
    ],
)
def test_the_admin_role_allows_switching_presets(
    admin_role: str | None, roles: list[str], rights: set[OperatorRight]
) -> None:
    claims = {"tenant_id": "acme", "roles": roles}
    assert principal_of(claims, ClaimNames(admin_role=admin_role)).rights == rights


@each_row(
    ("claim", "rights"),
    [
        (["documents", "audit"], {OperatorRight.DOCUMENTS, OperatorRight.AUDIT}),
        ("documents presets", {OperatorRight.DOCUMENTS, OperatorRight.PRESETS}),
        (["billing", "documents", "Audit", "*"], {OperatorRight.DOCUMENTS}),
        (["documents audit"], set()),
        (["billing"], set()),
        ([], set()),
    ],
)
def test_the_operator_claim_grants_its_rights_and_unknown_words_are_ignored(
    claim: object, rights: set[OperatorRight]
) -> None:
    claims = {"tenant_id": "acme", "ops": claim}
    assert principal_of(claims, ClaimNames(operator="ops")).rights == rights
    assert principal_of(claims, NAMES).rights == set()


def test_rights_of_role_and_operator_claim_are_combined() -> None:
    claims = {"roles": ["ops"], "may": ["tokens"]}
    principal = principal_of(claims, ClaimNames(operator="may", admin_role="ops"))
    assert principal.rights == {OperatorRight.PRESETS, OperatorRight.TOKENS}


@each_row("right", OperatorRight)
def test_an_operators_token_does_not_need_a_tenant(right: OperatorRight) -> None:
    principal = principal_of({"may": [right.value]}, ClaimNames(operator="may"))
    assert principal == Principal(tenant_id=None, rights=frozenset({right}))


@each_row("claim", [{}, 7, None, [["documents"]]])
def test_an_operator_claim_of_the_wrong_type_is_refused(claim: object) -> None:
    with pytest.raises(InvalidClaims):
        principal_of({"tenant_id": "acme", "may": claim}, ClaimNames(operator="may"))


def test_a_token_with_only_unknown_rights_needs_a_tenant() -> None:
    with pytest.raises(InvalidClaims):
        principal_of({"may": ["billing"]}, ClaimNames(operator="may"))


@each_row(
    "claims",
    [
        {},
        {"tenant_id": None},
        {"tenant_id": ""},
        {"tenant_id": "a\nb"},
        {"tenant_id": "x" * 257},
        {"tenant_id": 5},
        {"tenant_id": ["acme"]},
        {"tenant_id": "acme", "sub": 5},
        {"tenant_id": "acme", "sub": ""},
        {"tenant_id": "acme", "roles": {}},
        {"tenant_id": "acme", "roles": [1]},
        {"tenant_id": "acme", "agents": None},
        {"tenant_id": "acme", "agents": [["a"]]},
        {"tenant_id": "acme", "agents": True},
    ],
)
def test_a_claim_of_the_wrong_type_is_refused(claims: Mapping[str, object]) -> None:
    with pytest.raises(InvalidClaims):
        principal_of(claims, NAMES)


@each_row(
    "claims",
    [
        {"exp": NOW + 1},
        {"exp": NOW - LEEWAY + 1},
        {"exp": NOW + 1.5, "nbf": NOW + LEEWAY, "iat": NOW + LEEWAY},
        {"exp": NOW + 1, "nbf": None},
    ],
)
def test_the_leeway_allows_for_clock_differences(claims: Mapping[str, object]) -> None:
    assert check_times(claims, NOW, LEEWAY) > NOW


@each_row(
    "claims",
    [
        {},
        {"exp": None},
        {"exp": NOW - LEEWAY},
        {"exp": 0},
        {"exp": "2030-01-01"},
        {"exp": True},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"exp": 10**400},
        {"exp": NOW + 1, "nbf": NOW + LEEWAY + 1},
        {"exp": NOW + 1, "iat": NOW + LEEWAY + 1},
        {"exp": NOW + 1, "nbf": "now"},
    ],
)
def test_a_token_outside_its_validity_period_is_refused(claims: Mapping[str, object]) -> None:
    with pytest.raises(InvalidClaims):
        check_times(claims, NOW, LEEWAY)
