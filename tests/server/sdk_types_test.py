"""The official clients' types against a real server: values that their enumerations have gained, fields of their requests, and answers
that must have all that they require. What the server does not do is listed here, so that a new version of a client shows what is new."""

import typing

import pytest
from anthropic import types as anthropic_types
from anthropic.types.beta import BetaThinkingConfigParam
from anthropic.types.beta.message_create_params import MessageCreateParamsBase as MessageFields
from ollama import _types as ollama_types
from openai.types import chat as openai_chat
from openai.types import responses as openai_responses
from openai.types.chat.completion_create_params import CompletionCreateParamsBase as ChatFields
from openai.types.completion_create_params import CompletionCreateParamsBase as CompletionFields
from openai.types.embedding_create_params import EmbeddingCreateParams as EmbeddingFields
from openai.types.responses.response_create_params import ResponseCreateParamsBase as ResponseFields
from openai.types.shared_params import ReasoningEffort

pytestmark = pytest.mark.any_model

HI = [{"role": "user", "content": "Hi"}]
BRIEF = {"max_tokens": 2, "max_thinking_tokens": 4}
ANTHROPIC = {"anthropic-version": "2023-06-01"}
CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "2048", "--threads", "2", "--pooling", "last")


def literals(annotation):
    """All values of the Literal types in an annotation."""
    if typing.get_origin(annotation) is typing.Literal:
        return list(typing.get_args(annotation))
    return [value for part in typing.get_args(annotation) for value in literals(part)]


def hints(fields):
    return typing.get_type_hints(fields, include_extras=True)


def types_in(union):
    """The values of the field "type" of the members of a union."""
    members = typing.get_args(union)
    return {value for one in members for value in literals(hints(one).get("type"))}


def refused(server, path, bodies, headers=None):
    """{value: message} of the bodies that get an error; there is one for each value."""
    answers = {value: server.status(path, body, headers=headers) for value, body in bodies.items()}
    return {value: answer for value, (status, answer) in answers.items() if status != 200}


def test_levels_of_thinking(server):
    levels = literals(ReasoningEffort)
    assert "max" in levels
    assert not refused(server, CHAT, {one: {"messages": HI, "reasoning_effort": one} | BRIEF for one in levels})
    assert not refused(server, RESPONSES, {one: {"input": "Hi", "max_output_tokens": 2, "max_thinking_tokens": 4, "reasoning": {"effort": one}}
                                           for one in levels})
    levels = literals(hints(anthropic_types.OutputConfigParam)["effort"])
    assert not refused(server, MESSAGES, {one: {"messages": HI, "output_config": {"effort": one}} | BRIEF for one in levels})
    ollama = ["low", "medium", "high", "max"]
    assert not refused(server, "/api/chat", {one: {"messages": HI, "stream": False, "think": one, "thinking_budget": 4,
                                                   "options": {"num_predict": 2}} for one in ollama})
    assert refused(server, CHAT, {"huge": {"messages": HI, "reasoning_effort": "huge"}})
    kinds = types_in(BetaThinkingConfigParam)
    assert not refused(server, MESSAGES, {one: {"messages": HI, "thinking": {"type": one, "budget_tokens": 4}} | BRIEF for one in kinds})


def test_hints_end_no_request(server):
    for fields, path, body in ((ChatFields, CHAT, {"messages": HI} | BRIEF),
                               (ResponseFields, RESPONSES, {"input": "Hi", "max_output_tokens": 2, "max_thinking_tokens": 4}),
                               (MessageFields, MESSAGES, {"messages": HI} | BRIEF)):
        for name in ("service_tier", "verbosity", "prompt_cache_retention", "truncation", "speed"):
            values = literals(hints(fields).get(name))
            assert not refused(server, path, {one: body | {name: one} for one in values}), (path, name)
    include = literals(hints(ResponseFields)["include"])
    assert not refused(server, RESPONSES, {one: {"input": "Hi", "max_output_tokens": 2, "max_thinking_tokens": 4, "include": [one]} for one in include})
    assert refused(server, CHAT, {3: {"messages": HI, "service_tier": 3}})


