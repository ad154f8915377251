"""What each API answers, whole and streamed, in a form that does not depend on how it was sent."""

import collections
import json

CHAT, MESSAGES, TEXT = "/v1/chat/completions", "/v1/messages", "/v1/completions"
RESPONSES, OLLAMA, LLAMA = "/v1/responses", "/api/chat", "/completion"


def events_of(data):
    """The JSON of each line; heartbeats may precede it."""
    lines = (line.strip().removeprefix("data: ") for line in data.decode().split("\n"))
    return [json.loads(line) for line in lines if line.startswith("{")]


def calls_of(calls):
    return [(call["function"]["name"], call["function"]["arguments"]) for call in calls or []]


def usage_of(usage):
    return usage["prompt_tokens"], usage["completion_tokens"], usage["completion_tokens_details"]["reasoning_tokens"]


def answer(json_answer):
    choices = []
    for choice in json_answer["choices"]:
        told = choice.get("message") or {"content": choice["text"]}
        choices.append({"content": told.get("content") or "", "reasoning": told.get("reasoning_content") or "",
                        "calls": calls_of(told.get("tool_calls")), "finish": choice["finish_reason"],
                        "logprobs": flat_logprobs(choice["logprobs"])})
    return {"choices": choices, "usage": usage_of(json_answer["usage"])}


def flat_logprobs(logprobs):
    """One entry a token."""
    if not logprobs:
        return []
    if "content" in logprobs:
        return logprobs["content"]
    return [list(entry) for entry in zip(*(logprobs[key] for key in ("tokens", "token_logprobs", "top_logprobs")))]


def answer_of_chunks(events):
    choices, usage = collections.defaultdict(
        lambda: {"content": "", "reasoning": "", "calls": [], "finish": None, "logprobs": []}), None
    for event in events:
        if "error" in event:
            return {"status": "in the stream", "error": event["error"]["message"]}
        usage = event.get("usage") or usage
        for part in event["choices"]:
            choice, delta = choices[part["index"]], part.get("delta") or {"content": part.get("text")}
            choice["content"] += delta.get("content") or ""
            choice["reasoning"] += delta.get("reasoning_content") or ""
            for call in delta.get("tool_calls", []):
                function = call["function"]
                if "name" in function:
                    choice["calls"].append((function["name"], ""))
                name, arguments = choice["calls"][call["index"]]
                choice["calls"][call["index"]] = (name, arguments + function["arguments"])
            choice["logprobs"] += flat_logprobs(part.get("logprobs"))
            choice["finish"] = part["finish_reason"] or choice["finish"]
    return {"choices": [choices[index] for index in sorted(choices)], "usage": usage_of(usage)}


def input_of(partial):
    """The input of a call; that of one that was cut off is marked as no JSON."""
    try:
        return json.loads(partial)
    except ValueError:
        return {"INVALID_JSON": partial}


def message(json_answer):
    usage = json_answer["usage"]
    blocks = [{key: value for key, value in block.items() if key != "id"} for block in json_answer["content"]]
    return {"blocks": blocks, "stop": (json_answer["stop_reason"], json_answer["stop_sequence"]),
            "usage": (usage["input_tokens"] + usage["cache_read_input_tokens"], usage["output_tokens"],
                      usage["output_tokens_details"]["thinking_tokens"])}


def message_of_events(events):
    whole, partial = {"content": []}, ""
    for event in events:
        kind = event["type"]
        if kind == "error":
            return {"status": "in the stream", "error": event["error"]["message"]}
        if kind == "content_block_start":
            whole["content"].append(event["content_block"])
            partial = ""
        elif kind == "content_block_delta":
            block, delta = whole["content"][-1], event["delta"]
            for key in ("text", "thinking"):
                if key in delta:
                    block[key] += delta[key]
            partial += delta.get("partial_json", "")
        elif kind == "content_block_stop" and partial:
            whole["content"][-1]["input"] = input_of(partial)
        elif kind == "message_delta":
            whole |= event["delta"]
            whole["usage"] = event["usage"]
    return message(whole)


def response(whole):
    output = [{key: value for key, value in item.items() if key not in ("id", "call_id", "encrypted_content")} for item in whole["output"]]
    usage = whole["usage"]
    return {"output": output, "status_of_it": (whole["status"], whole["incomplete_details"]),
            "usage": (usage["input_tokens"], usage["output_tokens"], usage["output_tokens_details"]["reasoning_tokens"])}


def response_of_events(events):
    if events[-1]["type"] == "error":
        return {"status": "in the stream", "error": events[-1]["message"]}
    told = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    whole = response(events[-1]["response"])
    texts = [part["text"] for item in whole["output"] if item["type"] == "message" for part in item["content"]]
    assert told == "".join(texts), (told, texts)
    return whole


def ollama_answer(whole):
    calls = [(call["function"]["name"], call["function"]["arguments"]) for call in whole["message"].get("tool_calls", [])]
    return {"content": whole["message"]["content"], "thinking": whole["message"].get("thinking", ""), "calls": calls,
            "finish": whole["done_reason"], "usage": (whole["prompt_eval_count"], whole["eval_count"])}


def ollama_of_objects(objects):
    if "error" in objects[-1]:
        return {"status": "in the stream", "error": objects[-1]["error"]}
    message = {"content": "", "thinking": "", "tool_calls": []}
    for part in objects:
        for key in message:
            message[key] += part["message"].get(key) or type(message[key])()
    return ollama_answer(objects[-1] | {"message": message})


def llama_answer(whole):
    return {"content": whole["content"], "stop": (whole["stop_type"], whole["stopping_word"]),
            "usage": (whole["tokens_evaluated"], whole["tokens_predicted"])}


def llama_of_events(events):
    if "error" in events[-1]:
        return {"status": "in the stream", "error": events[-1]["error"]["message"]}
    return llama_answer(events[-1] | {"content": "".join(event["content"] for event in events)})


SHAPES = {MESSAGES: (message, message_of_events), RESPONSES: (response, response_of_events),
         OLLAMA: (ollama_answer, ollama_of_objects), LLAMA: (llama_answer, llama_of_events)}


def shape_of(path, body, data):
    """Of the bytes that a request was answered with."""
    whole, streamed = SHAPES.get(path, (answer, answer_of_chunks))
    return streamed(events_of(data)) if body.get("stream") else whole(json.loads(data))
