"""The official OpenAI client's Responses API against a real server."""

import json

import openai
import pydantic
import pytest
from openai.types.responses import ResponseCompactionItem

TOOL = {"type": "function", "name": "get_weather", "description": "The weather of a city", "strict": True,
        "parameters": {"type": "object", "properties": {"city": {"type": "string", "enum": ["Paris", "Rome"]}}, "required": ["city"],
                       "additionalProperties": False}}
client = None


@pytest.fixture(scope="module", autouse=True)
def client_of_a_server(serve_for_all):
    global client
    client = openai.OpenAI(base_url=serve_for_all().v1, api_key="none", max_retries=0)


def ask(what, **more):
    return client.responses.create(model="default", input=what, temperature=0, **({"max_output_tokens": 40} | more))


def test_a_response_has_its_text_and_its_usage():
    answer = ask("Name three rivers.", reasoning={"effort": "none"}, metadata={"a": "b"})
    assert answer.status in ("completed", "incomplete") and answer.output_text and answer.metadata == {"a": "b"}
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens > 20
    assert answer.output[-1].type == "message" and answer.error is None and answer.object == "response"


def test_streams_are_the_same_answer():
    for more in ({"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "low"}, "max_output_tokens": 60},
                 {"tools": [TOOL], "tool_choice": "required", "reasoning": {"effort": "none"}}):
        whole = ask("What is the weather in Paris?", **more)
        events = list(ask("What is the weather in Paris?", stream=True, **more))
        assert [e.sequence_number for e in events] == list(range(len(events)))
        last = events[-1].response
        assert last.output_text == whole.output_text and last.usage.total_tokens == whole.usage.total_tokens
        assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == whole.output_text
        assert [(i.type, getattr(i, "arguments", None)) for i in last.output] == [(i.type, getattr(i, "arguments", None)) for i in whole.output]
        with client.responses.stream(model="default", input="What is the weather in Paris?", temperature=0,
                                     **({"max_output_tokens": 40} | more)) as stream:
            kinds = [event.type for event in stream]
            assert kinds[-1] in ("response.completed", "response.incomplete"), kinds
            if kinds[-1] == "response.completed":
                assert stream.get_final_response().output_text == whole.output_text


def test_tools_go_round():
    first = ask("What is the weather in Paris?", tools=[TOOL], tool_choice={"type": "function", "name": "get_weather"}, max_output_tokens=200)
    call = next(item for item in first.output if item.type == "function_call")
    assert call.name == "get_weather" and json.loads(call.arguments)["city"] in ("Paris", "Rome")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
    stored = ask([result], previous_response_id=first.id, tools=[TOOL], reasoning={"effort": "none"})
    whole = ask([{"role": "user", "content": "What is the weather in Paris?"}, *[i.model_dump() for i in first.output], result],
                tools=[TOOL], reasoning={"effort": "none"})
    assert stored.output_text == whole.output_text
    assert stored.usage.input_tokens == whole.usage.input_tokens
    assert whole.usage.input_tokens_details.cached_tokens > 0.8 * first.usage.input_tokens


def test_structured_answers_parse():
    class River(pydantic.BaseModel):
        name: str
        long: bool

    answer = client.responses.parse(model="default", input="A river, as JSON.", text_format=River, temperature=0, max_output_tokens=400)
    assert isinstance(answer.output_parsed, River), answer
    answer = ask("A river, as JSON.", text={"format": {"type": "json_object"}}, max_output_tokens=200)
    assert isinstance(json.loads(answer.output_text), dict) if answer.status == "completed" else answer.output_text.startswith("{")


def test_sealed_thoughts_stand_for_plain_ones():
    first = ask("What is 17 times 23?", reasoning={"effort": "high"}, include=["reasoning.encrypted_content"], store=False,
                max_output_tokens=200)
    thought = first.output[0]
    assert thought.type == "reasoning" and thought.encrypted_content and thought.content[0].text
    items = [{"type": "message", "role": "user", "content": "What is 17 times 23?"}]
    plain = [item.model_dump(exclude_none=True) for item in first.output]
    sealed = [item.model_dump(exclude_none=True) | ({"content": []} if item.type == "reasoning" else {}) for item in first.output]
    more = [{"role": "user", "content": "And 18?"}]
    a, b = (client.responses.input_tokens.count(model="default", input=items + turn + more) for turn in (plain, sealed))
    assert a.input_tokens == b.input_tokens
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)


