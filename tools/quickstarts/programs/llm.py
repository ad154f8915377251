import os
import subprocess
import sys

from asked import CAPITAL, FORM, MODEL, V1

LLM = [os.path.join(os.path.dirname(sys.executable), "llm")]
FOLDER = os.path.abspath("llm")


def llm(*arguments):
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "extra-openai-models.yaml"), "w") as file:
        file.write(f"- model_id: local\n  model_name: {MODEL}\n  api_base: {V1}\n  supports_schema: true\n")
    return subprocess.run([*LLM, "-m", "local", *arguments], check=True, capture_output=True, text=True,
                          env=os.environ | {"LLM_USER_PATH": FOLDER}).stdout


def chat():
    return llm("--no-stream", CAPITAL)


def chat_of_a_stream():
    return llm(CAPITAL)


def structured():
    return llm("--schema", "city, country", FORM)
