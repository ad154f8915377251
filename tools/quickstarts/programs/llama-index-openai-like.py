from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike
from asked import CAPITAL, KEY, MODEL, V1, WEATHER, called_for, get_weather

model = OpenAILike(model=MODEL, api_base=V1, api_key=KEY, is_chat_model=True, is_function_calling_model=True)


def chat():
    return model.complete(CAPITAL).text


def stream():
    return [part.delta for part in model.stream_chat([ChatMessage(role="user", content=CAPITAL)])]


def tools():
    model.predict_and_call([FunctionTool.from_defaults(get_weather)], WEATHER)
    return called_for
