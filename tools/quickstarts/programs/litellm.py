import litellm
from asked import CAPITAL, KEY, MODEL, ROOT, TOOL, V1, WEATHER

MESSAGES = [{"role": "user", "content": CAPITAL}]
WAYS = {"openai": {"model": f"openai/{MODEL}", "api_base": V1}, "anthropic": {"model": f"anthropic/{MODEL}", "api_base": ROOT},
        "ollama": {"model": f"ollama_chat/{MODEL}", "api_base": ROOT}}


async def ask(way):
    return (await litellm.acompletion(**WAYS[way], api_key=KEY, messages=MESSAGES)).choices[0].message.content


async def parts(way):
    chunks = await litellm.acompletion(**WAYS[way], api_key=KEY, messages=MESSAGES, stream=True)
    return [chunk.choices[0].delta.content or "" async for chunk in chunks]


def tool_call(way):
    answer = litellm.completion(**WAYS[way], api_key=KEY, messages=[{"role": "user", "content": WEATHER}], tools=[TOOL])
    return answer.choices[0].message.tool_calls[0].function.arguments


def chat_openai():
    return ask("openai")


def chat_anthropic():
    return ask("anthropic")


def chat_ollama():
    return ask("ollama")


def stream_openai():
    return parts("openai")


def stream_anthropic():
    return parts("anthropic")


def stream_ollama():
    return parts("ollama")


def tools_openai():
    return tool_call("openai")


def tools_anthropic():
    return tool_call("anthropic")


def tools_ollama():
    return tool_call("ollama")
