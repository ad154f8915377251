import json

import ollama
from asked import CAPITAL, FORM, MODEL, ROOT, SCHEMA, WEATHER, get_weather

client = ollama.Client(host=ROOT)


def chat():
    return client.chat(MODEL, [{"role": "user", "content": CAPITAL}]).message.content


async def chat_async():
    return (await ollama.AsyncClient(host=ROOT).chat(MODEL, [{"role": "user", "content": CAPITAL}])).message.content


def stream():
    return [part.message.content for part in client.chat(MODEL, [{"role": "user", "content": CAPITAL}], stream=True)]


def tools():
    return client.chat(MODEL, [{"role": "user", "content": WEATHER}], tools=[get_weather]).message.tool_calls[0].function.arguments


def structured():
    return json.loads(client.chat(MODEL, [{"role": "user", "content": FORM}], format=SCHEMA, think=False).message.content)["city"]


def embeddings():
    return client.embed(MODEL, "A river").embeddings[0]
