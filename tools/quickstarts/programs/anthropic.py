from anthropic import Anthropic
from asked import CAPITAL, KEY, MODEL, PARAMETERS, ROOT, WEATHER

client = Anthropic(base_url=ROOT, api_key=KEY)
ASK = {"model": MODEL, "max_tokens": 200}


def chat():
    return client.messages.create(**ASK, messages=[{"role": "user", "content": CAPITAL}]).content[-1].text


def stream():
    with client.messages.stream(**ASK, messages=[{"role": "user", "content": CAPITAL}]) as events:
        return list(events.text_stream)


def tools():
    answer = client.messages.create(**ASK, messages=[{"role": "user", "content": WEATHER}],
                                    tools=[{"name": "get_weather", "description": "The weather in a city", "input_schema": PARAMETERS}])
    return next(block.input for block in answer.content if block.type == "tool_use")
