from google.adk.agents import LlmAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.genai import types
from asked import CAPITAL, KEY, MODEL, ROOT, V1, WEATHER, called_for, get_weather

OPENAI = {"model": f"openai/{MODEL}", "api_base": V1}
OLLAMA = {"model": f"ollama_chat/{MODEL}", "api_base": ROOT}


async def parts(way, question, stream=False, **more):
    runner = InMemoryRunner(agent=LlmAgent(name="helper", model=LiteLlm(**way, api_key=KEY), **more), app_name="quickstart")
    session = await runner.session_service.create_session(app_name="quickstart", user_id="me")
    settings = RunConfig(streaming_mode=StreamingMode.SSE if stream else StreamingMode.NONE)
    asked = types.Content(role="user", parts=[types.Part(text=question)])
    events = [event async for event in runner.run_async(user_id="me", session_id=session.id, new_message=asked, run_config=settings)]
    return [part.text for event in events if event.content for part in event.content.parts if part.text and bool(event.partial) == stream]


async def chat():
    return "".join(await parts(OPENAI, CAPITAL))


async def chat_ollama():
    return "".join(await parts(OLLAMA, CAPITAL))


async def stream():
    return await parts(OPENAI, CAPITAL, stream=True)


async def stream_ollama():
    return await parts(OLLAMA, CAPITAL, stream=True)


async def tools():
    await parts(OPENAI, WEATHER, tools=[get_weather])
    return called_for
