from asked import CAPITAL, KEY, MODEL, V1, WEATHER, get_weather
from smolagents import OpenAIModel, ToolCallingAgent, tool

model = OpenAIModel(model_id=MODEL, api_base=V1, api_key=KEY)
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": CAPITAL}]}]


def chat():
    return model.generate(MESSAGES).content


def stream():
    return [part.content or "" for part in model.generate_stream(MESSAGES)]


def tools():
    agent = ToolCallingAgent(tools=[tool(get_weather)], model=model, max_steps=2, verbosity_level=0)
    agent.run(WEATHER)
    return agent.memory.steps[1].tool_calls[0].arguments
