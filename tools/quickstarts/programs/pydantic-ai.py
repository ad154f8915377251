from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from asked import CAPITAL, FORM, KEY, MODEL, V1, WEATHER, called_for, get_weather

provider = OpenAIProvider(base_url=V1, api_key=KEY)
model = OpenAIChatModel(MODEL, provider=provider)


class City(BaseModel):
    city: str
    country: str


def chat():
    return Agent(model).run_sync(CAPITAL).output


def chat_responses():
    return Agent(OpenAIResponsesModel(MODEL, provider=provider)).run_sync(CAPITAL).output


async def stream():
    async with Agent(model).run_stream(CAPITAL) as result:
        return [part async for part in result.stream_text(delta=True, debounce_by=None)]


def tools():
    Agent(model, tools=[get_weather]).run_sync(WEATHER)
    return called_for


def structured():
    return Agent(model, output_type=City).run_sync(FORM).output.city
