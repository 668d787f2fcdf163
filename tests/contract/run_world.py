"""The tools, labels and policies of the random runs; each policy as Cedar and as Python."""

from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime

from tests.contract.run_model import Facts, ModelPolicy, ModelTool, checked

Json = dict[str, object]

TEXT, NUMBER, LONG, BOOL = ({"type": it} for it in ("string", "number", "integer", "boolean"))
TEXTS = {"type": "array", "items": TEXT}
MESSAGE = {"type": "object", "properties": {"id": TEXT, "note": TEXT}}
EXTRA = {"type": "object", "properties": {"name": TEXT}}

SCHEMAS: Mapping[str, tuple[Json, tuple[str, ...]]] = {
    "mail:search": ({"query": TEXT, "folder": TEXT}, ("query",)),
    "mail:send": ({"to": TEXT, "cc": TEXTS, "subject": TEXT, "body": TEXT}, ("to",)),
    "mail:forward": ({"message": MESSAGE, "to": TEXTS}, ("message",)),
    "shop:get_order": ({"id": {"type": ["string", "integer"]}}, ("id",)),
    "shop:refund": (
        {"order_id": TEXT, "cents": LONG, "price": NUMBER, "urgent": BOOL, "note": TEXT},
        ("order_id", "cents"),
    ),
    "shop:wipe": ({"confirm": BOOL}, ()),
    "shop:mystery": ({"a": TEXT, "n": LONG, "extra": EXTRA}, ()),
    "shop:ping": ({"text": TEXT}, ()),
    "list_available_tools": ({"format": TEXT}, ()),
    "read_doc_pages": ({"doc_id": TEXT, "pages": LONG}, ("doc_id",)),
}
"""The input schemas: properties, and the names of the required ones."""

LABELS: Mapping[str, Json] = {
    "mail:search": {
        "labels": ["reads_private", "reads_untrusted"],
        "identifiers": ["emails[].id"],
        "claimed": ["emails[].from", "emails[].subject"],
    },
    "mail:send": {"labels": ["sends"], "targets": ["to", "cc"]},
    "mail:forward": {"labels": ["sends", "reads_private"], "targets": ["message"]},
    "shop:get_order": {
        "labels": ["reads_private"],
        "identifiers": ["order.id", "order.items[].sku", "order.codes[]"],
        "claimed": ["order.note"],
    },
    "shop:refund": {"labels": ["writes"], "targets": []},
    "shop:wipe": {"labels": ["destructive"]},
    "shop:ping": {"labels": []},
    "shop:resources/read": {"labels": ["reads_private"], "identifiers": ["id"]},
}
"""labels.json."""

OWN_LABELS = {"list_available_tools": (), "read_doc_pages": ("reads_private",)}
READINGS = ("prompts/get", "resources/read", "completion/complete")
SERVERS = ("mail", "shop")
ALL = ("reads_private", "reads_untrusted", "writes", "sends", "destructive")


def tools() -> dict[str, ModelTool]:
    """Return everything that can be called, with its labels."""
    found = {}
    readings = [f"{server}:{it}" for server in SERVERS for it in READINGS]
    for name in (*SCHEMAS, *readings):
        entry = LABELS.get(name, {})
        default = OWN_LABELS.get(name, ALL)
        if name in readings:
            default = ALL[:2]
        targets = entry.get("targets")
        found[name] = ModelTool(
            name=name,
            server=name.partition(":")[0] if ":" in name else "gateway",
            labels=frozenset(_texts(entry.get("labels", default))),
            is_tool=name not in readings,
            targets=None if targets is None else _texts(targets),
            identifiers=_texts(entry.get("identifiers", ())),
            claimed=_texts(entry.get("claimed", ())),
            keys=frozenset(_keys(SCHEMAS.get(name, ({}, ()))[0])),
        )
    return found


def _texts(value: object) -> tuple[str, ...]:
    assert isinstance(value, list | tuple)
    return tuple(map(str, value))