def test_fields_of_requests_are_known(server):
    """No field of the clients counts as unknown. All are null, so that their values do not matter."""
    def ignored(path, names, body=None):
        with server.open(path, {name: None for name in names} | (body or {})) as response:
            response.read()
            return response.getheader("X-Anabranch-Ignored-Fields")
    assert ignored(CHAT, ["no_such_field"], {"messages": HI} | BRIEF) == "no_such_field"
    assert ignored(CHAT, hints(ChatFields), {"messages": HI} | BRIEF) is None
    assert ignored("/v1/completions", hints(CompletionFields), {"prompt": "Hi", "max_tokens": 2}) is None
    assert ignored(RESPONSES, hints(ResponseFields), {"input": "Hi", "max_output_tokens": 2}) is None
    assert ignored("/v1/embeddings", hints(EmbeddingFields), {"input": "Hi"}) is None
    assert ignored(MESSAGES, hints(MessageFields), {"messages": HI} | BRIEF) is None
    for path, request in (("/api/chat", ollama_types.ChatRequest), ("/api/generate", ollama_types.GenerateRequest),
                          ("/api/embed", ollama_types.EmbedRequest), ("/api/embeddings", ollama_types.EmbeddingsRequest)):
        assert ignored(path, request.model_fields, {"options": {name: None for name in ollama_types.Options.model_fields}}) is None, path


def test_blocks_of_histories(server):
    """What another server has put into a conversation does not end it here."""
    def body(role, block):
        turns = {"user": [{"role": "user", "content": [block]}, {"role": "assistant", "content": "I see."}],
                 "assistant": [*HI, {"role": "assistant", "content": [{"type": "text", "text": "I see."}, block]}]}
        return {"messages": [*turns[role], {"role": "user", "content": "And now?"}]} | BRIEF
    own = {"text": {"text": "a"}, "thinking": {"thinking": "a", "signature": ""}, "tool_use": {"id": "t", "name": "f", "input": {}},
           "tool_result": {"tool_use_id": "t", "content": "a"}}
    for role in ("user", "assistant"):
        blocks = {one: body(role, {"type": one} | own.get(one, {})) for one in types_in(anthropic_types.ContentBlockParam)}
        assert len(blocks) > 10
        assert not refused(server, MESSAGES, blocks), role
    parts = {one: [{"role": "user", "content": [{"type": one} | ({"text": "a"} if one == "text" else {})]}, {"role": "assistant", "content": "I see."}, *HI]
             for one in types_in(openai_chat.ChatCompletionContentPartParam)}
    assert not refused(server, CHAT, {one: {"messages": messages} | BRIEF for one, messages in parts.items()})


def test_items_of_histories(server):
    needed = {"message": {"role": "assistant", "content": "a"}, "mcp_approval_response": None, "item_reference": None}
    kinds = {kind: needed.get(kind, {"call_id": "c", "id": "i", "name": "f", "arguments": "{}", "output": "o"})
             for kind in types_in(openai_responses.ResponseInputItemParam)}
    assert len(kinds) > 20
    bodies = {kind: {"max_output_tokens": 2, "max_thinking_tokens": 4,
                     "input": [*HI, {"type": kind} | fields, {"role": "assistant", "content": "I see."}, *HI]}
              for kind, fields in kinds.items() if fields}
    assert not refused(server, RESPONSES, bodies)


def test_answers_have_what_the_clients_require(server):
    """Validated as the clients themselves do not."""
    answer = server.ask(CHAT, {"messages": HI} | BRIEF)
    openai_chat.ChatCompletion.model_validate(answer)
    for event in server.events(CHAT, {"messages": HI, "stream_options": {"include_usage": True}} | BRIEF):
        openai_chat.ChatCompletionChunk.model_validate(event)
    answer = server.ask(RESPONSES, {"input": "Hi", "max_output_tokens": 2})
    openai_responses.Response.model_validate(answer)
    anthropic_types.Message.model_validate(server.ask(MESSAGES, {"model": "default", "messages": HI} | BRIEF))
    for model in (server.ask("/v1/models", headers=ANTHROPIC)["data"][0], server.ask("/v1/models/default", headers=ANTHROPIC)):
        anthropic_types.ModelInfo.model_validate(model)
        assert model["max_input_tokens"] == model["max_tokens"] == 2048, model


def test_stop_reasons_are_the_client_s(server):
    known = set(literals(anthropic_types.StopReason))
    more = {"ignore_eos": True, "break_loops": False}
    reasons = {server.ask(MESSAGES, {"max_tokens": most, "messages": HI} | more)["stop_reason"] for most in (0, 3, 32000)}
    assert reasons == {"max_tokens", "model_context_window_exceeded"} and reasons <= known
