from asked import CAPITAL, KEY, MODEL, PARAMETERS, V1, WEATHER, get_weather
from qwen_agent.agents import Assistant
from qwen_agent.llm import get_chat_model
from qwen_agent.tools.base import BaseTool, register_tool

CONFIG = {"model": MODEL, "model_type": "oai", "model_server": V1, "api_key": KEY, "generate_cfg": {"use_raw_api": True}}


@register_tool("get_weather")
class Weather(BaseTool):
    description = "The weather in a city"
    parameters = PARAMETERS

    def call(self, params, **_):
        return get_weather(self._verify_json_format_args(params)["city"])


def chat():
    return get_chat_model(CONFIG).chat([{"role": "user", "content": CAPITAL}], stream=False)[-1]["content"]


def stream():
    return [part[-1]["content"] for part in get_chat_model(CONFIG).chat([{"role": "user", "content": CAPITAL}], stream=True)]


def tools():
    return list(Assistant(llm=CONFIG, function_list=["get_weather"]).run([{"role": "user", "content": WEATHER}]))[-1]
