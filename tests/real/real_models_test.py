"""Models that other people trained and quantised (tools/fetch_real_models.py): prompts and greedy text are those of Transformers
(tools/eval_model.py made data/), answers are what a model of that size says, and the same with drafts, over a restart and from
disk. --real all tests the large ones, too."""

import concurrent.futures
import json
import pathlib

import jsonschema
import pytest

from exactness import ask
from greedy import NEAR_TIE, check_greedy
from harness import clients
from harness.needs import fetch_real_models, real_model
from harness.waiting import settled, wait_for

pytestmark = pytest.mark.real

HERE = pathlib.Path(__file__).resolve().parent
CITY = {"type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "capital": {"type": "boolean"},
                                         "founded": {"type": "integer", "minimum": -3000, "maximum": 2026}},
        "required": ["city", "capital", "founded"], "additionalProperties": False}
FORM = {"type": "json_schema", "json_schema": {"name": "city", "schema": CITY, "strict": True}}
TOOLS = [{"type": "function", "function": {
    "name": "get_temperature", "description": "The temperature of a city in degrees Celsius",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
COUNTING = "one two three four five six seven eight nine ten one two three four five six seven"  # drafts itself
STORY = "The library of Millbrook has 12,000 books, a reading room with eight lamps, and a clock made by two brothers. " * 12


def read(name):
    return json.loads((HERE / "data" / f"{name}.json").read_text())


def user(text):
    return {"role": "user", "content": text}


def chat(*messages, max_tokens=48, **more):
    return "/v1/chat/completions", {"messages": list(messages), "max_tokens": max_tokens, "temperature": 0, "logprobs": True,
                                    "top_logprobs": 2} | more


def text(prompt, max_tokens=48, **more):
    return "/v1/completions", {"prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "logprobs": 2} | more


def answer_of(choices):
    choice = choices[0]
    return choice["text"] if "text" in choice else choice["message"]["content"]


class Model:
    """One model, what it is asked, and what it answers without cache and drafts (`want`)."""

    def __init__(self, name, path, serve):
        self.path, self.serve_ = path, serve
        self.golden = read(name)
        self.has_template = any("messages" in prompt for prompt in self.prompts())
        self.asked, self.want = self.questions(), {}
        self.server = self.serve("--no-cache", "--spec", "off")
        for question, asked in self.asked.items():
            self.want[question], _ = ask(self.server, asked)
        self.asked["next turn"] = self.next_turn(self.want["story"])
        self.want["next turn"], _ = ask(self.server, self.asked["next turn"])

    def serve(self, *flags):
        return self.serve_(*flags, model=self.path)

    def prompts(self):
        """The goldens' prompts, one for each run: a model without a template has only the texts."""
        every = read("prompts")
        return every if len(every) == len(self.golden["runs"]) else [prompt for prompt in every if "text" in prompt]

    def questions(self):
        if not self.has_template:
            return {"chat": text("The Eiffel Tower is in the city of", 16), "counting": text(COUNTING),
                    "schema": text("Paris, as JSON with its name and when it was founded: ", 80, response_format=FORM),
                    "story": text(STORY + "The clock was made by")}
        asked = {"chat": chat(user("Where is the Eiffel Tower?")), "counting": chat(user("Go on: " + COUNTING)),
                 "schema": chat(user("Describe Paris as JSON."), max_tokens=80, response_format=FORM),
                 "story": chat(user(STORY + "Who made the clock?"))}
        if self.shows_tools():
            asked["tool call"] = chat(user("How warm is it in Oslo right now?"), tools=TOOLS, max_tokens=80)
        return asked

    def shows_tools(self):
        return any("get_weather" in run["text"] for run in self.golden["runs"])

    def next_turn(self, choices):
        if not self.has_template:
            return text(STORY + "The clock was made by" + answer_of(choices) + "\n\nThe reading room")
        return chat(user(STORY + "Who made the clock?"), {"role": "assistant", "content": answer_of(choices)},
                    user("And how many lamps are there?"))


def pytest_generate_tests(metafunc):
    if "model_of" in metafunc.fixturenames:
        names = fetch_real_models.GROUPS[metafunc.config.option.real]
        metafunc.parametrize("model_of", names, indirect=True, scope="module")


@pytest.fixture(scope="module")
def model_of(request, serve_for_all):
    if not (HERE / "data" / f"{request.param}.json").exists():
        pytest.skip(f"the reference of {request.param} is not made yet (tools/eval_model.py)")
    return Model(request.param, real_model(request.param), serve_for_all)


@pytest.fixture(scope="module")
def precise(model_of):
    return model_of.serve("--precise", "--no-cache", "--spec", "off")


def test_prompts_are_those_of_transformers(model_of, precise):
    for prompt, run in zip(model_of.prompts(), model_of.golden["runs"]):
        # Where the template does not show tools, we do.
        if "messages" in prompt and ("tools" not in prompt or model_of.shows_tools()):
            assert precise.ask("/apply-template", prompt)["prompt"] == run["text"]
        tokens = precise.ask("/tokenize", {"content": run["text"], "add_special": False, "parse_special": True})["tokens"]
        assert tokens == run["prompt"]


def test_greedy_text_is_that_of_transformers(model_of, precise):
    def continued(run):
        return precise.ask("/v1/generate", {"prompt_token_ids": run["prompt"], "max_tokens": model_of.golden["max_tokens"],
                                            "temperature": 0, "ignore_eos": True})["token_ids"]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        outputs = [pool.submit(continued, run) for run in model_of.golden["runs"]]
        check_greedy(outputs, model_of.golden["runs"], NEAR_TIE)


def test_a_chat_is_answered(model_of):
    assert "Paris" in answer_of(model_of.want["chat"])
    if not model_of.has_template:
        with pytest.raises(clients.Refused, match="no chat template"):
            ask(model_of.server, chat(user("Hi")))


def test_an_answer_satisfies_its_schema(model_of):
    choices = model_of.want["schema"]
    assert choices[0]["finish_reason"] == "stop", choices
    jsonschema.validate(json.loads(answer_of(choices)), CITY)


def test_a_tool_is_called_and_its_result_used(model_of):
    if "tool call" not in model_of.asked:
        pytest.skip("this model's template shows no tools")
    choices = model_of.want["tool call"]
    message = choices[0]["message"]
    (call,) = message["tool_calls"]
    assert choices[0]["finish_reason"] == "tool_calls" and call["function"]["name"] == "get_temperature", choices
    assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}, call
    result = {"role": "tool", "tool_call_id": call["id"], "content": "-17"}
    after, _ = ask(model_of.server, chat(user("How warm is it in Oslo right now?"), message, result, tools=TOOLS))
    # The smaller Qwen2.5-Coder calls again.
    assert "17" in (answer_of(after) or "") or after[0]["message"].get("tool_calls"), after


def choices_of(choices):
    """Without the ids of calls, which are drawn anew for each answer."""
    return json.loads(json.dumps(choices), object_hook=lambda value: {k: v for k, v in value.items() if k != "id"})


def test_drafts_are_accepted_and_change_nothing(model_of):
    server = model_of.serve("--no-cache")
    sources = server.health()["model"]["draft_sources"]
    assert sources, "there is no source of drafts"
    asked = {name: question for name, question in model_of.asked.items() if name != "next turn"}
    for source in sources:
        answers = {name: ask(server, question, speculation={"source": source, "depth": 4}) for name, question in asked.items()}
        for name, (choices, _) in answers.items():
            assert choices_of(choices) == choices_of(model_of.want[name]), (source, name)
        drafted, accepted = (sum(usage["speculation"][key] for _, usage in answers.values()) for key in ("drafted", "accepted"))
        assert accepted > 0, f"{source}: nothing was accepted of {drafted}"


def test_after_kill_9_a_conversation_goes_on_from_disk(model_of, tmp_path):
    server = model_of.serve("--cache-dir", tmp_path, "--cache-disk-worth", "0")
    choices, _ = ask(server, model_of.asked["story"])
    assert choices == model_of.want["story"], "the first turn's answer"

    def on_disk():
        return server.health()["cache"]["disk"]["bytes"]
    wait_for(on_disk, "a thread of its own writes what was kept")
    settled(on_disk)
    server.restart()
    choices, usage = ask(server, model_of.asked["next turn"])
    assert choices == model_of.want["next turn"]
    assert usage["prompt_tokens_details"]["cached_tokens"] >= 256 and server.health()["cache"]["disk_hits"] > 0
