"""What schemathesis runs with in schema_test.py: mended requests, and one more check of its answers."""

import json

import jsonschema_rs
import schemathesis

MOST = 3  # tokens of an answer


def shorten(body):
    """So that cases end soon, whatever they ask for."""
    for name in ("max_tokens", "max_completion_tokens", "max_thinking_tokens", "n"):
        value = body.get(name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if number and (value > MOST or value == -1) or value is None and name in ("max_tokens", "max_thinking_tokens"):
            body[name] = MOST
    if isinstance(body.get("keep_alive"), (int, float, str)):  # some unload the model, and so would every request from then on
        body["keep_alive"] = "5m"
    timeout = body.get("timeout")
    if isinstance(timeout, (int, float)) and not isinstance(timeout, bool) and 0.001 <= timeout < 60:  # 504 is a server error
        body["timeout"] = 60
    if isinstance(body.get("prompt"), list):
        del body["prompt"][MOST:]


def mend(body):
    """What the description allows and the server refuses, for reasons that a schema says badly: the loaded model's
    name, token ids of its vocabulary, fields that need each other, values that depend on the model."""
    if body.get("model"):
        body["model"] = "default"
    if isinstance(body.get("logit_bias"), dict):
        body["logit_bias"] = {str(i): bias for i, bias in enumerate(body["logit_bias"].values())}
    for name in ("prompt_token_ids", "stop_token_ids"):
        if body.get(name):
            body[name] = [token % 1000 for token in body[name]]
    if body.get("top_logprobs"):
        body["logprobs"] = True
    if body.get("min_tokens"):
        body["min_tokens"] = 0
    if body.get("stream_options"):
        body["stream"] = True
    if body.get("best_of"):
        body["best_of"] = body.get("n")
    if not body.get("tools") or isinstance(body.get("tool_choice"), dict):
        body.pop("tool_choice", None)
    for name in ("json_schema", "guided_json", "guided_choice", "guided_regex", "structured_outputs", "grammar", "chat_template_kwargs",
                 "speculation", "lora"):
        body.pop(name, None)
    for message in body.get("messages") or []:
        if message.get("role") != "assistant":
            message.setdefault("content", "")


@schemathesis.hook
def before_call(context, case, kwargs):
    if not isinstance(case.body, dict):
        return
    positive = case.meta is not None and case.meta.generation.mode == schemathesis.GenerationMode.POSITIVE
    if positive and len(json.dumps(case.body, default=str)) % 8:  # the rest stay as they are
        try:
            mend(case.body)
        except (AttributeError, TypeError):  # of a form that mend does not expect
            pass
    shorten(case.body)


@schemathesis.check
def stream_conformance(ctx, response, case):
    """Every event of OpenAI's streams is a chunk, with one end for each choice; then comes [DONE]."""
    chunk = {"/v1/chat/completions": "ChatChunk", "/v1/completions": "CompletionChunk",
             "/v1/generate": "GenerateChunk"}.get(case.operation.path)
    if not chunk or response.status_code != 200 or "text/event-stream" not in str(response.headers.get("content-type")):
        return
    lines = [line for line in response.content.decode().split("\n\n") if line and not line.startswith(":")]
    assert lines[-1] == "data: [DONE]", lines[-1]
    api = case.operation.schema.raw_schema
    validator = jsonschema_rs.validator_for({"$ref": f"#/components/schemas/{chunk}", "components": api["components"]})
    ends = {}
    for line in lines[:-1]:
        event = json.loads(line.removeprefix("data: "))
        validator.validate(event)
        for choice in event.get("choices", [event | {"index": 0}]):
            ends[choice["index"]] = ends.get(choice["index"], 0) + bool(choice["finish_reason"])
    assert ends and set(ends.values()) == {1}, ends
