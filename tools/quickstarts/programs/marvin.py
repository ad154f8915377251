import marvin
from asked import FORM, KEY, MODEL, V1
from pydantic import BaseModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

agent = marvin.Agent(model=OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=V1, api_key=KEY)))


class City(BaseModel):
    city: str
    country: str


def structured():
    return marvin.cast(FORM, City, agent=agent).city
