import json

import mcp_types as t

from tests.support.mcp_servers.conformance import forms
from tests.support.mcp_servers.conformance.results import Answer, text_result
from tests.support.mcp_servers.conformance.rounds import Behaviour, Round, refuse, require

NAME = forms.form("What is your name?", forms.fields(name="string"))
CONFIRM = forms.form("Please confirm", forms.fields(ok="boolean"))
COLOUR = forms.form("Step 2: What is your favorite color?", forms.fields(color="string"))


def filled_in(key: str, message: str, schema: forms.Schema) -> Behaviour[t.CallToolResult]:
    async def behave(call: Round) -> Answer:
        answer = call.answers.get(key)
        if not isinstance(answer, t.ElicitResult):
            shown = str(call.arguments.get("message", message))
            return require({key: forms.form(shown, schema)})
        content = json.dumps(answer.content or {})
        return text_result(f"Elicitation completed: action={answer.action}, content={content}")

    return behave


def written(key: str, prompt: str) -> Behaviour[t.CallToolResult]:
    async def behave(call: Round) -> Answer:
        answer = call.answers.get(key)
        if not isinstance(answer, t.CreateMessageResult):
            return require({key: forms.text(str(call.arguments.get("prompt", prompt)))})
        content = answer.content
        return text_result(
            f"LLM response: {content.text if content.type == 'text' else content.type}"
        )

    return behave


async def greet(call: Round) -> Answer:
    content = call.content("user_name")
    return (
        require({"user_name": NAME})
        if content is None
        else text_result(f"Hello, {content['name']}!")
    )


async def count_roots(call: Round) -> Answer:
    answer = call.answers.get("client_roots")
    if not isinstance(answer, t.ListRootsResult):
        return require({"client_roots": forms.roots()})
    return text_result(f"Roots: {', '.join(str(root.uri) for root in answer.roots)}")


def confirmed(state: str) -> Behaviour[t.CallToolResult]:
    async def behave(call: Round) -> Answer:
        if call.content("confirm") is None or call.state != state:
            return require({"confirm": CONFIRM}, state)
        return text_result("state-ok")

    return behave


async def require_all(call: Round) -> Answer:
    questions: t.InputRequests = {
        "user_name": NAME,
        "greeting": forms.text("Generate a greeting", 50),
        "client_roots": forms.roots(),
    }
    if questions.keys() <= call.answers.keys():
        return text_result("All inputs received")
    return require(questions, "multiple-inputs")


async def require_twice(call: Round) -> Answer:
    name, colour = call.content("step1"), call.content("step2")
    if colour is not None and call.state:
        return text_result(f"{call.state} likes {colour['color']}")
    if name is not None and call.state == "round-1":
        return require({"step2": COLOUR}, str(name["name"]))
    first = forms.form("Step 1: What is your name?", forms.fields(name="string"))
    return require({"step1": first}, "round-1")


async def require_what_is_declared(call: Round) -> Answer:
    every: t.InputRequests = {
        "ask": NAME,
        "sample": forms.text("Say hello", 50),
        "roots": forms.roots(),
    }
    if call.answers:
        return text_result("answered")
    declared = {key: each for key, each in every.items() if call.declares(each.method)}
    return require(declared, "declared")


async def need_sampling(call: Round) -> Answer:
    if not call.declares("sampling/createMessage"):
        refuse("sampling/createMessage")
    return text_result("The client offers sampling")


async def fill_in_prompt(call: Round) -> t.GetPromptResult | t.InputRequiredResult:
    content = call.content("user_context")
    if content is None:
        schema = forms.fields(context="string")
        return require({"user_context": forms.form("What context should the prompt use?", schema)})
    message = t.TextContent(text=f"Use this context: {content['context']}")
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=message)])


USER = forms.fields(username="string", email="string")
SCHEMAS = {
    "test_sampling": {"prompt": {"type": "string", "description": "What to send to the model"}},
    "test_elicitation": {"message": {"type": "string", "description": "What to show the user"}},
}
"""Properties of tools with arguments; all are required."""

CURRENT_CALLER: dict[str, Behaviour[t.CallToolResult]] = {
    "test_sampling": written("text", ""),
    "test_elicitation": filled_in("user", "", USER),
    "test_elicitation_sep1034_defaults": filled_in("defaults", "Check these", forms.DEFAULTS),
    "test_elicitation_sep1330_enums": filled_in("enums", "Choose", forms.ENUMS),
    "test_streaming_elicitation": filled_in("user", "Who are you?", USER),
    "test_missing_capability": need_sampling,
    "test_input_required_result_elicitation": greet,
    "test_input_required_result_sampling": written(
        "capital_question", "What is the capital of France?"
    ),
    "test_input_required_result_list_roots": count_roots,
    "test_input_required_result_request_state": confirmed("a state"),
    "test_input_required_result_tampered_state": confirmed("a sealed state"),
    "test_input_required_result_multiple_inputs": require_all,
    "test_input_required_result_multi_round": require_twice,
    "test_input_required_result_capabilities": require_what_is_declared,
}
