"""Requests with the fields that sloppy programs send, on every API: each is answered, because the same one comes again at every turn
of a conversation."""

import pytest

from odd_histories_test import LONG, PICTURE, TOOLS, call, said, system, text, user

pytestmark = pytest.mark.any_model


@pytest.fixture(scope="module")
def server(serve_for_all):
    return serve_for_all("--context", "8192", "--threads", "2", "--thinking", "off", "--cache-ram", "64MB", "--cache-disk", "0")


def answered(server, path, common, cases):
    refused = {}
    for what, body in cases.items():
        status, answer = server.status(path, common | body, headers={"anthropic-version": "2023-06-01"})
        if status != 200:
            refused[what] = (status, answer)
    assert not refused


def nulls(*names):
    return dict.fromkeys(names)


# --- chat completions ---

def of(schema, **more):
    """A tool with these parameters."""
    return {"tools": [{"type": "function", "function": {"name": "look", "parameters": schema} | more}]}


def properties(**schemas):
    return {"type": "object", "properties": schemas}


def strict(schema):
    return of(schema, strict=True) | {"tool_choice": "required", "max_tokens": 40}


def closed(**schemas):
    return properties(**schemas) | {"required": list(schemas), "additionalProperties": False}


def answer_of(schema):
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": True, "schema": schema}}, "max_tokens": 40}


FORMATS = ("date-time date time email uri uuid ipv4 ipv6 hostname binary byte password int64 duration regex json-pointer idn-email uri-template cuid "
           "emoji base64url jwt").split()
