from asked import CAPITAL, KEY, MODEL, ROOT, V1, WEATHER, get_weather
from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types

OPENAI = {"model": f"openai/{MODEL}", "api_base": V1, "api_key": KEY}
OLLAMA = {"model": f"ollama_chat/{MODEL}", "api_base": ROOT}


async def events(text, model, tools=(), **config):
    runner = InMemoryRunner(LlmAgent(name="assistant", model=LiteLlm(**model), tools=list(tools)), app_name="quickstart")
    session = await runner.session_service.create_session(app_name="quickstart", user_id="user")
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [event async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message, run_config=RunConfig(**config))]


def texts(told):
    return [part.text for event in told for part in event.content.parts if part.text]


async def chat():
    return texts(await events(CAPITAL, OPENAI))[-1]


async def chat_ollama():
    return texts(await events(CAPITAL, OLLAMA))[-1]


async def stream():
    return texts(event for event in await events(CAPITAL, OPENAI, streaming_mode=StreamingMode.SSE) if event.partial)


async def tools():
    told = await events(WEATHER, OPENAI, [get_weather])
    return [call.args for event in told for call in event.get_function_calls()]
