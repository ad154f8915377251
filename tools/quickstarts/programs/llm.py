import json
import subprocess
import sys

import llm
import yaml
from asked import CAPITAL, FORM, KEY, MODEL, SCHEMA, V1, WEATHER, called_for, get_weather

with open(llm.user_dir() / "extra-openai-models.yaml", "w") as file:
    yaml.dump([{"model_id": "here", "model_name": MODEL, "api_base": V1, "supports_tools": True, "supports_schema": True}], file)
model = llm.get_model("here")


def chat():
    return subprocess.run([sys.executable, "-m", "llm", "-m", "here", "--key", KEY, "--no-stream", CAPITAL], check=True, capture_output=True,
                          text=True).stdout


def stream():
    return list(model.prompt(CAPITAL, key=KEY))


def tools():
    model.prompt(WEATHER, tools=[get_weather], key=KEY).execute_tool_calls()
    return called_for


def structured():
    return json.loads(model.prompt(FORM, schema=SCHEMA, key=KEY).text())["city"]
