from any_llm import completion
from asked import CAPITAL, KEY, MODEL, TOOL, V1, WEATHER

ASK = {"model": MODEL, "provider": "openai", "api_base": V1, "api_key": KEY}


def chat():
    return completion(**ASK, messages=[{"role": "user", "content": CAPITAL}]).choices[0].message.content


def stream():
    chunks = completion(**ASK, messages=[{"role": "user", "content": CAPITAL}], stream=True)
    return [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]


def tools():
    answer = completion(**ASK, messages=[{"role": "user", "content": WEATHER}], tools=[TOOL])
    return answer.choices[0].message.tool_calls[0].function.arguments
