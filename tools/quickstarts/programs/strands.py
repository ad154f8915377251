from asked import CAPITAL, KEY, MODEL, V1, WEATHER, called_for, get_weather
from strands import Agent, tool
from strands.models.openai import OpenAIModel


def agent(**more):
    return Agent(model=OpenAIModel(client_args={"base_url": V1, "api_key": KEY}, model_id=MODEL), callback_handler=None, **more)


def chat():
    return str(agent()(CAPITAL))


async def stream():
    return [event["data"] async for event in agent().stream_async(CAPITAL) if "data" in event]


def tools():
    agent(tools=[tool(get_weather)])(WEATHER)
    return called_for
