"""Conversations for simulate.py, made up from a seed: what is said is not in them, only how long it is."""

import random
from dataclasses import dataclass

LONGEST = 65536  # tokens of a prompt; a conversation ends before it


@dataclass(frozen=True)
class App:
    """A program whose conversations begin with the same system prompt and tools."""

    name: str
    tokens: int


@dataclass(frozen=True)
class Turn:
    new: int  # tokens that the prompt has beyond the turn before and its answer
    answer: int
    pause: float  # seconds before it: a tool's work, or a person's reading and writing


@dataclass(frozen=True)
class Session:
    number: int
    begin: float
    app: App
    turns: tuple


@dataclass(frozen=True)
class Kind:
    """How a kind of conversation is drawn. Lengths are log-normal: (median, sigma, most)."""

    apps: tuple
    turns: tuple  # least and most, uniform
    first: tuple  # tokens of the first question
    new: tuple
    answer: tuple
    pause: float  # mean, exponential
    rate: float  # conversations that begin in a second, for each worker


AGENT = Kind(apps=tuple(App(f"agent-{i}", tokens) for i, tokens in enumerate((9000, 6500, 12000, 5000, 8000, 15000, 4000, 7000))),
             turns=(8, 40), first=(600, 0.9, 6000), new=(350, 1.2, 8000), answer=(120, 0.8, 1500), pause=3.0, rate=0.08)
CHAT = Kind(apps=tuple(App(f"chat-{i}", tokens) for i, tokens in enumerate((600, 250, 1500, 900))),
            turns=(1, 10), first=(120, 1.0, 4000), new=(60, 1.0, 4000), answer=(250, 0.7, 2000), pause=20.0, rate=0.3)


def length(rng, shape):
    median, sigma, most = shape
    return max(1, min(most, round(median * rng.lognormvariate(0, sigma))))


def session(rng, kind, number, begin):
    app = rng.choices(kind.apps, [1 / (i + 1) for i in range(len(kind.apps))])[0]
    turns, prompt = [], app.tokens
    for i in range(rng.randint(*kind.turns)):
        new = length(rng, kind.new if i else kind.first)
        turn = Turn(new, length(rng, kind.answer), rng.expovariate(1 / kind.pause) if i else 0.0)
        if prompt + new > LONGEST:
            break
        prompt += new + turn.answer
        turns.append(turn)
    return Session(number, begin, app, tuple(turns))


def sessions(seed, workers, seconds, kinds=(AGENT, CHAT)):
    """All conversations that begin within `seconds`, in order of their beginning."""
    rng, drawn = random.Random(seed), []
    for kind in kinds:
        at = rng.expovariate(kind.rate * workers)
        while at < seconds:
            drawn.append(session(rng, kind, len(drawn), at))
            at += rng.expovariate(kind.rate * workers)
    return sorted(drawn, key=lambda s: s.begin)
