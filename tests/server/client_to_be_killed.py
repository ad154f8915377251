"""A client that asks for an answer which takes long, and says when it is on its way: client_to_be_killed.py BASE MODEL STREAM(0 or 1)"""

import sys

import openai

ASK = [{"role": "user", "content": "Tell me a long story about a river, its two arms, and the people there."}]
# Nearly uniform sampling keeps a small model from ending early; -1: no limit on the answer.
OPTIONS = {"messages": ASK, "temperature": 5.0, "top_p": 1.0, "seed": 3, "max_tokens": -1, "extra_body": {"top_k": 0, "min_p": 0}}


def ask(base, model, stream):
    client = openai.OpenAI(base_url=base, api_key="none", max_retries=0)
    if not stream:
        print("asking", flush=True)
        client.chat.completions.create(model=model, **OPTIONS)
        return
    for chunk in client.chat.completions.create(model=model, stream=True, **OPTIONS):
        delta = chunk.choices[0].delta if chunk.choices else None
        if delta and (delta.content or getattr(delta, "reasoning_content", None)):
            print("streaming", flush=True)


ask(sys.argv[1], sys.argv[2], sys.argv[3] == "1")
