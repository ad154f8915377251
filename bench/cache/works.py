"""The requests: a long tool schema, a conversation, an agent's calls. All made from a seed; nothing here talks to a
server."""

import json
import random

AREAS = {
    "calendar": ("event", ["title", "start_time", "end_time", "attendees", "location", "reminder_minutes"]),
    "mail": ("message", ["recipient", "subject", "body", "attachments", "priority", "folder"]),
    "files": ("file", ["path", "encoding", "recursive", "pattern", "max_bytes", "overwrite"]),
    "orders": ("order", ["order_id", "customer_id", "currency", "status", "line_items", "warehouse"]),
    "tickets": ("ticket", ["ticket_id", "assignee", "severity", "labels", "component", "due_date"]),
    "weather": ("forecast", ["city", "country_code", "unit", "days", "include_hourly", "language"]),
    "database": ("record", ["table", "filter", "columns", "limit", "offset", "order_by"]),
    "payments": ("invoice", ["invoice_id", "amount_cents", "currency", "due_date", "method", "memo"]),
    "travel": ("booking", ["origin", "destination", "departure_date", "return_date", "passengers", "cabin"]),
    "repository": ("branch", ["repository", "branch", "commit", "path", "author", "since"]),
    "contacts": ("contact", ["name", "email", "phone", "company", "tags", "notes"]),
    "sensors": ("reading", ["device_id", "metric", "from_time", "to_time", "resolution", "aggregate"]),
}
VERBS = ["create", "search", "update", "delete", "list", "export", "share", "archive", "summarise", "validate"]
TYPES = {"reminder_minutes": "integer", "max_bytes": "integer", "limit": "integer", "offset": "integer",
         "days": "integer", "passengers": "integer", "amount_cents": "integer", "recursive": "boolean",
         "overwrite": "boolean", "include_hourly": "boolean", "attendees": "array", "attachments": "array",
         "labels": "array", "columns": "array", "tags": "array", "line_items": "array"}
CHOICES = {"priority": ["low", "normal", "high"], "status": ["open", "paid", "shipped", "cancelled"],
           "severity": ["trivial", "minor", "major", "critical"], "unit": ["celsius", "fahrenheit"],
           "method": ["card", "transfer", "cash"], "cabin": ["economy", "business", "first"],
           "aggregate": ["mean", "min", "max", "sum"], "currency": ["EUR", "USD", "GBP", "JPY"]}
REMARKS = ["Leave it out to use the default of the account.", "Must not be empty.", "At most 200 characters.",
           "Use ISO 8601 with a time zone, for example 2026-03-01T09:30:00+01:00.", "Case does not matter.",
           "Values the caller may not see are rejected with an error.", "Several values are joined with a logical and.",
           "Wildcards are allowed at the end only.", "See the administrator's handbook for the allowed range."]
WHEN = ["Call this only after the user has confirmed.", "Prefer this over a search when the identifier is known.",
        "The result is paged; call again with the next offset while has_more is true.",
        "Changes are logged and can be undone for 30 days.", "Fails when the object was changed in the meantime.",
        "Returns a JSON object with the fields id, url and updated_at."]


def property_of(rng, name, thing):
    kind = TYPES.get(name, "string")
    schema = {"type": kind, "description": f"The {name.replace('_', ' ')} of the {thing}. {rng.choice(REMARKS)}"}
    if kind == "array":
        schema["items"] = {"type": "string"}
    if name in CHOICES:
        schema["enum"] = CHOICES[name]
    return schema


def tool(rng, area, verb, fewest, most):
    thing, names = AREAS[area]
    chosen = rng.sample(names, rng.randint(fewest, most))
    return {"type": "function", "function": {
        "name": f"{area}_{verb}_{thing}",
        "description": f"{verb.capitalize()} a {thing} in {area}. {' '.join(rng.sample(WHEN, 2))}",
        "parameters": {"type": "object", "properties": {name: property_of(rng, name, thing) for name in chosen},
                       "required": chosen[:1]}}}


def tools(seed, count, fewest=2, most=5):
    """At most 120 tools of so many parameters; the first ones are the same whatever the count."""
    rng = random.Random(seed)
    pairs = [(area, verb) for verb in VERBS for area in AREAS]
    rng.shuffle(pairs)
    return [tool(rng, area, verb, fewest, most) for area, verb in pairs[:count]]


SYSTEM = ("You are the assistant of a small trading company. Use the functions when they help, ask when something"
          " is unclear, and answer in one or two plain sentences.")
QUESTIONS = [
    "Which open orders of customer 1042 are late, and who should be told?",
    "Please move tomorrow's meeting with the supplier to Friday at ten.",
    "How warm will it be in Lisbon on Sunday?",
    "Find the invoice over 1,250 euros from March and tell me whether it was paid.",
    "Who changed the file pricing.csv last week?",
    "Book a flight from Vienna to Oslo for two people on the third of May.",
    "Summarise the critical tickets that are assigned to nobody.",
    "What was the highest reading of sensor 17 in the cold store yesterday?",
]


def body(messages, max_tokens, thinking, tools=(), **more):
    request = {"messages": messages, "temperature": 0, "max_tokens": max_tokens,
               "chat_template_kwargs": {"enable_thinking": thinking}, **more}
    if tools:
        request["tools"] = list(tools)
    return request


