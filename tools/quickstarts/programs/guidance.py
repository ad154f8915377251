from asked import CAPITAL, FORM, KEY, MODEL, V1
from guidance import assistant, gen, json, models, user
from pydantic import BaseModel


class City(BaseModel):
    city: str
    country: str


def ask(text, answer):
    model = models.OpenAI(MODEL, echo=False, base_url=V1, api_key=KEY)
    with user():
        model += text
    with assistant():
        model += answer
    return model["answer"]


def chat():
    return ask(CAPITAL, gen("answer", max_tokens=100))


def structured():
    return City.model_validate_json(ask(FORM, json("answer", schema=City))).city
