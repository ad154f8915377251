from asked import CAPITAL, KEY, MODEL, V1, WEATHER, get_weather
from camel.agents import ChatAgent
from camel.models import ModelFactory
from camel.types import ModelPlatformType


def agent(**more):
    model = ModelFactory.create(model_platform=ModelPlatformType.OPENAI_COMPATIBLE_MODEL, model_type=MODEL, url=V1, api_key=KEY,
                                model_config_dict={"temperature": 0})
    return ChatAgent("You help.", model=model, **more)


def chat():
    return agent().step(CAPITAL).msgs[0].content


def tools():
    return [call.args for call in agent(tools=[get_weather]).step(WEATHER).info["tool_calls"]]
