from openai import OpenAI
from pydantic import BaseModel
from asked import CAPITAL, FORM, KEY, MODEL, TOOL, V1, WEATHER

client = OpenAI(base_url=V1, api_key=KEY)


class City(BaseModel):
    city: str
    country: str


def chat():
    return client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": CAPITAL}]).choices[0].message.content


def chat_responses():
    return client.responses.create(model=MODEL, input=CAPITAL).output_text


def stream():
    chunks = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": CAPITAL}], stream=True)
    return [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]


def stream_responses():
    return [event.delta for event in client.responses.create(model=MODEL, input=CAPITAL, stream=True) if event.type == "response.output_text.delta"]


def tools():
    answer = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": WEATHER}], tools=[TOOL])
    return answer.choices[0].message.tool_calls[0].function.arguments


def structured():
    answer = client.chat.completions.parse(model=MODEL, messages=[{"role": "user", "content": FORM}], response_format=City)
    return answer.choices[0].message.parsed.city


def structured_responses():
    return client.responses.parse(model=MODEL, input=FORM, text_format=City).output_parsed.city
