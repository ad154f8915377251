from crewai import LLM
from pydantic import BaseModel
from asked import CAPITAL, FORM, KEY, MODEL, TOOL, V1, WEATHER, called_for, get_weather


class City(BaseModel):
    city: str
    country: str


def model(**more):
    return LLM(model=f"openai/{MODEL}", base_url=V1, api_key=KEY, **more)


def chat():
    return model().call(CAPITAL)


def tools():
    model().call(WEATHER, tools=[TOOL], available_functions={"get_weather": get_weather})
    return called_for


def structured():
    answer = model(response_format=City).call(FORM)
    return (answer if isinstance(answer, City) else City.model_validate_json(answer)).city
