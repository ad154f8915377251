from ag2 import Agent, tool
from ag2.config import OpenAIConfig
from asked import CAPITAL, KEY, MODEL, V1, WEATHER, called_for, get_weather


def agent(**more):
    return Agent("assistant", config=OpenAIConfig(model=MODEL, base_url=V1, api_key=KEY, **more.pop("config", {})), **more)


async def chat():
    return (await agent().ask(CAPITAL)).body


async def chat_of_a_stream():
    return (await agent(config={"streaming": True}).ask(CAPITAL)).body


async def tools():
    await agent(tools=[tool(get_weather)]).ask(WEATHER)
    return called_for
