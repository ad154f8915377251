from asked import CAPITAL, KEY, MODEL, TOOL, V1, WEATHER
from huggingface_hub import InferenceClient

client = InferenceClient(base_url=V1, api_key=KEY)


def chat():
    return client.chat_completion([{"role": "user", "content": CAPITAL}], model=MODEL).choices[0].message.content


def stream():
    chunks = client.chat_completion([{"role": "user", "content": CAPITAL}], model=MODEL, stream=True)
    return [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]


def tools():
    answer = client.chat_completion([{"role": "user", "content": WEATHER}], model=MODEL, tools=[TOOL])
    return answer.choices[0].message.tool_calls[0].function.arguments
