from asked import CAPITAL, KEY, MODEL, V1
from langroid import ChatAgent, ChatAgentConfig
from langroid.language_models import OpenAIGPTConfig


def chat():
    config = OpenAIGPTConfig(chat_model=MODEL, api_base=V1, api_key=KEY, chat_context_length=4096, max_output_tokens=300)
    return ChatAgent(ChatAgentConfig(llm=config)).llm_response(CAPITAL).content
