"""Chains of calls of agents that send the model's thoughts back, as pydantic-ai does over /v1/chat/completions and the OpenAI Agents SDK
over /v1/responses: recordings of both, with their way of writing the arguments anew. Each prompt must begin with what was sampled
before it, so that nothing of the last turn is read again."""

import json

import pytest

INSTRUCTIONS = "You work in a small repository of Python code, which is the current folder. Use the tools, then answer in one sentence."
FILES = {"shop/config.py": 'CURRENCY = "EUR"\nVAT_PERCENT = 19\n', "notes.txt": "The shop opens at nine.\nThe door is teal.\n"}
QUESTIONS = ["In shop/config.py, change VAT_PERCENT from 19 to 21.", "Read the file notes.txt and tell me which colour the door has."]
STEPS = 4


def schema(*names):
    return {"type": "object", "properties": {name: {"type": "string", "description": f"The {name}."} for name in names}, "required": list(names),
            "additionalProperties": False}


TOOLS = {"read_file": schema("path"), "replace_text": schema("path", "old", "new"), "run_command": schema("command")}


def result_of(name, arguments):
    return FILES.get(arguments.get("path"), "written") if name == "read_file" else f"status 0\n{name}"


def spelled_anew(arguments):
    """As a program writes JSON that it has parsed."""
    return json.dumps(json.loads(arguments), separators=(",", ":"))


class Chat:
    def __init__(self, question):
        self.messages = [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": question}]
        self.tools = [{"type": "function", "function": {"name": name, "parameters": parameters, "strict": True}} for name, parameters in TOOLS.items()]

    def ask(self, server):
        answer = server.ask("/v1/chat/completions", {"messages": self.messages, "tools": self.tools, "tool_choice": "required", "max_tokens": 300,
                                                     "reasoning_effort": "high", "thinking_budget": 60, "seed": 1})
        message, usage = answer["choices"][0]["message"], answer["usage"]
        calls = [call | {"function": {"name": call["function"]["name"], "arguments": spelled_anew(call["function"]["arguments"])}}
                 for call in message["tool_calls"]]
        self.messages.append({"role": "assistant", "reasoning_content": message["reasoning_content"], "content": None, "tool_calls": calls})
        self.messages += [{"role": "tool", "tool_call_id": call["id"],
                           "content": result_of(call["function"]["name"], json.loads(call["function"]["arguments"]))} for call in calls]
        return usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]


class Responses:
    def __init__(self, question):
        self.items = [{"role": "user", "content": question}]
        self.tools = [{"type": "function", "name": name, "parameters": parameters, "strict": True} for name, parameters in TOOLS.items()]

    def ask(self, server):
        answer = server.ask("/v1/responses", {"instructions": INSTRUCTIONS, "input": self.items, "tools": self.tools, "tool_choice": "required",
                                              "max_output_tokens": 300, "reasoning": {"effort": "high"}, "thinking_budget": 60, "store": False, "seed": 1})
        assert any(item["type"] == "reasoning" for item in answer["output"]), answer["output"]
        self.items += answer["output"]
        self.items += [{"type": "function_call_output", "call_id": item["call_id"], "output": result_of(item["name"], json.loads(item["arguments"]))}
                       for item in answer["output"] if item["type"] == "function_call"]
        usage = answer["usage"]
        return usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]


@pytest.mark.parametrize("kind", [Chat, Responses])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("temperature", [0, 1])
def test_nothing_of_the_last_turn_is_read_again(serve, kind, question, temperature):
    server, agent, before = serve("--context", "4096", "--temp", temperature), kind(question), 0
    for step in range(STEPS):
        prompt, cached, answer = agent.ask(server)
        assert cached >= 0.98 * before, f"step {step}: {cached} of {before} tokens were cached, prompt {prompt}"
        before = prompt + answer