def question(schema, number, max_tokens):
    text = QUESTIONS[number % len(QUESTIONS)]
    if number >= len(QUESTIONS):
        text += f" This is case {number}."
    return body([{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}], max_tokens, False, schema)


def fitting_tools(seed, target, count_tokens):
    """As many tools as render to at most `target` tokens; count_tokens(request)."""
    low, high = 1, 120
    while low < high:
        middle = (low + high + 1) // 2
        if count_tokens(question(tools(seed, middle), 0, 1)) <= target:
            low = middle
        else:
            high = middle - 1
    return tools(seed, low)


# ---- a conversation

TALK = "You are a friendly assistant for people who plan small projects at home. Answer in one or two plain sentences."
CONVERSATION = [
    "I am making a list of what we have in the kitchen, so that we only buy what is missing. There is a bag of flour,"
    " two packs of rice, half a bottle of oil, some salt and pepper, a box of tea and a jar of honey. There are also 12"
    " apples in a bowl on the table, and this morning I bought 7 more. How many apples do I have?",
    "Good. My daughter is learning to program at school, and she would like to write a small program that keeps this"
    " list for us. She has only used numbers and text so far, no lists and no files, and she prefers short examples"
    " that she can try at once. Write a Python function that adds two numbers.",
    "She says thank you. Now the next thing: for the party on Saturday we invited the families from our street and the"
    " colleagues from the office. From the street there come 17 people, and from the office there come 25 people;"
    " nobody else has answered, and I do not think that there will be more. What is 17 plus 25?",
    "For dessert I would like to have something light, since the cake from the bakery is heavy and not everybody likes"
    " chocolate. It should be something that children like too, that needs no cooking, and that one can buy in every"
    " shop at this time of the year without paying too much for it. Name three fruits.",
    "One more thing, and then I will let you go. The shop told me that they deliver on the day after Monday, early in"
    " the morning, and that somebody must be at home to take the boxes, because they may not leave them at the door. I"
    " have to tell my husband. Which day comes after Monday?",
]


def conversation_turn(history, turn, max_tokens):
    start = [] if history else [{"role": "system", "content": TALK}]
    return body([*start, *history, {"role": "user", "content": CONVERSATION[turn]}], max_tokens, True)


# ---- an agent's calls

AGENT_TOOLS = 20

WORDS = ("order customer late shipped warehouse pending Vienna Lisbon invoice paid total amount review closed open"
         " urgent pallet label carrier delay Friday March supplier contract draft signed updated owner note price"
         " stock").split()
TASKS = [  # what the user asks, and how many tools are called before the answer
    ("Check which orders of customer 1042 are late and tell me why.", 3),
    ("Now look whether the carrier has sent a message about it.", 2),
    ("Open a ticket for it, with high severity, and put it into the calendar of the team.", 3),
    ("How is the weather where the truck is stuck?", 1),
    ("Compare the last three invoices of that supplier and look for mistakes in them.", 4),
    ("Write a short summary for the management.", 0),
]
BRANCHES = [  # after which task a copy of the conversation goes on, and with what
    (1, [("Forget the carrier. Find the contract in the files and check what it says about delays.", 3),
         ("Send the relevant paragraph to the customer.", 1)]),
    (3, [("Is there a similar case in the tickets of last year?", 2), ("Then archive the old ones, please.", 1)]),
]


def agent_tools(seed):
    return tools(seed, AGENT_TOOLS, 1, 2)


def tool_call(rng, schema, number):
    function = rng.choice(schema)["function"]
    arguments = {}
    for name, kind in function["parameters"]["properties"].items():
        value = {"integer": rng.randint(1, 5000), "boolean": rng.random() < 0.5,
                 "array": rng.sample(WORDS, 2)}.get(kind["type"])
        arguments[name] = value if value is not None else rng.choice(kind.get("enum", WORDS))
    return {"role": "assistant", "content": "", "tool_calls": [
        {"id": f"call_{number}", "type": "function",
         "function": {"name": function["name"], "arguments": json.dumps(arguments)}}]}


def tool_result(rng, number):
    rows = [{"id": rng.randint(1000, 9999), "state": rng.choice(WORDS), "note": " ".join(rng.choices(WORDS, k=6)),
             "amount": rng.randint(100, 99999) / 100} for _ in range(rng.choice([0, 1, 1, 2, 4, 8]))]
    return {"role": "tool", "tool_call_id": f"call_{number}", "content": json.dumps({"rows": rows, "has_more": False})}


def plain(answer):
    """The answer, unless it has the spelling of special tokens in it: a server does not take those for tokens."""
    return answer if answer and "<" not in answer else "That is all I found."


def agent_calls(seed, schema, max_tokens, answer):
    """Yields the agent's requests one after the other. The tool calls that the model is taken to have made are
    scripted; answer(request's number) is the text that a task's last request got."""
    rng, number = random.Random(seed), 0
    start = [{"role": "system", "content": SYSTEM}]

    def work(history, tasks, kept):
        nonlocal number
        for task, (text, calls) in enumerate(tasks):
            history.append({"role": "user", "content": text})
            for call in range(calls + 1):
                yield body(list(history), max_tokens, False, schema)
                number += 1
                if call < calls:
                    history += [tool_call(rng, schema, number), tool_result(rng, number)]
            history.append({"role": "assistant", "content": answer(number - 1)})
            kept[task] = list(history)

    kept = {}
    yield from work(start, TASKS, kept)
    for after, tasks in BRANCHES:
        yield from work(list(kept[after]), tasks, {})
