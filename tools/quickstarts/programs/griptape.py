from asked import CAPITAL, KEY, MODEL, V1
from griptape.drivers.prompt.openai import OpenAiChatPromptDriver
from griptape.structures import Agent
from griptape.utils import Stream


def agent(**more):
    driver = OpenAiChatPromptDriver(model=MODEL, base_url=V1, api_key=KEY, **more)
    return Agent(prompt_driver=driver)


def chat():
    return agent().run(CAPITAL).output.value


def stream():
    return [part.value for part in Stream(agent(stream=True)).run(CAPITAL)]
