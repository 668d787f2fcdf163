"""Parsing of ${caller.…} and ${secret:PATH} in values."""

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_tools_proxy.config.variables import (
    BOUND_PATTERN,
    CALLER_PATTERN,
    BadVariable,
    has_caller_text,
    read_caller_parts,
    read_caller_text,
)
from mcp_tools_proxy.domain.caller_template import CallerPart, CallerTemplate, SecretPath
from tests.support.tables import each_row

ENVIRONMENT = {"HOST": "h", "HOSTILE": "${caller.tenant_id}${secret:a}", "secret": "variable"}
TENANT, USER = CallerPart.TENANT_ID, CallerPart.USER_ID


@each_row(
    ("text", "read"),
    [
        ("plain $ {x}", "plain $ {x}"),
        ("${HOST}", "h"),
        ("$${caller.tenant_id}", "${caller.tenant_id}"),
        ("${secret:-other}", "variable"),
        ("${secret}", "variable"),
        ("${HOSTILE}", "${caller.tenant_id}${secret:a}"),
        ("${caller.tenant_id}", CallerTemplate((TENANT,))),
        ("${HOST}/${caller.user_id}!", CallerTemplate(("h/", USER, "!"))),
        ("${HOSTILE}${caller.agent}", CallerTemplate((ENVIRONMENT["HOSTILE"], CallerPart.AGENT))),
        ("${caller.roles}", CallerTemplate((CallerPart.ROLES,))),
        ("$$${caller.roles}", "$${caller.roles}"),
        ("${secret:a}", CallerTemplate((SecretPath(("a",)),))),
        (
            "Bearer ${secret:a/x-${caller.tenant_id}.pem/${caller.user_id}}",
            CallerTemplate(("Bearer ", SecretPath(("a/x-", TENANT, ".pem/", USER)))),
        ),
        ("${secret:.a/.${caller.user_id}}", CallerTemplate((SecretPath((".a/.", USER)),))),
    ],
)
def test_caller_parts_and_secrets_are_parsed(text: str, read: str | CallerTemplate) -> None:
    assert read_caller_text(text, ENVIRONMENT) == read


@each_row(
    ("text", "message"),
    [
        ("${caller.email}", '"email", which is not a part of a caller; write one of'),
        ("${caller.}", "not a part of a caller"),
        ("${caller.tenant_id:-x}", "not a part of a caller"),
        ("${caller.tenant_id", "begins no variable"),
        ("${caller.Tenant_ID}", "${caller.tenant_id}, ${caller.user_id}, ${caller.agent}"),
        ("${MISSING}${caller.agent}${LOST}", "needs MISSING, LOST"),
        ("${secret:}", "empty segment"),
        ("${secret:/a}", "empty segment"),
        ("${secret:a//b}", "empty segment"),
        ("${secret:a/}", "empty segment"),
        ("${secret:../a}", "begins with .."),
        ("${secret:a/..}", "begins with .."),
        ("${secret:a/..${caller.tenant_id}}", "begins with .."),
        ("${secret:./a}", "one that is ."),
        ("${secret:a$b}", "with a $"),
        ("${secret:a\\b}", "with a $, a \\"),
        ("${secret:a\nb}", "control character"),
        ("${secret:${caller.email}}", "not a part of a caller"),
        ("${secret:${caller.tenant_id}${caller.user_id}}", "two parts of the caller in one"),
        ("${secret:${HOST}/a}", "begins no variable"),
        ("${secret:-a${caller.tenant_id}}", "begins no variable"),
        ("${HOST:-${caller.tenant_id}}", "begins no variable"),
    ],
)
def test_invalid_references_are_refused(text: str, message: str) -> None:
    with pytest.raises(BadVariable) as caught:
        read_caller_text(text, ENVIRONMENT)
    assert message in str(caught.value)


def test_secrets_are_refused_in_arguments() -> None:
    with pytest.raises(BadVariable, match="in args, cwd, env and headers"):
        read_caller_text("${secret:a}", ENVIRONMENT, secrets=False)
    assert read_caller_text("${secret:-a}", {}, secrets=False) == "a"


def test_without_an_environment_variables_are_kept() -> None:
    read = read_caller_text("$${a} ${B} ${caller.agent}", None)
    assert read == CallerTemplate(("$${a} ${B} ", CallerPart.AGENT))


def test_variables_in_a_folder_are_kept() -> None:
    assert read_caller_parts("/srv/${A}/$${caller.x}/${") == "/srv/${A}/$${caller.x}/${"
    read = read_caller_parts("/srv/${A}/${caller.tenant_id}")
    assert read == CallerTemplate(("/srv/${A}/", TENANT))


def test_caller_references_are_detected_even_if_malformed() -> None:
    assert has_caller_text("x${caller.y}")
    assert has_caller_text("${secret:/}")
    assert not has_caller_text("$${caller.y} ${secret:-x} ${caller} ${A}")


_PIECES = st.sampled_from(
    (
        *("$", "{", "}", "/", ".", "..", "-", "a", "A", ":", "${A}", "${A:-", "${secret:", "\\"),
        *("${caller.", "tenant_id", "roles}", "${caller.tenant_id}", "\n"),
        "${secret:a/${caller.user_id}}",
    )
)


@given(st.lists(_PIECES, max_size=9).map("".join))
@example("${secret:.}")
@example("${secret:-}")
def test_the_published_patterns_accept_well_formed_texts(text: str) -> None:
    for pattern, secrets in ((CALLER_PATTERN, True), (BOUND_PATTERN, False)):
        try:
            read_caller_text(text, None, secrets=secrets)
            well_formed = True
        except BadVariable:
            well_formed = False
        assert jsonschema_rs.validator_for({"pattern": pattern}).is_valid(text) is well_formed
