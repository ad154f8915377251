"""The Responses API's tools shell and apply_patch, which run at the client, with OpenAI's client and its types."""

import openai
import pytest
from openai.types import responses as types
from pydantic import TypeAdapter

SHELL, PATCH = {"type": "shell", "environment": {"type": "local"}}, {"type": "apply_patch"}
ITEMS = {"shell": types.ResponseFunctionShellToolCall, "apply_patch": types.ResponseApplyPatchToolCall}
RESULTS = {"shell": {"output": [{"stdout": "a.py\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
           "apply_patch": {"status": "completed", "output": "Done"}}


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "4096", temp=None)  # each seed gives another answer


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=server.v1, api_key="x", max_retries=0, timeout=300)


def body(tool, **more):
    return {"model": "default", "input": "List the files.", "tools": [tool], "tool_choice": "required",
            "reasoning": {"effort": "none"}, "max_output_tokens": 300} | more


def answered(ask, kind):
    """What ask(seed) says and the call in it, with the first seed for which the small model ends its call in time."""
    for seed in range(8):
        told, items = ask(seed)
        if calls := [item for item in items if item["type"] == kind + "_call"]:
            return told, calls[0]
    raise AssertionError(f"no call of {kind}: {told}")


@pytest.mark.parametrize("tool", [SHELL, PATCH], ids=lambda tool: tool["type"])
def test_calls_have_the_client_s_types_and_go_round(server, client, tool):
    kind = tool["type"]

    def ask(seed):
        answer = server.ask("/v1/responses", body(tool, seed=seed))
        return answer, answer["output"]

    answer, call = answered(ask, kind)
    types.Response.model_validate(answer)
    ITEMS[kind].model_validate(call)
    result = {"type": kind + "_call_output", "call_id": call["call_id"]} | RESULTS[kind]
    brief = {"tool_choice": "auto", "temperature": 0, "max_output_tokens": 20}
    stored = client.responses.create(**body(tool, input=[result], previous_response_id=answer["id"], **brief))
    whole = client.responses.create(**body(tool, input=[{"role": "user", "content": "List the files."}, *answer["output"], result], **brief))
    assert stored.usage.input_tokens == whole.usage.input_tokens > answer["usage"]["input_tokens"]
    assert [item.type for item in stored.output] == [item.type for item in whole.output]


@pytest.mark.parametrize("tool", [SHELL, PATCH], ids=lambda tool: tool["type"])
def test_streams_have_the_client_s_events(server, tool):
    kind = tool["type"]

    def ask(seed):
        events = server.events("/v1/responses", body(tool, tool_choice={"type": kind}, seed=seed))
        return events, [event["item"] for event in events if event["type"] == "response.output_item.done"]

    events, call = answered(ask, kind)
    for event in events:
        TypeAdapter(types.ResponseStreamEvent).validate_python(event)
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert items == events[-1]["response"]["output"]
    told = [event["command"] for event in events if event["type"] == "response.shell_call_command.done"]
    assert told == (call["action"]["commands"] if kind == "shell" else [])


def test_shells_in_containers_are_left_out(server):
    answer = server.ask("/v1/responses", body({"type": "shell", "environment": {"type": "container_auto"}}, tool_choice="auto", max_output_tokens=4))
    assert answer["anabranch"]["left_out_tools"] == ["shell"]