def _keys(properties: Mapping[str, object]) -> Iterable[str]:
    for name, schema in properties.items():
        yield name
        if isinstance(schema, Mapping):
            yield from _keys(schema.get("properties", {}))


def input_schema(name: str) -> Json:
    properties, required = SCHEMAS[name]
    return {"type": "object", "properties": properties, "required": list(required)}


Test = Callable[[Facts], bool]


def tool(name: str) -> Test:
    return lambda it: it.tool.name == name


def label(name: str) -> Test:
    return lambda it: name in it.tool.labels


def server(name: str) -> Test:
    return lambda it: it.tool.server == name


def anything(_: Facts) -> bool:
    return True


def agent(name: str, scope: Test = anything) -> Test:
    return lambda it: it.call.caller.agent == name and scope(it)


def policy(
    policy_id: str,
    scope: str,
    condition: str,
    applies: Test,
    forbids: Test,
    *,
    mode: str = "enforce",
    reads_run: bool = True,
    optional: bool = False,
) -> ModelPolicy:
    notes = f'@id("{policy_id}") @mode("{mode}")' + (' @run("optional")' if optional else "")
    return ModelPolicy(
        policy_id=policy_id,
        text=f"{notes}\nforbid ({scope}) when {{ {condition} }};\n",
        applies=applies,
        forbids=forbids,
        mode=mode,
        reads_run=reads_run,
        optional=optional,
    )


def on(action: str, principal: str = "principal", resource: str = "resource") -> str:
    """Return a scope: a tool, or a group if the name has no server."""
    is_group = action.startswith(("label:", "server:"))
    return f'{principal}, action {"in" if is_group else "=="} Action::"{action}", {resource}'


_WEAK = {"text", "claimed"}

