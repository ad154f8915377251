"""What an exchange says of the engine: refused requests, markup that was not read, calls that were lost, turns that were read again.

A turn continues an earlier one if its prompt begins with all that the earlier one sent: the same tools and instructions, and all
messages. Then 98 % of the earlier prompt and answer must come from the cache. A turn that differs from the last one before its
end was changed by the program, and `changed` says where."""

import json
import re

LEAST_CACHED = 0.98
MARKUP = re.compile(r"</?tool_call>|</?tools?>|<function=|</?parameter\b|</?think>|<\|/?[a-z_]+\|>|\[TOOL_CALLS\]")
CHANGES_EACH_TIME = re.compile(r"x-anthropic-billing-header[^\n]*")  # the server leaves it out (--keep-volatile)
SHOWN = 60  # characters of a difference


class Answer:
    """A whole answer, or the events of a stream, of one of the three APIs."""

    def __init__(self, exchange):
        self.text, self.calls, self.errors, self.whole = "", [], [], exchange["ended"]
        text = exchange["answer"]
        events = [json.loads(line[5:]) for line in re.findall(r"^data: ?(?:\{.*\})$", text, re.M)] if text.startswith(("data:", "event:", ":")) else [as_json(text)]
        for event in events:
            self.read(event)

    def read(self, event):
        if event.get("error"):
            self.errors.append(json.dumps(event["error"])[:300])
        for choice in event.get("choices", []):  # chat completions
            part = choice.get("delta") or choice.get("message") or {}
            self.text += part.get("content") or ""
            self.calls += [call["function"]["name"] for call in part.get("tool_calls") or [] if call.get("function", {}).get("name")]
        kind = event.get("type", "")
        for block in event.get("content") or [] if kind == "message" else []:  # Anthropic's
            self.block(block)
        if kind == "content_block_start":
            self.block(event["content_block"])
        if kind == "content_block_delta":
            self.text += event["delta"].get("text", "")
        response = event if event.get("object") == "response" else event.get("response", {})  # Responses
        if response.get("status") in ("completed", "incomplete", "failed"):
            for item in response["output"]:
                self.text += "".join(part.get("text", "") for part in item.get("content") or [] if item["type"] == "message")
                self.calls += [item["name"]] if item["type"].endswith("_call") and "name" in item else []
            if response.get("error"):
                self.errors.append(json.dumps(response["error"])[:300])

    def block(self, block):
        self.text += block.get("text", "")
        self.calls += [block["name"]] if block["type"] == "tool_use" else []


def as_json(text):
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def is_turn(exchange):
    path = exchange["path"].partition("?")[0]
    return exchange["method"] == "POST" and path in ("/v1/chat/completions", "/v1/messages", "/v1/responses")


def tool_names(request):
    tools = request.get("tools") or []
    return [name for name in (tool.get("name") or tool.get("function", {}).get("name") for tool in tools) if name]


def without_repeated_tools(text, request):
    """Without blocks in which the model repeats the descriptions of tools from its prompt: these are its words, and no calls."""
    names = tool_names(request)

    def is_repeated(block):
        return '"parameters"' in block[1] and '"arguments"' not in block[1] and any(f'"name": "{name}"' in block[1] for name in names)

    return re.sub(r"<tools>(.*?)(?:</tools>|\Z)", lambda block: "" if is_repeated(block) else block[0], text, flags=re.S)


def lost_call(text, request):
    """The name of an offered tool that the text calls as JSON."""
    for name in tool_names(request):
        if re.search(r'"name"\s*:\s*"%s"\s*,\s*"(arguments|parameters|input)"' % re.escape(name), text):
            return name
    return None


def plain(value):
    """Without what only tells the server where to cache, and a text alone as a text."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items() if key != "cache_control"}
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict) and value[0].get("type") == "text":
        return value[0].get("text")
    if isinstance(value, list):
        return [plain(part) for part in value]
    return value


def parts_of(request):
    """A request's prompt in its order, as texts."""
    told = request.get("messages") or request.get("input") or []
    told = told if isinstance(told, list) else [told]
    head = [request.get("tools"), request.get("system"), request.get("instructions")]
    return [CHANGES_EACH_TIME.sub("", json.dumps(plain(part), ensure_ascii=False)) for part in [*head, *told]]


def common(one, other):
    count = 0
    for a, b in zip(one, other):
        if a != b:
            break
        count += 1
    return count


def difference(old, new):
    """Where two lists of parts part: the old text and the new one from there."""
    at = common(old, new)
    names = ["tools", "system", "instructions"]
    name = names[at] if at < len(names) else f"message {at - len(names)}"
    a, b = (parts[at] if at < len(parts) else "" for parts in (old, new))
    char = common(a, b)
    return f"{name}, character {char}: {a[char:char + SHOWN]!r} became {b[char:char + SHOWN]!r}"


def judge(exchanges, counts):
    """Exchanges of one run, in order; counts: request id -> the row of the server's access log. -> (turns, findings)."""
    turns, findings = [], []
    for exchange in exchanges:
        if exchange["status"] is not None and exchange["status"] >= 400:
            findings.append({"kind": "refused", "path": exchange["path"], "about": f"{exchange['status']}: {exchange['answer'][:300]}"})
        if not is_turn(exchange) or exchange["status"] != 200:
            continue
        answer, request, row = Answer(exchange), exchange["request"], counts.get(exchange["id"], {})
        turn = {"prompt": row.get("prompt_tokens"), "cached": row.get("cached_tokens"), "answer": row.get("completion_tokens"),
                "seconds": row.get("seconds"), "calls": answer.calls, "whole": answer.whole, "parts": parts_of(request)}
        findings += [{"kind": "refused", "path": exchange["path"], "about": error} for error in answer.errors]
        text = without_repeated_tools(answer.text, request)
        turn["repeats_tools"] = text != answer.text
        if answer.whole and (found := MARKUP.search(text)):
            findings.append({"kind": "markup", "about": text[max(0, found.start() - SHOWN):found.end() + SHOWN]})
        if answer.whole and not answer.calls and (name := lost_call(text, request)):
            findings.append({"kind": "lost call", "about": f"{name}: {text[-300:]}"})
        findings += reading_again(turns, turn)
        turns.append(turn)
    for turn in turns:
        turn.pop("parts")
    return turns, findings


def reading_again(earlier, turn):
    """Compares with the earlier turn that this one shares the most with; marks the turn with `before` if it continues it."""
    known = [old for old in earlier if old["whole"] and old["prompt"]]
    if not known or turn["cached"] is None:
        return []
    last = max(known, key=lambda old: common(old["parts"], turn["parts"]))
    if common(last["parts"], turn["parts"]) < len(last["parts"]):
        turn["changed"] = difference(last["parts"], turn["parts"])
        return []
    turn["before"] = last["prompt"] + last["answer"]
    if turn["cached"] >= LEAST_CACHED * turn["before"]:
        return []
    return [{"kind": "read again", "about": f"{turn['cached']} of {turn['before']} tokens were in the cache, prompt {turn['prompt']}"}]
