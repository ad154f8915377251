import aisuite
from asked import CAPITAL, KEY, MODEL, V1

client = aisuite.Client({"openai": {"base_url": V1, "api_key": KEY}})


def chat():
    return client.chat.completions.create(f"openai:{MODEL}", [{"role": "user", "content": CAPITAL}]).choices[0].message.content
