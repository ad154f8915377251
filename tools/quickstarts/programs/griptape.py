from griptape.drivers.prompt.openai import OpenAiChatPromptDriver
from griptape.structures import Agent
from griptape.tokenizers import SimpleTokenizer
from griptape.utils import Stream
from pydantic import BaseModel
from asked import CAPITAL, FORM, KEY, MODEL, V1


class City(BaseModel):
    city: str
    country: str


def agent(stream=False, **more):
    counter = SimpleTokenizer(characters_per_token=4, max_input_tokens=4096, max_output_tokens=1024)
    return Agent(prompt_driver=OpenAiChatPromptDriver(model=MODEL, base_url=V1, api_key=KEY, tokenizer=counter, stream=stream), **more)


def chat():
    return agent().run(CAPITAL).output.value


def stream():
    return [part.value for part in Stream(agent(stream=True)).run(CAPITAL)]


def structured():
    return agent(output_schema=City).run(FORM).output.value.city
