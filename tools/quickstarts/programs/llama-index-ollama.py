from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.ollama import Ollama
from pydantic import BaseModel
from asked import CAPITAL, FORM, MODEL, ROOT, WEATHER, called_for, get_weather

model = Ollama(model=MODEL, base_url=ROOT, request_timeout=120)


class City(BaseModel):
    """A city"""
    city: str
    country: str


def chat():
    return model.complete(CAPITAL).text


def stream():
    return [part.delta or "" for part in model.stream_chat([ChatMessage(role="user", content=CAPITAL)])]


def tools():
    model.predict_and_call([FunctionTool.from_defaults(get_weather)], WEATHER)
    return called_for


def structured():
    return model.as_structured_llm(City).complete(FORM).raw.city
