import json

import openai
import outlines
from pydantic import BaseModel
from asked import CAPITAL, FORM, KEY, MODEL, V1

model = outlines.from_openai(openai.OpenAI(base_url=V1, api_key=KEY), MODEL)


class City(BaseModel):
    city: str
    country: str


def chat():
    return model(CAPITAL)


def stream():
    return list(model.stream(CAPITAL))


def structured():
    return City.model_validate_json(model(FORM, City)).city
