from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import Tool
from haystack.utils import Secret
from asked import CAPITAL, KEY, MODEL, PARAMETERS, V1, WEATHER, get_weather


def generator(**more):
    return OpenAIChatGenerator(model=MODEL, api_base_url=V1, api_key=Secret.from_token(KEY), **more)


def chat():
    return generator().run([ChatMessage.from_user(CAPITAL)])["replies"][0].text


def stream():
    parts = []
    generator(streaming_callback=lambda chunk: parts.append(chunk.content)).run([ChatMessage.from_user(CAPITAL)])
    return parts


def tools():
    tool = Tool(name="get_weather", description="The weather in a city", parameters=PARAMETERS, function=get_weather)
    return generator(tools=[tool]).run([ChatMessage.from_user(WEATHER)])["replies"][0].tool_calls[0].arguments