NODE = closed(v={"type": "integer"}, next={"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]})
CHAT = {
    "tools: none": {"tools": []}, "tools: null": {"tools": None}, "tools: none, auto": {"tools": [], "tool_choice": "auto"},
    "tools: none, none": {"tools": [], "tool_choice": "none"}, "none without tools": {"tool_choice": "none"},
    **{f"choice {choice}": {"tools": TOOLS, "tool_choice": choice} for choice in (None, "any")},
    **{f"choice {kind}": {"tools": TOOLS, "tool_choice": {"type": kind}} for kind in ("auto", "any", "none", "required")},
    "choice of Anthropic": {"tools": TOOLS, "tool_choice": {"type": "tool", "name": "look"}},
    "choice, flat": {"tools": TOOLS, "tool_choice": {"type": "function", "name": "look"}},
    "choice without type": {"tools": TOOLS, "tool_choice": {"function": {"name": "look"}}},
    "parallel: null": {"tools": TOOLS, "parallel_tool_calls": None},
    "a flat tool": {"tools": [{"type": "function", "name": "look", "parameters": properties()}]},
    "a tool of Anthropic": {"tools": [{"name": "look", "input_schema": properties()}]},
    "a tool without type": {"tools": [{"function": {"name": "look", "parameters": {}}}]},
    "a tool without parameters": {"tools": [{"type": "function", "function": {"name": "look"}}]},
    "a tool of nulls": of(None, description=None, strict=None), "parameters: true": of(True),
    "no type": of({"properties": {"a": {}}}), "type: null": of({"type": None}),
    "properties: null": of({"type": "object", "properties": None, "required": None}), "two tools of one name": {"tools": TOOLS * 2},
    "an odd name": {"tools": [{"type": "function", "function": {"name": "mcp__a.b/c:d e"}}]},
    "a long name": {"tools": [{"type": "function", "function": {"name": "n" * 200}}]},
    "unions, strict": strict(closed(a={"anyOf": [{"type": "string"}, {"type": "null"}]}, b={"type": ["string", "number", "null"]},
                                    c={"enum": ["a", 1, None, True, 1.5]})),
    "recursion, strict": strict(closed(node={"$ref": "#/$defs/n"}) | {"$defs": {"n": NODE}}),
    "recursion of the root, strict": strict(closed(kids={"type": "array", "items": {"$ref": "#"}})),
    "a wrong pattern": of(properties(a={"type": "string", "pattern": "(?<=x)y("})), "a lost reference": of(properties(a={"$ref": "#/definitions/Lost"})),
    "definitions": of(properties(a={"$ref": "#/definitions/A"}) | {"definitions": {"A": {"type": "string"}}}),
    "nullable": strict(properties(a={"type": "string", "nullable": True})),
    "allOf": strict({"allOf": [properties(a={"type": "string"}), {"required": ["a"]}]}), "not": of(properties(a={"not": {"type": "null"}})),
    "if": of(properties(a={"type": "string"}) | {"if": {"properties": {"a": {"const": "x"}}}, "then": {"required": ["b"]}}),
    "patternProperties": of({"type": "object", "patternProperties": {"^x-": {"type": "string"}}, "additionalProperties": False}),
    "types of Gemini": of({"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}),
    "unknown types": of(properties(a={"type": "any"}, b={"type": "str"}, c={"type": "file"})),
    "enum: none": of(properties(a={"type": "string", "enum": []})), "enum: null": of(properties(a={"type": "string", "enum": None})),
    "enum of another type": of(properties(a={"type": "string", "enum": [1, 2, "x"]})),
    "a bound as a text": of(properties(a={"type": "integer", "minimum": "1", "maxLength": None})),
    "draft 4's bounds": strict(properties(a={"type": "integer", "minimum": 1, "exclusiveMinimum": True})),
    "a list of items": of(properties(a={"type": "array", "items": [{"type": "string"}, {"type": "integer"}]})),
    "an array of anything": strict(properties(a={"type": "array"})),
    "an unknown one is required": of(properties(a={"type": "string"}) | {"required": ["zz"]}),
    "notes": strict({"$schema": "http://json-schema.org/draft-07/schema#", "$id": "x", "title": "T"} | properties(
        a={"type": "string", "default": "q", "examples": ["z"], "deprecated": True, "x-foo": 1, "format": "made-up"})),
    "formats": strict(properties(**{f"f{i}": {"type": "string", "format": name} for i, name in enumerate(FORMATS)})),
    "oneOf with tags": answer_of({"oneOf": [closed(k={"const": "a"}, x={"type": "integer"}), closed(k={"const": "b"}, y={"type": "boolean"})],
                                  "discriminator": {"propertyName": "k"}}),
    "an enum of all types": answer_of({"enum": ["a", 1, None, True, {"b": [1]}, [2]]}), "const: null": answer_of({"const": None}),
    "any JSON": answer_of({}), "propertyNames": answer_of({"type": "object", "propertyNames": {"pattern": "^[a-c]$"}, "additionalProperties": {
        "type": "integer"}}), "prefixItems": answer_of({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}], "items": False}),
    "mutual recursion": answer_of({"$ref": "#/$defs/a", "$defs": {"a": closed(b={"$ref": "#/$defs/b"}), "b": {"anyOf": [{"type": "null"}, {
        "$ref": "#/$defs/a"}]}}}), "an escaped reference": answer_of({"$defs": {"a/b~c": {"type": "integer"}}} | closed(a={"$ref": "#/$defs/a~1b~0c"})),
    "format: text": {"response_format": {"type": "text"}}, "stop: none": {"stop": []}, "functions: none": {"functions": []},
    "nulls": nulls("temperature", "top_p", "n", "seed", "logit_bias", "user", "metadata", "store", "stream", "stream_options", "functions", "stop",
                   "function_call", "reasoning_effort", "reasoning", "thinking", "chat_template_kwargs", "response_format", "prediction", "audio"),
    "unknown fields": {"service_tier": "auto", "safety_identifier": "x", "verbosity": "low", "prompt_cache_retention": "24h", "modalities": ["text"]},
}


def test_chat_completions(server):
    answered(server, "/v1/chat/completions", {"messages": [user("Hello")], "max_tokens": 2}, CHAT)


# --- Anthropic's messages ---

def use(id, input=None, name="look"):
    return {"type": "tool_use", "id": id, "name": name, "input": input}


def told(id, content="RESONE", **more):
    return {"type": "tool_result", "tool_use_id": id, "content": content} | more


def turns(*messages, **more):
    return {"messages": list(messages)} | more


def after_call(*blocks, uses=(use("a", {"key": "x"}),)):
    return turns(user("a"), said(list(uses)), user(list(blocks)))


def answer_before(*blocks):
    return turns(user("a"), said(list(blocks)), user("b"))


TWO_USES = (use("a", {}), use("b", {}))
LOOK = {"name": "look", "input_schema": properties(key={"type": "string"})}
DATA = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE["image_url"]["url"].split(",")[1]}}
SEARCH = ({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}}, {"type": "web_search_tool_result", "tool_use_id": "s", "content": []})
MESSAGES = {
    **{f"system: {value!r}": turns(user("a"), system=value) for value in ("", [], None, text(""))},
    "tools: none": turns(user("a"), tools=[]), "tools: null": turns(user("a"), tools=None, tool_choice=None),
    **{f"{kind} without tools": turns(user("a"), tool_choice={"type": kind}) for kind in ("none", "auto")},
    "a result without a call": turns(user([told("a")])), "a text before the result": after_call(*text("USERTWO"), told("a")),
    "results in another order": after_call(told("b"), told("a"), uses=TWO_USES), "one id twice": after_call(told("a"), told("a"), uses=(use("a", {}),) * 2),
    "a missing result": after_call(told("a"), uses=TWO_USES), "no result": after_call(*text("USERTWO")), "a result of null": after_call(told("a", None)),
    "a result without content": after_call({"type": "tool_result", "tool_use_id": "a"}), "an empty result": after_call(told("a", [])),
    "a picture as a result": after_call(told("a", [DATA, *text("RESONE")])), "a picture beside a result": after_call(told("a"), DATA),
    "an error": after_call(told("a", "boom", is_error=True)), "a reference": after_call(told("a", [{"type": "tool_reference", "tool_name": "x"}])),
    **{f"input: {value!r}": after_call(told("a"), uses=(use("a", value),)) for value in ('{"key": "x"}', None, [1])},
    "a long id": after_call(told(LONG), uses=(use(LONG, {}),)), "an odd id": after_call(told('a b"c.é'), uses=(use('a b"c.é', {}),)),
    **{f"an answer: {value!r}": turns(user("a"), said(value), user("b")) for value in ("", [], None)}, "an answer of an empty text": answer_before(*text("")),
    "an answer first": turns(said("x"), user("b")), "an empty user": turns(user(""), said("x"), user("b")), "a user without blocks": turns(user([]), said("x"), user("b")),
    "a thought without signature": answer_before({"type": "thinking", "thinking": "hm"}, *text("x")),
    "another server's thought": answer_before({"type": "thinking", "thinking": "hm", "signature": "EqQBCkgIARABGAIiQ"}, *text("x")),
    "a sealed thought": answer_before({"type": "redacted_thinking", "data": "EmwKAhgBEgy3"}), "a server's tool": answer_before(*SEARCH, *text("x")),
    "thinking: disabled": turns(user("a"), thinking={"type": "disabled"}), "thinking: adaptive": turns(user("a"), thinking={"type": "adaptive"}),
    "nulls": turns(user("a"), **nulls("metadata", "stop_sequences", "temperature", "top_k", "service_tier", "container", "context_management", "thinking")),
    "where to cache": turns(user([text("a")[0] | {"cache_control": {"type": "ephemeral", "ttl": "1h"}, "citations": None}]), cache_control={"type": "ephemeral"}),
    "a late system": turns(user("a"), said("b"), system("SYSLATE"), user("c")), "a developer": turns(system("d", "developer"), user("c")),
    "a strict tool": turns(user("a"), tools=[LOOK | {"strict": True}]), "a custom tool": turns(user("a"), tools=[LOOK | {"type": "custom"}]),
    "an empty schema": turns(user("a"), tools=[{"name": "look", "input_schema": {}}]), "a space at the end": turns(user("a"), said("So: ")),
    "a document": turns(user([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "DOC"}}, *text("q")])),
}


