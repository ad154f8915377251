"""Random requests of every API, and the next turns of what was answered to them."""

import copy
import random

from answer_shapes import CHAT, LLAMA, MESSAGES, OLLAMA, RESPONSES, TEXT

SYSTEM = "You are a careful assistant. " + "Answer in short, complete sentences and name your reasons. " * 20
WORDS = "river arm water bridge boat winter market letter stone garden night music teacher map harbour".split()
FUNCTIONS = {
    "get_weather": ("The weather in a city", {"city": {"type": "string"}, "days": {"type": "integer"}}, ["city"]),
    "add_numbers": ("Adds two numbers", {"a": {"type": "integer"}, "b": {"type": "integer"}}, ["a", "b"]),
    "read_file": ("Reads a file", {"path": {"type": "string"}}, ["path"]),
}
ASKS_FOR_CALLS = ["What is the weather in {city}?", "Add {a} and {b}.", "Read the file {word}.txt.",
                  "What is the weather in {city} and in Oslo?"]
ASKS = ["What is the capital of France?", "Name {n} things that float on a {word}.", "Tell me about a {word} and a {other}.",
        "Write a short story about a {word}.", "What is {a} times {b}?", "Explain what a {word} is for.",
        "Count from {a} to {b}.", "Translate '{word}' into French."]
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}, "count": {"type": "integer"},
                                           "kind": {"enum": ["a", "b", None]}}, "required": ["name", "count"]}
SAMPLERS = [{"dry_multiplier": 0.8, "dry_allowed_length": 1}, {"mirostat": 2, "mirostat_tau": 3}, {"mirostat": 1, "mirostat_eta": 0.3},
            {"typical_p": 0.7, "top_n_sigma": 2}, {"dynatemp_range": 0.5, "seed": 5}, {"min_tokens": 3, "stop_token_ids": [300, 301, 302]}]
GRAMMAR = 'root ::= "[" item ("," item){1,4} "]"\nitem ::= [a-z]{2,6} | [0-9]{1,3}'


def plain(body):
    """The same request without what must change nothing."""
    return {key: value for key, value in body.items() if key not in ("stream_options", "speculation", "priority")} | {"stream": False}


