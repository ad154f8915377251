import os

os.environ |= {"LOCAL_API_KEY": "none", "LOCAL_BASE_URL": os.environ["ANABRANCH_URL"] + "/v1"}

from asked import CAPITAL, MODEL, TOOL, WEATHER  # noqa: E402
from inspect_ai.model import GenerateConfig, get_model  # noqa: E402
from inspect_ai.tool import ToolInfo, ToolParams  # noqa: E402

model = get_model(f"openai-api/local/{MODEL}", config=GenerateConfig(temperature=0))


async def chat():
    return (await model.generate(CAPITAL)).completion


async def tools():
    function = TOOL["function"]
    tool = ToolInfo(name=function["name"], description=function["description"], parameters=ToolParams(**function["parameters"]))
    return [call.arguments for call in (await model.generate(WEATHER, tools=[tool])).message.tool_calls]
