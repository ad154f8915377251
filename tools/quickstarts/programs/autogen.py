from asked import CAPITAL, KEY, MODEL, V1, WEATHER, called_for, get_weather
from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient

ABOUT = {"family": "unknown", "function_calling": True, "json_output": True, "structured_output": True, "vision": False}


def agent(**more):
    return AssistantAgent("assistant", OpenAIChatCompletionClient(model=MODEL, base_url=V1, api_key=KEY, model_info=ABOUT), **more)


async def chat():
    return (await agent().run(task=CAPITAL)).messages[-1].content


async def stream():
    return [event.content async for event in agent(model_client_stream=True).run_stream(task=CAPITAL)
            if getattr(event, "type", "") == "ModelClientStreamingChunkEvent"]


async def tools():
    await agent(tools=[get_weather]).run(task=WEATHER)
    return called_for