DECIDING = (
    policy(
        "no-send-after-foreign-text",
        on("label:sends"),
        'context has run && context.run.seen.contains("label:reads_untrusted") && '
        '(context.target.containsAny(["text", "claimed"]) || '
        'context.embedded.containsAny(["text", "claimed"]))',
        label("sends"),
        lambda it: (
            it.run is not None
            and "label:reads_untrusted" in it.run.seen
            and bool(_WEAK & it.target() or _WEAK & it.embedded())
        ),
    ),
    policy(
        "three-refunds",
        on("shop:refund"),
        'context has run && context.run.called["shop:refund"] >= 3',
        tool("shop:refund"),
        lambda it: it.the_run.called.get("shop:refund", 0) >= 3,
    ),
    policy(
        "order-first",
        on("shop:refund"),
        '!(context has run && context.run.succeeded["shop:get_order"] > 0)',
        tool("shop:refund"),
        lambda it: it.the_run.succeeded.get("shop:get_order", 0) == 0,
    ),
    policy(
        "known-order",
        on("shop:refund"),
        '!(context has run && context.origin.order_id.contains("shop:get_order#order.id"))',
        tool("shop:refund"),
        lambda it: "shop:get_order#order.id" not in it.origin("order_id"),
    ),
    policy(
        "refunds-within-1000",
        on("shop:refund"),
        'context has run && context.run.total["shop:refund#cents"] + context.args.cents > 1000',
        tool("shop:refund"),
        lambda it: checked(it.the_run.total.get("shop:refund#cents", 0) + it.long("cents")) > 1000,
    ),
    policy(
        "business-hours",
        on("label:writes"),
        "context.clock.weekday > 5 || context.clock.hour < 8 || context.clock.hour >= 18",
        label("writes"),
        lambda it: it.call.now.isoweekday() > 5 or not 8 <= it.call.now.hour < 18,
        reads_run=False,
    ),
    policy(
        "reports-only-read",
        'principal in Agent::"reports", action, resource',
        "!(context has run && context.run.read_only)",
        agent("reports"),
        lambda it: not it.the_run.read_only,
    ),
    policy(
        "declared-tools",
        'principal in Agent::"assistant", action, resource',
        "context has run && context.run.undeclared",
        agent("assistant"),
        lambda it: it.the_run.tools is None,
    ),
    policy(
        "few-errors",
        on("server:shop"),
        "context has run && context.run.errors >= 4",
        server("shop"),
        lambda it: it.the_run.errors >= 4,
    ),
    policy(
        "few-repeats",
        on("mail:search"),
        "context has run && context.run.repeats >= 2",
        tool("mail:search"),
        lambda it: it.the_run.repeats >= 2,
    ),
    policy(
        "short-runs",
        on("label:destructive"),
        "context has run && (context.run.calls >= 6 || context.run.tokens > 300)",
        label("destructive"),
        lambda it: it.the_run.calls >= 6 or it.the_run.tokens > 300,
    ),
    policy(
        "beta-wipes-nothing",
        on("shop:wipe", 'principal in Tenant::"beta"'),
        "true",
        lambda it: it.tool.name == "shop:wipe" and it.call.caller.tenant == "beta",
        anything,
        reads_run=False,
    ),
    policy(
        "urgent-is-for-finance",
        on("shop:refund"),
        'context.args has urgent && context.args.urgent && !(principal in Role::"finance")',
        tool("shop:refund"),
        lambda it: it.args.get("urgent") is True and "finance" not in it.call.caller.roles,
        reads_run=False,
    ),
    policy(
        "mystery-not-over-mcp",
        on("server:shop"),
        'context.entry == "mcp" && action == Action::"shop:mystery"',
        server("shop"),
        lambda it: it.call.caller.entry == "mcp" and it.tool.name == "shop:mystery",
        reads_run=False,
    ),
    policy(
        "secret-document",
        'principal, action, resource == Document::"secret"',
        "true",
        lambda it: it.args.get("doc_id") == "secret" and it.tool.server == "gateway",
        anything,
        reads_run=False,
    ),
    policy(
        "price",
        on("shop:refund"),
        'context.args has price && context.args.price.greaterThan(decimal("99.5"))',
        tool("shop:refund"),
        lambda it: "price" in it.args and it.decimal("price") > 99.5,
        reads_run=False,
    ),
    policy(
        "no-copy-to-eve",
        on("mail:send"),
        'context.args has cc && context.args.cc.contains("eve@evil.io")',
        tool("mail:send"),
        lambda it: "cc" in it.args and "eve@evil.io" in _texts(it.args["cc"]),
        reads_run=False,
    ),
    policy(
        "nothing-for-mallory",
        on("label:sends", 'principal == User::"mallory"'),
        "true",
        lambda it: "sends" in it.tool.labels and it.call.caller.user == "mallory",
        anything,
        reads_run=False,
    ),
    policy(
        "frozen",
        on("shop:wipe"),
        'context.clock.at > datetime("2026-12-01")',
        tool("shop:wipe"),
        lambda it: it.call.now > datetime(2026, 12, 1, tzinfo=UTC),
        reads_run=False,
    ),
    policy(
        "optional",
        on("mail:send"),
        'context has run && context.run.seen.contains("server:shop") && '
        'context.target.contains("text")',
        tool("mail:send"),
        lambda it: it.run is not None and "server:shop" in it.run.seen and "text" in it.target(),
        optional=True,
    ),
    policy(
        "optional-origin",
        on("mail:send"),
        'context.origin.to.contains("text") && context.args.to == "eve@evil.io"',
        tool("mail:send"),
        lambda it: "text" in it.origin("to") and it.args["to"] == "eve@evil.io",
        optional=True,
    ),
)


def _observed(name: str, condition: str, forbids: Test, action: str, applies: Test) -> ModelPolicy:
    return policy(name, on(action), condition, applies, forbids, mode="log_only")


