from haystack.dataclasses import ChatMessage
from haystack_integrations.components.generators.ollama import OllamaChatGenerator
from asked import CAPITAL, MODEL, ROOT


def chat():
    return OllamaChatGenerator(model=MODEL, url=ROOT).run([ChatMessage.from_user(CAPITAL)])["replies"][0].text


def stream():
    parts = []
    OllamaChatGenerator(model=MODEL, url=ROOT, streaming_callback=lambda chunk: parts.append(chunk.content)).run([ChatMessage.from_user(CAPITAL)])
    return parts