def test_messages(server):
    answered(server, "/v1/messages", {"max_tokens": 2}, MESSAGES)


# --- Responses ---

def function(id, arguments='{"key": "x"}', **more):
    return {"type": "function_call", "call_id": id, "name": "look", "arguments": arguments} | more


def output(id, value="RESONE", **more):
    return {"type": "function_call_output", "call_id": id, "output": value} | more


def items(*all, **more):
    return {"input": list(all)} | more


def around(*all):
    return items(user("a"), *all, user("c"))


def thought(**more):
    return {"type": "reasoning", "id": "rs_1", "summary": []} | more


def shell_call():
    return {"type": "local_shell_call", "call_id": "c", "status": "completed", "action": {"type": "exec", "command": ["ls"], "env": {}}}


FLAT = [{"type": "function"} | TOOLS[0]["function"]]
BUILT_IN = [{"type": "web_search"}, {"type": "image_generation"}, {"type": "code_interpreter", "container": {"type": "auto"}}, {"type": "local_shell"},
            {"type": "file_search", "vector_store_ids": []}]
RESPONSES = {
    "instructions: null": items(user("a"), instructions=None), "instructions: empty": items(user("a"), instructions=""), "empty": {"input": ""},
    "a late developer": items(user("a"), said("b"), system("DEV", "developer"), user("c")), "only a system": items(system("x")),
    "a call without output": around(function("c")), "an output without a call": items(output("c")),
    "outputs in another order": around(function("c"), function("d"), output("d"), output("c")), "one id twice": around(*[function("c")] * 2, *[output("c")] * 2),
    "an output of parts": around(function("c"), output("c", [{"type": "input_text", "text": "RES"}, {"type": "input_image", "image_url": "data:,"}])),
    **{f"output: {value!r}": around(function("c"), output("c", value)) for value in ([], None, {"a": 1})},
    **{f"arguments: {value!r}": around(function("c", value), output("c")) for value in ({"key": 1}, "", None)},
    "nulls in items": around(function("c", status=None) | {"id": None}, output("c", status=None) | {"id": None}), "a long id": around(function(LONG), output(LONG)),
    "an answer of null": around(said(None)), "an answer without parts": around(said([])), "an empty thought": around(thought(), said("b")),
    "another server's thought": around(thought(encrypted_content="gAAAAABforeign"), said("b")), "a thought of nulls": around(thought(content=None), function("c"), output("c")),
    "a thought as text": around(thought(content=[{"type": "reasoning_text", "text": "t"}]), function("c"), output("c")), "a refusal": around(said([{"type": "refusal", "refusal": "no"}])),
    "a shell's call": around(shell_call(), {"type": "local_shell_call_output", "call_id": "c", "output": "x"}), "a shell's call, other output": around(shell_call(), output("c")),
    "a custom call": around({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "x"}, {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"}),
    "a search": around({"type": "web_search_call", "id": "w", "status": "completed", "action": {"type": "search", "query": "q"}}, said("b")),
    **{kind: around({"type": kind, "encrypted_content": "abc"}) for kind in ("compaction", "context_compaction", "ghost_snapshot", "brand_new_item")},
    "MCP": around({"type": "mcp_list_tools", "id": "m", "server_label": "x", "tools": []}, {"type": "mcp_call", "id": "n", "server_label": "x", "name": "n", "arguments": "{}", "output": "o"}),
    **{f"choice {choice}": items(user("a"), tools=FLAT, tool_choice=choice) for choice in (
        "any", {"type": "auto"}, {"type": "none"}, {"type": "function", "name": "look"}, {"type": "function", "function": {"name": "look"}})},
    "a tool of chats": items(user("a"), tools=TOOLS), "tools: null": items(user("a"), tools=None, tool_choice=None), "none without tools": items(user("a"), tool_choice="none"),
    "tools that others run": items(user("a"), tools=BUILT_IN), "a name": items(user("a", name="x")),
    "nulls": items(user("a"), **nulls("text", "reasoning", "include", "metadata", "user", "previous_response_id", "prompt", "background", "max_tool_calls", "conversation")),
    "a format": items(user("a"), text={"format": {"type": "text"}, "verbosity": "medium"}), "include": items(user("a"), include=["reasoning.encrypted_content", "web_search_call.action.sources"]),
}


def test_responses(server):
    answered(server, "/v1/responses", {"max_output_tokens": 2}, RESPONSES)


# --- Ollama, and llama-server ---

def ollama_call(arguments, **more):
    return said("", {"function": {"name": "look", "arguments": arguments}} | more)


def tool(content="r", **more):
    return {"role": "tool", "content": content} | more


OLLAMA = {
    "no content": turns({"role": "user"}), "content: null": turns(user("a"), said(None), user(None)), "messages: none": turns(), "messages: null": {"messages": None},
    "arguments as a text": turns(user("a"), ollama_call('{"key": "x"}'), tool()), "arguments: null": turns(user("a"), ollama_call(None), tool(""), user("x")),
    "a result's name": turns(user("a"), ollama_call({"key": "x"}), tool(tool_name="look")), "ids": turns(user("a"), ollama_call({}, id="c"), tool(tool_call_id="c")),
    "a lone result": turns(tool(), user("b")), "images: none": turns(user("a", images=[])), "images: null": turns(user("a", images=None)), "think": turns(user("a"), think="low"),
    "a thought": turns(user("a"), said("b", thinking="t"), user("c")), "tools: none": turns(user("a"), tools=[]), "an old role": turns(tool() | {"role": "function"}, user("c")),
    "nulls": turns(user("a"), **nulls("tools", "format", "options", "keep_alive", "think")), "format: empty": turns(user("a"), format=""),
    "a schema": turns(user("a"), format={"type": "object", "properties": {"a": {"enum": ["x", 1, None]}}, "required": ["a"]}), "a late system": turns(user("a"), said("b"), system("S"), user("c")),
    "keep_alive": turns(user("a"), keep_alive=300.5), "a tool of nulls": turns(user("a"), **of(properties(k={"type": ["string", "null"], "enum": None}) | nulls("required", "$defs", "items"))),
}
OPTIONS = {"num_predict": 2, "stop": [], "num_gpu": 99, "mirostat": 0, "penalize_newline": True, "num_keep": 4, "use_mmap": True, "numa": False, "low_vram": False}
GENERATE = {"no prompt": {}, "an empty prompt": {"prompt": ""}, "nulls": {"prompt": "a"} | nulls("context", "images", "suffix", "template", "system"),
            "empty": {"prompt": "a", "context": [], "suffix": "", "template": "", "system": ""}, "raw": {"prompt": "a", "raw": True}}
LLAMA = {"texts and tokens": {"prompt": ["a", 5, "b"]}, "tokens": {"prompt": [1, 2]}, "nulls": {"prompt": "a"} | nulls("stop", "json_schema"), "an object": {"prompt": {"prompt_string": "a"}},
         "no grammar": {"prompt": "a", "grammar": ""}, "any JSON": {"prompt": "a", "json_schema": {}}, "nothing": {"prompt": "a", "n_predict": 0}, "samplers": {"prompt": "a", "samplers": "kt"},
         "biases": {"prompt": "a", "logit_bias": [[5, False], ["b", -1]]}, "a slot": {"prompt": "a", "id_slot": -1, "n_keep": 0, "image_data": [], "lora": [], "response_fields": []}}
TEXTS = {"texts": {"prompt": ["a", "b"]}, "lists of tokens": {"prompt": [[1, 2], [3]]}, "nulls": {"prompt": "a"} | nulls("suffix", "logprobs", "echo", "best_of", "stop", "n"),
         "no suffix": {"prompt": "a", "suffix": ""}, "only the prompt": {"prompt": "a", "echo": True, "max_tokens": 0}, "a bias": {"prompt": "a", "logit_bias": {"5": -100}}}


def test_the_other_apis(server):
    answered(server, "/api/chat", {"model": "default", "stream": False, "options": OPTIONS}, OLLAMA)
    answered(server, "/api/generate", {"model": "default", "stream": False, "options": OPTIONS}, GENERATE)
    answered(server, "/completion", {"n_predict": 2}, LLAMA)
    answered(server, "/v1/completions", {"max_tokens": 2}, TEXTS)


def test_results_of_calls_of_the_server_itself(server):
    """Its answer comes back with everything that it had, and the result as a client of another API would write it."""
    body = {"tools": TOOLS, "max_tokens": 100}
    first = server.ask("/v1/chat/completions", body | {"messages": [user("Look at x.")], "tool_choice": "any", "parallel_tool_calls": False})
    answer = first["choices"][0]["message"]
    one = answer["tool_calls"][0]
    messages = [user("Look at x."), answer, user([told(one["id"])])]
    prompts = [server.ask("/apply-template", body | {"messages": history})["prompt"] for history in (
        messages, [user("Look at x."), said(None, call(one["id"], one["function"]["arguments"])), {"role": "tool", "tool_call_id": one["id"], "content": "RESONE"}])]
    assert prompts[0] == prompts[1] and prompts[0].count("RESONE") == 1