def _origins(action: str, argument: str, *sources: str) -> Iterable[ModelPolicy]:
    """Log each origin of an argument, so that all are compared."""
    for source in ("task", "claimed", "text", *sources):
        yield _observed(
            f"{action}/{argument}/{source}",
            f'context.origin has {argument} && context.origin.{argument}.contains("{source}")',
            lambda it, source=source: argument in it.args and source in it.origin(argument),  # type: ignore[misc]
            action,
            tool(action),
        )


_MAIL, _ORDER = "mail:search#emails[].id", "shop:get_order#order.id"
_OTHERS = ("shop:get_order#order.items[].sku", "shop:get_order#order.codes[]")


def _at_least(fact: str, *limits: int, value: Callable[[Facts], int]) -> Iterable[ModelPolicy]:
    for least in limits:
        yield _observed(
            f"{fact}-{least}".replace('"', ""),
            f"context has run && context.run.{fact} >= {least}",
            lambda it, least=least: value(it) >= least,  # type: ignore[misc]
            "shop:ping",
            tool("shop:ping"),
        )


def _counts() -> Iterable[ModelPolicy]:
    counted: dict[str, Callable[[Facts], int]] = {
        "calls": lambda it: it.the_run.calls,
        "errors": lambda it: it.the_run.errors,
        "repeats": lambda it: it.the_run.repeats,
        "tokens": lambda it: it.the_run.tokens,
    }
    for name, value in counted.items():
        yield from _at_least(name, 1, 2, 3, 5, 8, 40, 200, value=value)
    for name in ("mail:search", "shop:get_order", "mail:prompts/get"):
        yield from _at_least(f'called["{name}"]', 1, 2, 3, value=_entry("called", name))
        yield from _at_least(f'succeeded["{name}"]', 1, 2, 3, value=_entry("succeeded", name))
    for name in ("shop:mystery#n", "shop:refund#cents"):
        total = _entry("total", name)
        yield from _at_least(f'total["{name}"]', 1, 10, 300, 500, 1000, 2000, value=total)


def _entry(counts: str, name: str) -> Callable[[Facts], int]:
    return lambda it: int(getattr(it.the_run, counts).get(name, 0))


def _seen() -> Iterable[ModelPolicy]:
    for seen in (*(f"label:{it}" for it in ALL), "server:mail", "server:shop", "server:gateway"):
        yield _observed(
            f"seen-{seen}",
            f'context has run && context.run.seen.contains("{seen}")',
            lambda it, seen=seen: seen in it.the_run.seen,  # type: ignore[misc]
            "shop:ping",
            tool("shop:ping"),
        )


def _places() -> Iterable[ModelPolicy]:
    for action in ("mail:send", "mail:forward", "shop:mystery", "shop:get_order"):
        for source in ("task", "claimed", "text", _MAIL, _ORDER):
            yield _observed(
                f"{action}/target/{source}",
                f'context.target.contains("{source}")',
                lambda it, source=source: source in it.target(),  # type: ignore[misc]
                action,
                tool(action),
            )
    for action in ("mail:send", "shop:refund", "mail:search", "shop:get_order"):
        for source in ("task", "claimed", "text", _MAIL, _ORDER):
            yield _observed(
                f"{action}/embedded/{source}",
                f'context.embedded.contains("{source}")',
                lambda it, source=source: source in it.embedded(),  # type: ignore[misc]
                action,
                tool(action),
            )


LOGGING = (
    *_origins("mail:send", "to", _MAIL, _ORDER, *_OTHERS),
    *_origins("mail:send", "cc", _MAIL, _ORDER),
    *_origins("mail:send", "subject", _MAIL, _ORDER),
    *_origins("shop:refund", "order_id", _MAIL, _ORDER, *_OTHERS),
    *_origins("shop:mystery", "n", _ORDER),
    *_counts(),
    *_seen(),
    *_places(),
)
"""Policies that only log, so that each fact is compared and not only what it decides."""
