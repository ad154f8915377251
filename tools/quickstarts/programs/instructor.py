import instructor
from openai import OpenAI
from pydantic import BaseModel
from asked import FORM, KEY, MODEL, V1


class City(BaseModel):
    city: str
    country: str


def ask(mode):
    client = instructor.from_openai(OpenAI(base_url=V1, api_key=KEY), mode=mode)
    return client.chat.completions.create(model=MODEL, response_model=City, messages=[{"role": "user", "content": FORM}]).city


def structured_tools():
    return ask(instructor.Mode.TOOLS)


def structured_json():
    return ask(instructor.Mode.JSON)


def structured_schema():
    return ask(instructor.Mode.JSON_SCHEMA)
