from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from asked import CAPITAL, KEY, MODEL, V1, WEATHER, called_for, get_weather

set_tracing_disabled(True)


def agent(kind, **more):
    return Agent(name="Assistant", model=kind(model=MODEL, openai_client=AsyncOpenAI(base_url=V1, api_key=KEY)),
                 model_settings=ModelSettings(temperature=0), **more)


async def chat():
    return (await Runner.run(agent(OpenAIChatCompletionsModel), CAPITAL)).final_output


async def chat_responses():
    return (await Runner.run(agent(OpenAIResponsesModel), CAPITAL)).final_output


async def stream():
    result = Runner.run_streamed(agent(OpenAIResponsesModel), CAPITAL)
    return [event.data.delta async for event in result.stream_events()
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta"]


async def tools():
    await Runner.run(agent(OpenAIResponsesModel, tools=[function_tool(get_weather)]), WEATHER)
    return called_for
