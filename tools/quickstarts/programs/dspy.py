import dspy
from asked import CAPITAL, FORM, KEY, MODEL, V1

dspy.configure(lm=dspy.LM(f"openai/{MODEL}", api_base=V1, api_key=KEY, max_tokens=300, cache=False), adapter=dspy.JSONAdapter())


def chat():
    return dspy.settings.lm(CAPITAL)[0]["text"] if isinstance(dspy.settings.lm(CAPITAL)[0], dict) else dspy.settings.lm(CAPITAL)[0]


def structured():
    return dspy.Predict("text -> city, country")(text=FORM).city
