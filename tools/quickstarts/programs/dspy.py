import dspy
from asked import CAPITAL, FORM, KEY, MODEL, V1

dspy.configure(lm=dspy.LM(f"openai/{MODEL}", api_base=V1, api_key=KEY, max_tokens=300, cache=False), adapter=dspy.JSONAdapter())


def chat():
    answer = dspy.settings.lm(CAPITAL)[0]
    return answer["text"] if isinstance(answer, dict) else answer


def structured():
    return dspy.Predict("text -> city, country")(text=FORM).city
