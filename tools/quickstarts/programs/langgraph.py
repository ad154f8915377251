from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from asked import CAPITAL, KEY, MODEL, V1, WEATHER, called_for, get_weather

agent = create_agent(ChatOpenAI(model=MODEL, base_url=V1, api_key=KEY), tools=[get_weather])


def chat():
    return agent.invoke({"messages": [{"role": "user", "content": CAPITAL}]})["messages"][-1].text


def stream():
    return [chunk.text for chunk, _ in agent.stream({"messages": [{"role": "user", "content": CAPITAL}]}, stream_mode="messages")]


def tools():
    agent.invoke({"messages": [{"role": "user", "content": WEATHER}]})
    return called_for
