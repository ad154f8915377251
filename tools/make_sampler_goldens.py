#!/usr/bin/env python3
"""What samplers must do, by a plain Python reading of their definitions (docs/sampling.md): writes
tests/decode/data/samplers.json. Needs nothing but Python, and shares nothing with the program.

usage: make_sampler_goldens.py [FILE]"""

import json
import math
import pathlib
import random
import sys

FILE = pathlib.Path(__file__).resolve().parent.parent / "tests/decode/data/samplers.json"
WORDS = ["a", "b", "c", "d", ":", "x:", "\n", "-", "->", ">", "end", '"', "*", " "]


def softmax(logits, temperature=1.0):
    """logits: {token: logit}"""
    top = max(logits.values())
    weights = {token: math.exp((logit - top) / temperature) for token, logit in logits.items()}
    total = sum(weights.values())
    return {token: weight / total for token, weight in weights.items()}


def by_rank(values):
    return sorted(values, key=lambda token: (-values[token], token))


def entropy(p):
    return -sum(x * math.log(x) for x in p.values() if x > 0)


def until(tokens, p, share):
    """The first of the tokens that reach this share of the probability."""
    kept, reached = [], 0.0
    for token in tokens:
        if kept and reached >= share:
            break
        kept.append(token)
        reached += p[token]
    return kept


def sigma(logits, n):
    mean = sum(logits.values()) / len(logits)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in logits.values()) / len(logits))
    return {t: x for t, x in logits.items() if x >= max(logits.values()) - n * deviation}


def typical(logits, share):
    p = softmax(logits)
    mean = entropy(p)
    order = sorted(logits, key=lambda t: (abs(-math.log(p[t]) - mean), -logits[t], t))
    return {t: logits[t] for t in until(order, p, share)}


def zipf_count(logits, mu, vocab):
    ranked = [logits[t] for t in by_rank(logits)][:100]
    ratios = [math.log((i + 2) / (i + 1)) for i in range(len(ranked) - 1)]
    exponent = sum(r * (a - b) for r, a, b in zip(ratios, ranked, ranked[1:])) / sum(r * r for r in ratios)
    excess = exponent - 1
    return max(1, int(((excess * 2 ** mu) / (1 - vocab ** -excess)) ** (1 / exponent)))


def mirostat(logits, version, mu):
    p = softmax(logits)
    ranked = by_rank(logits)
    if version == 1:
        kept = ranked[:zipf_count(logits, mu, len(logits))]
    else:
        kept = [t for i, t in enumerate(ranked) if i == 0 or -math.log2(p[t]) <= mu]
    return {t: logits[t] for t in kept}


def distribution(logits, params, mu=None):
    """The probabilities from which the next token is drawn."""
    get = {"temperature": 1.0, "top_k": 0, "top_n_sigma": 0, "typical_p": 1, "top_p": 1, "min_p": 0, "dynatemp_range": 0,
           "dynatemp_exponent": 1, "mirostat": 0} | params
    temperature = get["temperature"]
    if get["mirostat"]:
        return softmax(mirostat({t: x / temperature for t, x in logits.items()}, get["mirostat"], mu))
    if get["top_n_sigma"] > 0:
        logits = sigma(logits, get["top_n_sigma"])
    if get["top_k"] > 0:
        logits = {t: logits[t] for t in by_rank(logits)[:get["top_k"]]}
    if get["typical_p"] < 1:
        logits = typical(logits, get["typical_p"])
    dynamic = get["dynatemp_range"] > 0
    if not dynamic and temperature == 0:
        return {by_rank(logits)[0]: 1.0}
    if not dynamic:
        logits = {t: x / temperature for t, x in logits.items()}
    p = softmax(logits)
    if get["top_p"] < 1:
        logits = {t: logits[t] for t in until(by_rank(logits), p, get["top_p"])}
    logits = {t: x for t, x in logits.items() if p[t] >= get["min_p"] * max(p.values())}
    if not dynamic:
        return softmax(logits)
    most = math.log(len(logits)) if len(logits) > 1 else 1
    low, high = max(0, temperature - get["dynatemp_range"]), temperature + get["dynatemp_range"]
    chosen = low + (high - low) * (entropy(softmax(logits)) / most) ** get["dynatemp_exponent"]
    return softmax(logits, chosen)


