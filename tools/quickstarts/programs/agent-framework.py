from agent_framework.openai import OpenAIChatCompletionClient
from asked import CAPITAL, KEY, MODEL, V1, WEATHER, called_for, get_weather


def agent(**more):
    return OpenAIChatCompletionClient(model=MODEL, base_url=V1, api_key=KEY).as_agent(name="assistant", **more)


async def chat():
    return (await agent().run(CAPITAL)).text


async def stream():
    return [update.text async for update in agent().run(CAPITAL, stream=True)]


async def tools():
    await agent(tools=[get_weather]).run(WEATHER)
    return called_for
