import re

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_tools_proxy.config.variables import (
    PATTERN,
    BadVariable,
    check_variables,
    fill_in,
    plain_braces,
    unset_variables,
)
from tests.support.tables import each_row

ENVIRONMENT = {"TOKEN": "s3cret", "USER": "ann", "EMPTY": "", "NESTED": "${TOKEN}", "JSON": "{}"}


@each_row(
    ("text", "filled"),
    [
        ("plain", "plain"),
        ("${TOKEN}", "s3cret"),
        ("t=${TOKEN}-u=${USER}", "t=s3cret-u=ann"),
        ("${TOKEN}${TOKEN}", "s3crets3cret"),
        ("${EMPTY}", ""),
        ("${TOKEN:-other}", "s3cret"),
        ("${MISSING:-other}", "other"),
        ("${MISSING:-}", ""),
        ("${EMPTY:-other}", "other"),
        ("${MISSING:-a:-b $5}", "a:-b $5"),
        ("$${TOKEN}", "${TOKEN}"),
        ("$$${TOKEN}", "$${TOKEN}"),
        ("$${${USER}}", "${ann}"),
        ("$TOKEN and $ and $$", "$TOKEN and $ and $$"),
        ('{"a": "${USER}"}', '{"a": "ann"}'),
        ("{TOKEN}", "{TOKEN}"),
        ("two\nlines ${USER}", "two\nlines ann"),
    ],
)
def test_only_variables_are_replaced(text: str, filled: str) -> None:
    assert fill_in(text, ENVIRONMENT) == filled


def test_replaced_values_are_not_expanded_again() -> None:
    assert fill_in("${NESTED}", ENVIRONMENT) == "${TOKEN}"


def test_all_unset_variables_are_named_once() -> None:
    with pytest.raises(BadVariable) as caught:
        fill_in("${A} ${TOKEN} ${B} ${A}", ENVIRONMENT)
    assert "needs A, B from" in str(caught.value)


@each_row(
    "text",
    ["${", "${}", "${1A}", "${A B}", "${A-b}", "${A:b}", "${env:A}", "${A:-${B}}", "x ${A", "$ ${"],
)
def test_a_dollar_brace_without_a_variable_is_refused(text: str) -> None:
    with pytest.raises(BadVariable):
        fill_in(text, ENVIRONMENT)


def test_errors_do_not_contain_values() -> None:
    with pytest.raises(BadVariable) as caught:
        fill_in("s3cret ${MISSING} ${TOKEN}", ENVIRONMENT)
    assert "s3cret" not in str(caught.value)


def test_a_variable_with_a_default_can_be_unset() -> None:
    assert unset_variables("${A:-} ${B} ${EMPTY}", ENVIRONMENT) == ("B",)


def test_the_second_variable_syntax_of_broxy_is_reported() -> None:
    found = plain_braces("{TOKEN} {MISSING} ${USER} {TOKEN} {not a name} {id}", ENVIRONMENT)
    assert found == ("TOKEN", "MISSING")


@given(st.text("$${}:-A b\n"))
def test_the_published_pattern_accepts_well_formed_texts(text: str) -> None:
    try:
        check_variables(text)
        well_formed = True
    except BadVariable:
        well_formed = False
    validator = jsonschema_rs.validator_for({"pattern": PATTERN})
    assert validator.is_valid(text) is well_formed


@given(st.text(), st.dictionaries(st.from_regex(r"[A-Z_]{1,3}", fullmatch=True), st.text()))
def test_any_text_is_expanded_or_refused(text: str, environment: dict[str, str]) -> None:
    try:
        filled = fill_in(text, environment)
    except BadVariable:
        assert "${" in text
    else:
        assert filled == text or re.search(r"\$\{", text)