def filters(chance):
    settings = [{"top_n_sigma": n, "temperature": t} for n in (0.5, 1, 2.5) for t in (0.6, 1, 3)]
    settings += [{"typical_p": p, "temperature": t} for p in (0.1, 0.5, 0.95) for t in (0, 0.4, 1, 2)]
    settings += [{"dynatemp_range": r, "dynatemp_exponent": e, "temperature": t}
                 for r, e, t in ((0.5, 1, 1), (1.5, 1, 1), (0.7, 2.5, 0.5), (0.8, 0.5, 0), (3, 1, 2))]
    settings += [
        {"top_k": 12, "typical_p": 0.6, "temperature": 0.8},
        {"typical_p": 0.9, "top_p": 0.7, "temperature": 1.5},
        {"typical_p": 0.8, "min_p": 0.1, "temperature": 0.7},
        {"top_n_sigma": 1.2, "top_k": 20, "typical_p": 0.7, "top_p": 0.9, "min_p": 0.02, "temperature": 1.3},
        {"dynatemp_range": 0.6, "top_k": 15, "typical_p": 0.9, "top_p": 0.95, "min_p": 0.01, "temperature": 0.9},
    ]
    cases = []
    for params in settings:
        scale = chance.choice((1, 2, 4))
        logits = [round(chance.gauss(0, scale), 4) for _ in range(40)]
        p = distribution(dict(enumerate(logits)), params)
        cases.append({"params": params, "logits": logits, "probabilities": [p.get(t, 0) for t in range(40)]})
    return cases


def chains(chance):
    """Answers of some tokens: the distribution at each, and Mirostat's mu after each token that may be drawn."""
    out = []
    for version in (1, 2):
        for tau, eta, temperature in ((2, 0.3, 1), (4, 0.1, 0.7), (1, 0.8, 1.5)):
            params = {"mirostat": version, "mirostat_tau": tau, "mirostat_eta": eta, "temperature": temperature}
            mu, steps = 2 * tau, []
            for _ in range(6):
                logits = [round(chance.gauss(0, 2.5), 4) for _ in range(40)]
                p = distribution(dict(enumerate(logits)), params, mu)
                after = {t: mu - eta * (-math.log2(x) - tau) for t, x in p.items()}
                token = by_rank(p)[min(len(p) - 1, chance.randrange(3))]
                steps.append({"logits": logits, "probabilities": [p.get(t, 0) for t in range(40)],
                              "mu_after": [after.get(t, 0) for t in range(40)], "token": token})
                mu = after[token]
            out.append({"params": params, "steps": steps})
    return out


def ends_in(texts, at, breakers):
    """Whether a breaker ends in this token."""
    before, text = "".join(texts[:at]), "".join(texts[:at + 1])
    return any(text.endswith(breaker, 0, end) for breaker in breakers for end in range(len(before) + 1, len(text) + 1))


def repetitions(tokens, params):
    """{token: how long a repetition it would lengthen}, by looking at every earlier place."""
    allowed, last_n = params["dry_allowed_length"], params["dry_penalty_last_n"]
    texts = [WORDS[t] for t in tokens]
    borders = [ends_in(texts, i, params["dry_sequence_breakers"]) for i in range(len(tokens))]
    if last_n >= 0:
        tokens, borders = tokens[max(0, len(tokens) - last_n):], borders[max(0, len(tokens) - last_n):]
    most = borders[::-1].index(True) if True in borders else len(tokens)
    found = {}
    for at in range(1, len(tokens)):
        length = 0
        while length < at and length < most and tokens[at - 1 - length] == tokens[-1 - length]:
            length += 1
        if length >= allowed:
            found[tokens[at]] = max(found.get(tokens[at], 0), length)
    return found


def histories(chance):
    cases = []
    for i in range(300):
        params = {"dry_multiplier": chance.choice((0.5, 0.8, 2)), "dry_base": chance.choice((1, 1.75, 3)),
                  "dry_allowed_length": chance.choice((0, 1, 2, 4)), "dry_penalty_last_n": chance.choice((-1, -1, 1, 7, 20, 500)),
                  "dry_sequence_breakers": chance.choice(([], ["\n", ":", '"', "*"], ["->"], ["end", "d-"], ["c:", "ab"]))}
        words = chance.choice((2, 3, len(WORDS)))
        tokens = [chance.randrange(words) for _ in range(chance.randrange(0, 60))]
        if tokens and i % 2:
            begin = chance.randrange(len(tokens))
            tokens += tokens[begin:begin + chance.randrange(1, 12)]
        penalties = {str(t): params["dry_multiplier"] * params["dry_base"] ** (n - params["dry_allowed_length"])
                     for t, n in repetitions(tokens, params).items()}
        cases.append({"params": params, "tokens": tokens, "prompt": chance.randrange(len(tokens) + 1), "penalties": penalties})
    return cases


def main():
    chance = random.Random(13)
    made = {"filters": filters(chance), "chains": chains(chance), "words": WORDS, "histories": histories(chance)}
    lines = [f'"{name}": [\n' + ",\n".join(json.dumps(one) for one in cases) + "\n]" for name, cases in made.items()]
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