def test_stored_responses_are_there_until_deleted():
    first = ask("Hello", instructions="Be brief.")
    assert client.responses.retrieve(first.id).output_text == first.output_text
    assert client.responses.input_items.list(first.id).data[0].content[0].text == "Hello"
    client.responses.delete(first.id)
    for call in (client.responses.retrieve, client.responses.delete):
        with pytest.raises(openai.NotFoundError):
            call(first.id)


def test_a_compacted_conversation_goes_on():
    history = [{"role": "user", "content": "My dog is called Rex."}, {"role": "assistant", "content": "A good name. " * 40},
               {"role": "user", "content": "What is a river?"}]
    made = client.responses.compact(model="default", input=history, instructions="Be brief.")
    assert made.object == "response.compaction" and made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens > 20
    assert [item.type for item in made.output] == ["message", "message", "compaction"]
    assert [item.content[0].text for item in made.output[:2]] == [history[0]["content"], history[2]["content"]]
    ResponseCompactionItem.model_validate(made.output[-1].model_dump(), strict=True)
    items = [item.model_dump(exclude_none=True) for item in made.output]
    answer = ask([*items, {"role": "user", "content": "And a lake?"}], reasoning={"effort": "none"})
    assert answer.output_text and answer.usage.input_tokens < 20 + made.usage.output_tokens + 80, answer.usage
    assert ask(items[:2], reasoning={"effort": "none"}).usage.input_tokens < answer.usage.input_tokens


def test_a_long_conversation_is_compacted_by_itself():
    history = [{"role": "user", "content": "My dog is called Rex."}, {"role": "assistant", "content": "A good name. " * 40},
               {"role": "user", "content": "What is a river?"}]
    wish = {"reasoning": {"effort": "none"}, "context_management": [{"type": "compaction", "compact_threshold": 150}]}
    events = list(ask(history, stream=True, **wish))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    done = [event.item for event in events if event.type == "response.output_item.done"]
    made = events[-1].response
    assert [item.type for item in made.output] == ["compaction", "message"] == [item.type for item in done]
    ResponseCompactionItem.model_validate(made.output[0].model_dump(), strict=True)
    assert made.output_text and made.usage.total_tokens == made.usage.input_tokens + made.usage.output_tokens
    alone = ask(history, reasoning={"effort": "none"})
    assert [item.type for item in alone.output] == ["message"] and made.usage.input_tokens > alone.usage.input_tokens + 60
    # From now on the items before the summary need not be sent, and change nothing.
    output, more = [item.model_dump(exclude_none=True) for item in made.output], [{"role": "user", "content": "And a lake?"}]
    counts = {client.responses.input_tokens.count(model="default", reasoning={"effort": "none"}, **what).input_tokens
              for what in ({"input": history + output + more}, {"input": output + more}, {"input": more, "previous_response_id": made.id})}
    assert len(counts) == 1, counts


def test_logprobs_come_if_asked():
    answer = ask("Hello", include=["message.output_text.logprobs"], top_logprobs=2, reasoning={"effort": "none"})
    logprobs = answer.output[-1].content[0].logprobs
    assert logprobs and all(len(one.top_logprobs) == 2 and one.logprob <= 0 for one in logprobs)
    assert answer.output_text.startswith("".join(one.token for one in logprobs[:3]))


def test_errors_name_the_field():
    for fields, name in (({"background": True}, "background"), ({"context_management": [{"type": "x"}]}, "context_management[0].type"),
                         ({"input": 7}, "input"), ({"previous_response_id": "resp_x"}, "previous")):
        with pytest.raises((openai.BadRequestError, openai.NotFoundError)) as refusal:
            client.responses.create(**({"model": "default", "input": "x"} | fields))
        assert name in str(refusal.value.param), refusal.value
