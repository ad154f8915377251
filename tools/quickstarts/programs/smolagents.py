from smolagents import LiteLLMModel, OpenAIServerModel, ToolCallingAgent, tool
from asked import CAPITAL, KEY, MODEL, ROOT, V1, WEATHER, called_for, get_weather

model = OpenAIServerModel(model_id=MODEL, api_base=V1, api_key=KEY)
MESSAGES = [{"role": "user", "content": [{"type": "text", "text": CAPITAL}]}]


def chat():
    return model(MESSAGES).content


def chat_ollama():
    return LiteLLMModel(model_id=f"ollama_chat/{MODEL}", api_base=ROOT, api_key=KEY)(MESSAGES).content


def stream():
    return [part.content or "" for part in model.generate_stream(MESSAGES)]


def tools():
    ToolCallingAgent(tools=[tool(get_weather)], model=model, max_steps=1, verbosity_level=0).run(WEATHER)
    return called_for
