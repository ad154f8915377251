import json
import os

from asked import CAPITAL, FORM, MODEL, ROOT, SCHEMA, WEATHER, called_for, get_weather

os.environ["OLLAMA_HOST"] = ROOT
import llm  # noqa: E402

model = llm.get_model("ollama/" + MODEL)


def chat():
    return model.prompt(CAPITAL, stream=False).text()


def stream():
    return list(model.prompt(CAPITAL))


def tools():
    model.prompt(WEATHER, tools=[get_weather]).execute_tool_calls()
    return called_for


def structured():
    return json.loads(model.prompt(FORM, schema=SCHEMA, stream=False).text())["city"]
