from asked import CAPITAL, KEY, MODEL, V1
from crewai import LLM, Agent, Crew, Task

model = LLM(model=f"openai/{MODEL}", base_url=V1, api_key=KEY, temperature=0)


def chat():
    return model.call([{"role": "user", "content": CAPITAL}])


def chat_of_a_crew():
    agent = Agent(role="Geographer", goal="Answer questions", backstory="You know all capitals.", llm=model)
    task = Task(description=CAPITAL, expected_output="The city", agent=agent)
    return Crew(agents=[agent], tasks=[task]).kickoff().raw