class Cases:
    """Random requests; each asks something that no other asks, so that no conversation is another's."""

    def __init__(self, seed, sources):
        self.random, self.sources, self.count = random.Random(seed), sources, 0

    def chance(self, probability):
        return self.random.random() < probability

    def question(self, calls=False):
        choose = self.random.choice
        self.count += 1
        text = choose(ASKS_FOR_CALLS if calls else ASKS).format(
            city=choose(["Paris", "Rome", "Oslo", "Lima"]), a=self.random.randint(1, 30), b=self.random.randint(31, 60),
            n=self.random.randint(2, 5), word=choose(WORDS), other=choose(WORDS))
        return f"{text} ({self.count})"

    def tools(self, strict=False):
        return [{"type": "function", "function": {
            "name": name, "description": about, "strict": strict,
            "parameters": {"type": "object", "properties": properties, "required": required,
                           "additionalProperties": False}}} for name, (about, properties, required) in FUNCTIONS.items()]

    def common(self):
        """What every route takes."""
        body = {"max_tokens": self.random.choice([3, 8, 14, 20, 32]), "temperature": 0}
        if self.chance(0.5):
            body |= {"temperature": self.random.choice([0.3, 0.8, 1.3]), "seed": self.random.randint(0, 1 << 30),
                     "top_p": self.random.choice([1, 0.9]), "top_k": self.random.choice([0, 20])}
        if self.chance(0.2):
            body |= {"repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.3}
        if self.chance(0.3):
            body |= self.random.choice(SAMPLERS)
        if self.chance(0.15):
            body["logit_bias"] = {str(self.random.randint(300, 3000)): self.random.choice([-100, 5, 8]) for _ in range(3)}
        if self.chance(0.4):
            body["speculation"] = self.random.choice(["off", *self.sources])
        if self.chance(0.1):
            body["cache"] = False
        if self.chance(0.1):
            body["cache_salt"] = "salt"
        if self.chance(0.2):
            body["priority"] = self.random.randint(-1, 1)
        if self.chance(0.4):
            body["stream"] = True
        return body

    def thinking(self, body):
        body["enable_thinking"] = self.random.choice([True, False, False, "auto"])
        body["max_thinking_tokens"] = self.random.choice([5, 12, 24])

    def openai(self, body):
        if self.chance(0.6):
            body |= {"logprobs": True, "top_logprobs": self.random.randint(0, 3)}
        if self.chance(0.2):
            body["n"] = self.random.randint(2, 3)
        if self.chance(0.25):
            body["stop"] = self.random.choice([[" the"], ["."], [" a", " and"], ["\n", ", "], ["is a", "a "]])
        if body.get("stream"):
            body["stream_options"] = {"include_usage": True}

    def chat(self):
        body = self.common()
        self.thinking(body)
        self.openai(body)
        system = [{"role": "system", "content": SYSTEM}] if self.chance(0.4) else []
        kind = self.random.choice(["plain", "plain", "tools", "tools", "forced", "form", "continued"])
        body["messages"] = system + [{"role": "user", "content": self.question(kind in ("tools", "forced"))}]
        if kind in ("tools", "forced"):
            body["tools"] = self.tools(strict=self.chance(0.4))
            body["parallel_tool_calls"] = self.chance(0.4)
            body["max_tokens"] = self.random.choice([8, 40, 70])
        if kind == "forced":
            named = {"type": "function", "function": {"name": self.random.choice(list(FUNCTIONS))}}
            body["tool_choice"] = self.random.choice(["required", named])
        if kind == "form":
            body |= self.random.choice([
                {"response_format": {"type": "json_object"}}, {"grammar": GRAMMAR},
                {"response_format": {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}}])
        if kind == "continued":
            body["messages"].append(self.beginning(body))
        return CHAT, body

    def beginning(self, body):
        """The assistant's message that is continued."""
        choice = self.random.randint(0, 4)
        if choice == 0:
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
            return {"role": "assistant", "content": '{"name": "The ' + self.random.choice(WORDS)}
        if choice == 1 and body["enable_thinking"]:
            return {"role": "assistant", "content": None, "reasoning_content": "The user asks about"}
        if choice == 2:
            return {"role": "assistant", "content": "The answer", "reasoning_content": "I should answer.", "prefix": True}
        return {"role": "assistant", "content": self.random.choice(["The ", "It is", "1.", "Well, the answer is\n"])}

    def messages(self):
        body = self.common()
        calls = self.chance(0.5)
        body["messages"] = [{"role": "user", "content": self.question(calls)}]
        if self.chance(0.4):
            body["system"] = SYSTEM
        if self.chance(0.4):
            body["thinking"] = {"type": "enabled", "budget_tokens": self.random.choice([8, 20])}
        if self.chance(0.25):
            body["stop_sequences"] = self.random.choice([["."], [" the", " a"]])
        if calls:
            body["max_tokens"] = self.random.choice([10, 40, 70])
            body["tools"] = [{"name": tool["function"]["name"], "description": tool["function"]["description"],
                              "input_schema": tool["function"]["parameters"]} for tool in self.tools()]
            body["tool_choice"] = {"type": self.random.choice(["auto", "auto", "any"]),
                                   "disable_parallel_tool_use": self.chance(0.5)}
        elif self.chance(0.3):
            body["messages"].append({"role": "assistant", "content": "The answer"})
        return MESSAGES, body

    def completion(self):
        body = self.common()
        self.openai(body)
        if body.pop("logprobs", None):
            body["logprobs"] = body.pop("top_logprobs")
        body["prompt"] = [self.question() + "\nAnswer:" for _ in range(self.random.choice([1, 1, 2]))]
        return TEXT, body

    def response(self):
        body = self.common()
        body["max_output_tokens"] = body.pop("max_tokens")
        body["input"] = [{"role": "user", "content": self.question()}]
        if self.chance(0.4):
            body["instructions"] = SYSTEM
        if self.chance(0.4):
            body["reasoning"] = {"effort": self.random.choice(["none", "low"])}
        if self.chance(0.3):
            body["tools"] = [{"type": "function", **tool["function"]} for tool in self.tools()]
            body["tool_choice"] = self.random.choice(["auto", "required"])
        return RESPONSES, body

    def ollama(self):
        body = {"stream": False} | self.common()
        names = {"max_tokens": "num_predict", "repetition_penalty": "repeat_penalty"}
        inner = ["max_tokens", "temperature", "seed", "top_p", "top_k", "repetition_penalty", "presence_penalty",
                 "frequency_penalty", *(key for one in SAMPLERS for key in one)]
        body["options"] = {names.get(key, key): body.pop(key) for key in inner if key in body}
        body.pop("logit_bias", None)
        body |= {"model": "default", "think": self.chance(0.3)}
        body["messages"] = [{"role": "user", "content": self.question()}]
        if self.chance(0.3):
            body["tools"] = self.tools()
        elif self.chance(0.3):
            body["format"] = SCHEMA
        return OLLAMA, body

    def llama(self):
        body = self.common()
        body.pop("cache", None)
        body |= {"n_predict": body.pop("max_tokens"), "prompt": self.question() + "\nAnswer:"}
        if self.chance(0.3):
            body["stop"] = [".", " the"]
        return LLAMA, body

    def make(self):
        others = [self.messages, self.completion, self.response, self.ollama, self.llama]
        return self.random.choice([self.chat, self.chat, *others])()

    def second(self, path, body, told):
        """The next turn of a conversation that was answered so; None: there is none."""
        if path in (TEXT, LLAMA) or "status" in told:
            return None
        body = copy.deepcopy(body)
        follows = {CHAT: self.follow_chat, MESSAGES: self.follow_message, RESPONSES: self.follow_response, OLLAMA: self.follow_ollama}
        follow = follows[path](body, told)
        return (path, body) if follow else None

    def follow_chat(self, body, told):
        first, messages = told["choices"][0], body["messages"]
        if messages[-1]["role"] == "assistant":
            begun = messages.pop()
            if begun["content"] is None:
                first = {**first, "reasoning": begun["reasoning_content"] + first["reasoning"]}
            else:
                first = {**first, "content": begun["content"] + first["content"]}
        turn = {"role": "assistant", "content": first["content"]}
        if self.chance(0.5) and first["reasoning"]:
            turn["reasoning_content"] = first["reasoning"]
        if first["calls"]:
            turn["tool_calls"] = [{"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": arguments}}
                                  for i, (name, arguments) in enumerate(first["calls"])]
        messages.append(turn)
        if body.get("tool_choice") and self.chance(0.7):
            del body["tool_choice"]
        for call in turn.get("tool_calls", []):
            result = self.random.choice(["42", "Sunny, 21 degrees", [{"type": "text", "text": "see "}, {"type": "image_url"}]])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if first["finish"] == "length" and first["content"] and not first["calls"] and "response_format" not in body:
            return "tool_choice" not in body  # cut: it goes on
        if not first["calls"]:
            messages.append({"role": "user", "content": self.question()})
        return True

    def follow_message(self, body, told):
        messages, blocks = body["messages"], copy.deepcopy(told["blocks"])
        if messages[-1]["role"] == "assistant":
            begun = messages.pop()
            blocks.insert(0, {"type": "text", "text": begun["content"]})
        if not blocks:
            return False
        results = []
        for i, block in enumerate(blocks):
            if block["type"] == "tool_use":
                block["id"] = f"toolu_{i}"
                content = self.random.choice(["42", [{"type": "image"}], [{"type": "document", "source": {
                    "type": "text", "data": "It is sunny."}}]])
                results.append({"type": "tool_result", "tool_use_id": f"toolu_{i}", "content": content})
        messages.append({"role": "assistant", "content": blocks})
        messages.append({"role": "user", "content": results or self.question()})
        return True

    def follow_response(self, body, told):
        for i, item in enumerate(told["output"]):
            if item["type"] == "reasoning":
                continue
            calls = item["type"] == "function_call"
            body["input"].append(item | ({"call_id": f"call_{i}"} if calls else {}))
            if calls:
                body["input"].append({"type": "function_call_output", "call_id": f"call_{i}", "output": "42"})
        body["input"].append({"role": "user", "content": self.question()})
        return True

    def follow_ollama(self, body, told):
        calls = [{"function": {"name": name, "arguments": arguments}} for name, arguments in told["calls"]]
        body["messages"] += [{"role": "assistant", "content": told["content"], "tool_calls": calls},
                             *({"role": "tool", "content": "42", "tool_name": name} for name, _ in told["calls"]),
                             {"role": "user", "content": self.question()}]
        return True
