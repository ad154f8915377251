"""Text for calibration and tuning that shares nothing with the evaluation: the model's own answers to made-up
prompts (sampled), and any plain text files given. Rows are packed to a fixed length."""
import random

import torch

from common import DEVICE

WORDS = ("river mountain lantern copper velvet thunder meadow anchor candle marble orchid falcon timber harbor crystal "
         "saddle pepper willow magnet puzzle ribbon cactus donkey engine feather glacier hammer island jungle kettle "
         "ladder mirror needle oyster pillow quartz rocket spider tunnel umbrella violin walnut yogurt zipper history "
         "music physics gardening cooking chess football painting economics biology medicine astronomy poetry law "
         "computers networks databases compilers algorithms statistics geometry trains bridges oceans volcanoes birds "
         "bread coffee tea bicycles sailing photography theatre languages friendship sleep memory climate energy").split()
NAMES = "Alice Bob Carol David Emma Frank Grace Henry Iris Jack Karen Liam Nina Oscar Paula Ravi Sofia Victor".split()
CITIES = "Paris London Berlin Madrid Tokyo Cairo Lima Dublin Vienna Prague Athens Boston Sydney Seoul Nairobi".split()
SYSTEMS = [None, None, None, "You are a helpful assistant.", "You are a careful assistant. Answer briefly.",
           "You are an expert programmer.", "You are a creative writer.", "You are a patient teacher."]
CHAT = ["What is {}?", "Explain {} to a beginner.", "Write a short paragraph about {}.", "Give three facts about {}.",
        "Write a story that includes the word {}.", "How does {} work?", "Why do people care about {}?",
        "Write a Python function related to {}.", "Give me five tips about {}.", "Write an email about {}.",
        "What is the history of {}?", "Compare {} and {}.", "Write a poem about {}.", "List the advantages of {}.",
        "What would happen without {}?", "Write a dialogue about {}.", "Suggest a name for a shop selling {}.",
        "Summarise what is known about {}.", "Give a definition of {}.", "Ask me three questions about {}."]
TOOLS = [("get_weather", "Get the current weather for a city", "city"), ("search_files", "Search files", "query"),
         ("set_timer", "Set a timer", "minutes"), ("translate_text", "Translate text", "text")]


def task(r):
    a, b, c = r.randint(1, 999), r.randint(1, 999), r.randint(2, 12)
    numbers = ", ".join(str(r.randint(0, 999)) for _ in range(r.randint(3, 8)))
    words = r.sample(WORDS, 6)
    name, city = r.choice(NAMES), r.choice(CITIES)
    return r.choice([
        f"What is {a} + {b}?", f"What is {max(a, b)} - {min(a, b)}?", f"What is {a % 100} times {c}?",
        f"Sort these numbers in ascending order: {numbers}", f"What is the largest number in this list: {numbers}?",
        f"Sort these words alphabetically: {', '.join(words)}", f'Reverse the word "{words[0]}".',
        f"Is {a * 7} even or odd?", f"Which is larger, {a} or {b}?",
        f"What is the next number in the sequence {a}, {a + c}, {a + 2 * c}, {a + 3 * c}?",
        f"{name} has {a % 60} coins and gets {b % 30} more. How many coins does {name} have now?",
        f"Extract the following fields as JSON: name, city.\n\nText: {name} Baker wrote to us. {name} lives in {city}.",
        f"The secret code for {words[0]} is {a * 31}. The sky was grey all day.\n\nWhat is the secret code for {words[0]}?",
        f"Given these values:\n{words[1]}: {a}\n{words[2]}: {b}\n{words[3]}: {c}\n\nWhat is the value of {words[2]}?",
        f"What does this Python code print?\n```python\nx = {c}\ny = {b % 20}\nprint(x * 2 + y)\n```",
    ])


def prompts(tokenizer, template, n, seed):
    r, out = random.Random(seed), []
    for _ in range(n):
        kind, messages, tools = r.random(), [], None
        system = r.choice(SYSTEMS)
        if system:
            messages.append({"role": "system", "content": system})
        if kind < 0.12:  # the model invents the user's turn as well
            out.append(tokenizer.encode("<|im_start|>user\n" + r.choice(["", "What", "How", "Write", "I", "Can you"]),
                                        add_special_tokens=False).ids)
            continue
        if kind < 0.62:
            pattern = r.choice(CHAT)
            text = pattern.format(*r.sample(WORDS, pattern.count("{}")))
        elif kind < 0.92:
            text = task(r)
        else:
            name, what, arg = r.choice(TOOLS)
            tools = [{"type": "function", "function": {"name": name, "description": what, "parameters": {
                "type": "object", "properties": {arg: {"type": "string"}}, "required": [arg]}}}]
            text = f"Please use the tool {name} for {r.choice(WORDS + CITIES)}."
        messages.append({"role": "user", "content": text})
        text = template.render(messages=messages, tools=tools, enable_thinking=r.random() < 0.4,
                               add_generation_prompt=True)
        out.append(tokenizer.encode(text, add_special_tokens=False).ids)
    return out


@torch.no_grad()
def answers(model, rows, new_tokens, batch=512):
    """Samples an answer to each prompt; returns prompt + answer, cut after the end of turn."""
    out = []
    rows = sorted(rows, key=len)
    for i in range(0, len(rows), batch):
        part = rows[i:i + batch]
        n = max(map(len, part))
        ids = torch.tensor([[0] * (n - len(r)) + r for r in part], device=DEVICE)
        mask = torch.tensor([[0] * (n - len(r)) + [1] * len(r) for r in part], device=DEVICE)
        full = model.generate(ids, attention_mask=mask, max_new_tokens=new_tokens, do_sample=True, temperature=0.8,
                              top_k=0, top_p=0.97, eos_token_id=[2, 0], pad_token_id=0)
        for r, row in zip(part, full[:, n:].tolist()):
            end = next((k for k, t in enumerate(row) if t in (0, 2)), len(row) - 1)
            out.append(r + row[:end + 1])
    return out


def pack(rows, length, seed):
    r = random.Random(seed)
    r.shuffle(rows)
    flat = [t for row in rows for t in row]
    return torch.tensor(flat[:len(flat) // length * length]).view(-1, length)
