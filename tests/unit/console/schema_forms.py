from collections.abc import Iterator

from mcp_tools_proxy.console.schema_forms.drafts import read_draft
from mcp_tools_proxy.console.schema_forms.form_builder import build_form
from mcp_tools_proxy.console.schema_forms.form_fields import FieldKind, FormField

Json = dict[str, object]


def sent(field: FormField) -> Iterator[tuple[str, str]]:
    """Yield the fields that a browser sends for an unmodified form."""
    if field.is_null:
        yield field.null_name, "1"
    yield from ((field.branch_name, it.text) for it in field.branches if it.is_chosen)
    if field.kind is FieldKind.CHOICE:
        yield field.name, next((it.text for it in field.options if it.is_chosen), "")
    else:
        yield field.name, field.text.replace("\n", "\r\n")
    for part in (*field.parts, *(() if field.others is None else (field.others,))):
        yield from sent(part)


def resent(schema: object, draft: object) -> object:
    """Return the draft parsed from the form of another draft."""
    return read_draft(sent(build_form(schema, draft)))


def all_fields(field: FormField) -> Iterator[FormField]:
    yield field
    for part in field.parts:
        yield from all_fields(part)


def by_label(form: FormField) -> dict[str, FormField]:
    return {it.label: it for it in all_fields(form)}
