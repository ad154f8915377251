from asked import CAPITAL, KEY, MODEL, V1, WEATHER, get_weather
from kani import AIFunction, Kani
from kani.engines.openai import OpenAIEngine


def agent(**more):
    return Kani(OpenAIEngine(model=MODEL, api_base=V1, api_key=KEY, max_context_size=4096), **more)


async def chat():
    return await agent().chat_round_str(CAPITAL)


async def stream():
    return [token async for token in agent().chat_round_stream(CAPITAL)]


async def tools():
    return [message.text async for message in agent(functions=[AIFunction(get_weather)]).full_round(WEATHER)]
