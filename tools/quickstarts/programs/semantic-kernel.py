from asked import CAPITAL, KEY, MODEL, V1, WEATHER, called_for, get_weather
from openai import AsyncOpenAI
from semantic_kernel.agents import ChatCompletionAgent
from semantic_kernel.connectors.ai.open_ai import OpenAIChatCompletion
from semantic_kernel.functions import kernel_function


class Weather:
    get_weather = staticmethod(kernel_function(get_weather))


def agent(**more):
    service = OpenAIChatCompletion(ai_model_id=MODEL, async_client=AsyncOpenAI(base_url=V1, api_key=KEY))
    return ChatCompletionAgent(service=service, name="Assistant", **more)


async def chat():
    return str(await agent().get_response(messages=CAPITAL))


async def stream():
    return [str(part.content) async for part in agent().invoke_stream(messages=CAPITAL)]


async def tools():
    await agent(plugins=[Weather()]).get_response(messages=WEATHER)
    return called_for
