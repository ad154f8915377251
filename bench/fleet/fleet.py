"""Workers, their prefix caches and the router, as simulate.py lets them run: a discrete-event simulation.

A worker does what docs/scheduling.md says. With nothing to read it makes decode-only steps. While it reads prompts and others
decode, a step takes `step_limit`, and prompts get what the decoding rows leave of it. Of several prompts the one with the
fewest tokens left is read first, less one for each token that was read while it waited. Between two events these rates are
constant, so time advances from event to event, and a request costs a handful of them."""

import heapq
from collections import OrderedDict, deque
from dataclasses import dataclass, field

FETCH_LEAST = 128  # tokens below which a state is computed rather than fetched
FETCH_PATIENCE = 2.0  # seconds after which a fetch is given up
TYPICAL_ANSWER = 128  # tokens, for the router: it does not know how long an answer will be
FETCH_LATENCY = 0.001  # seconds: asking, and the first byte


@dataclass(frozen=True)
class Policy:
    prefix_aware: bool  # the router knows who has which states; otherwise it takes the workers in turn
    shared: bool  # a worker fetches states from others


POLICIES = {"neither": Policy(False, False), "shared": Policy(False, True), "prefix": Policy(True, False),
            "both": Policy(True, True)}


@dataclass
class Request:
    session: object
    turn: int
    history: int  # tokens of earlier turns and their answers: what could be found
    prompt: int
    arrived: float
    found: int = 0
    fetched: int = 0
    work: float = 0.0  # seconds of prefill that are left
    order: float = 0.0  # among prompts that wait to be read

    @property
    def answer(self):
        return self.session.turns[self.turn].answer


class Cache:
    """States that a worker keeps, the least recently used leave first. A key is ("app", name) or ("session", number)."""

    def __init__(self, worker, capacity, holders, costs):
        self.worker, self.capacity, self.holders, self.costs = worker, capacity, holders, costs
        self.entries, self.bytes = OrderedDict(), 0

    def keep(self, key, tokens, shared=0):
        """A state after `tokens` tokens, of which another key's state has the first `shared` already."""
        old = self.entries.pop(key, None)
        if old:
            self.bytes -= old[1]
            tokens = max(tokens, old[0])
        size = self.costs.bytes(tokens - shared)
        self.entries[key] = (tokens, size)
        self.bytes += size
        self.holders.setdefault(key, {})[self.worker] = tokens
        while self.bytes > self.capacity:
            gone, (_, size) = self.entries.popitem(last=False)
            self.bytes -= size
            del self.holders[gone][self.worker]

    def find(self, request):
        for key in keys(request):
            if key in self.entries:
                self.entries.move_to_end(key)
                return self.entries[key][0]
        return 0


def keys(request):
    return ("session", request.session.number), ("app", request.session.app.name)


class Worker:
    def __init__(self, number, costs, cache_bytes, holders):
        self.number, self.costs = number, costs
        self.cache = Cache(number, cache_bytes, holders, costs)
        self.now = 0.0
        self.steps = 0.0  # decode steps so far
        self.decoding = []  # heap: (step at which it ends, number, request)
        self.context = 0  # tokens of all decoding rows
        self.prompts = []  # heap: (order, number, request)
        self.backlog = 0.0  # seconds of prefill in all prompts
        self.read = 0.0  # seconds of prefill so far: the clock of the order
        self.waiting = deque()  # for a row or for memory
        self.coming = 0  # requests whose states are being fetched
        self.used = 0  # bytes of running requests
        self.link_in = self.link_out = 0.0  # when each direction of its network link is free
        self.version = 0  # of its next event
        self.busy = 0.0

    def rates(self):
        """(prefill seconds a second, decode steps a second), as long as nothing changes."""
        if not self.decoding:
            return 1.0, 0.0
        step = self.decode_step()
        if not self.prompts:
            return 0.0, 1 / step
        return self.share(), 1 / max(self.costs.step_limit, self.costs.stall * step)

    def decode_step(self):
        return self.costs.step(len(self.decoding)) + self.costs.decode_position * self.context

    def share(self):
        """Of a second, what a prompt gets."""
        if not self.decoding:
            return 1.0
        step = self.decode_step()
        return 1 - step / max(self.costs.step_limit, self.costs.stall * step)

    def advance(self, now):
        passed = now - self.now
        if passed > 0 and (self.prompts or self.decoding):
            prefill, decode = self.rates()
            self.busy += passed
            self.steps += passed * decode
            self.context += len(self.decoding) * passed * decode
            if self.prompts:
                done = passed * prefill
                self.prompts[0][2].work -= done
                self.backlog -= done
                self.read += done
        self.now = now

    def next_event(self):
        """When the first prompt is read or the first answer ends; None: it has nothing to do."""
        prefill, decode = self.rates()
        first = None
        if self.prompts:
            first = self.now + max(0.0, self.prompts[0][2].work) / prefill
        if self.decoding:
            end = self.now + max(0.0, self.decoding[0][0] - self.steps) / decode
            first = end if first is None else min(first, end)
        return first

    def wait(self):
        """Seconds that a new request would wait, as the router knows it: for prompts before it, and for the tokens of a
        typical answer beside the rows that decode already."""
        rows = len(self.decoding) + len(self.prompts) + len(self.waiting) + self.coming + 1
        step = self.costs.step(rows) + self.costs.decode_position * self.context
        return self.backlog / self.share() + TYPICAL_ANSWER * step

    def room(self, request):
        return (len(self.decoding) + len(self.prompts) < self.costs.max_rows
                and (not self.used or self.used + self.size(request) <= self.costs.memory))

    def size(self, request):
        return self.costs.bytes(request.prompt + request.answer)


@dataclass
class Result:
    ttft: list = field(default_factory=list)
    prompt_tokens: int = 0
    found_tokens: int = 0
    fetched_tokens: int = 0
    fetched_bytes: float = 0.0
    timeouts: int = 0
    answers: int = 0
    busy: float = 0.0  # seconds of all workers


class Fleet:
    """Runs sessions over `count` workers. Requests that arrive from `warm` to `end` are counted."""

    def __init__(self, policy, count, costs, cache_bytes, network, warm, end):
        self.policy, self.costs, self.network, self.warm, self.end = policy, costs, network, warm, end
        self.holders = {}
        self.workers = [Worker(i, costs, cache_bytes, self.holders) for i in range(count)]
        self.load = [worker.wait() for worker in self.workers]
        self.turn = 0  # of the router that takes the workers in turn
        self.events, self.number = [], 0
        self.result = Result()

    def at(self, when, call, *arguments):
        self.number += 1
        heapq.heappush(self.events, (when, self.number, call, arguments))

    def run(self, sessions):
        for session in sessions:
            if session.turns:
                self.at(session.begin, self.arrive, session, 0, 0)
        while self.events:
            now, _, call, arguments = heapq.heappop(self.events)
            if now >= self.end:
                break
            call(now, *arguments)
        for worker in self.workers:
            worker.advance(max(worker.now, self.end))
            self.result.busy += worker.busy
        return self.result

    # ---- a request's way

    def arrive(self, now, session, turn, history):
        known = max(history, session.app.tokens)
        request = Request(session, turn, history, known + session.turns[turn].new, now)
        worker = self.workers[self.choose(request)]
        local = worker.cache.find(request)
        request.found = local
        ready = self.fetch(now, request, worker, local) if self.policy.shared else now
        worker.advance(now)
        request.work = self.costs.prefill(request.found, request.prompt) + self.costs.restore(request.found)
        worker.backlog += request.work
        worker.coming += 1
        self.load[worker.number] = worker.wait()
        if ready > now:
            self.at(ready, self.enter, worker, request)
        else:
            self.enter(now, worker, request)

    def fetch(self, now, request, worker, local):
        """Begins to fetch what others have; says when that has ended."""
        source, tokens = self.best_holder(request, worker.number)
        if tokens - local < FETCH_LEAST:
            return now
        size = (tokens - local) * self.costs.kv_token + self.costs.state
        begin = max(now, worker.link_in, self.workers[source].link_out)
        done = begin + FETCH_LATENCY + size / self.network
        if done > now + FETCH_PATIENCE:
            self.result.timeouts += now >= self.warm
            return now + FETCH_PATIENCE
        worker.link_in = self.workers[source].link_out = done
        request.found, request.fetched = tokens, tokens - local
        if now >= self.warm:
            self.result.fetched_bytes += size
        return done

    def best_holder(self, request, but):
        """(worker, tokens): the longest state, of these the one whose link is free first."""
        for key in keys(request):
            others = [(tokens, -self.workers[w].link_out, -w) for w, tokens in self.holders.get(key, {}).items() if w != but]
            if others:
                tokens, _, worker = max(others)
                return -worker, tokens
        return -1, 0

    def enter(self, now, worker, request):
        worker.advance(now)
        worker.coming -= 1
        worker.waiting.append(request)
        self.proceed(worker)

    def proceed(self, worker):
        while worker.waiting and worker.room(worker.waiting[0]):
            request = worker.waiting.popleft()
            worker.used += worker.size(request)
            self.number += 1
            heapq.heappush(worker.prompts, (request.work + worker.read, self.number, request))
        worker.version += 1
        self.load[worker.number] = worker.wait()
        when = worker.next_event()
        if when is not None:
            self.at(when, self.step, worker, worker.version)

    def step(self, now, worker, version):
        if version != worker.version:
            return
        worker.advance(now)
        tiny = 1e-9
        while worker.prompts and worker.prompts[0][2].work <= tiny:
            self.first_token(now, worker, heapq.heappop(worker.prompts)[2])
        while worker.decoding and worker.decoding[0][0] - worker.steps <= 1e-6:
            self.finish(now, worker, heapq.heappop(worker.decoding)[2])
        self.proceed(worker)

    def first_token(self, now, worker, request):
        worker.backlog -= request.work
        app = request.session.app
        worker.cache.keep(("app", app.name), app.tokens)
        worker.cache.keep(("session", request.session.number), request.prompt, app.tokens)
        self.number += 1
        heapq.heappush(worker.decoding, (worker.steps + request.answer - 1, self.number, request))
        worker.context += request.prompt
        if request.arrived >= self.warm:
            self.result.ttft.append(now - request.arrived)
            self.result.prompt_tokens += request.prompt
            self.result.found_tokens += request.found
            self.result.fetched_tokens += request.fetched

    def finish(self, now, worker, request):
        session, history = request.session, request.prompt + request.answer
        worker.used -= worker.size(request)
        worker.context -= history - 1
        worker.cache.keep(("session", session.number), history, session.app.tokens)
        self.result.answers += now >= self.warm
        if request.turn + 1 < len(session.turns):
            self.at(now + session.turns[request.turn + 1].pause, self.arrive, session, request.turn + 1, history)

    # ---- the router

    def choose(self, request):
        if not self.policy.prefix_aware:
            self.turn = (self.turn + 1) % len(self.workers)
            return self.turn
        now = request.arrived
        session, app = (self.holders.get(key, {}) for key in keys(request))
        candidates = {self.load.index(min(self.load)): 0}
        if app:
            candidates[min(app, key=self.load.__getitem__)] = request.session.app.tokens
        for worker, tokens in session.items():
            candidates[worker] = tokens
        return min(candidates, key=lambda w: (self.expected(now, request, w, candidates[w]), w))

    def expected(self, now, request, worker, found):
        """Seconds to the end of a typical answer on this worker, by what the router knows."""
        fetching = 0.0
        if self.policy.shared:
            source, tokens = self.best_holder(request, worker)
            if tokens - found >= FETCH_LEAST:
                link = max(now, self.workers[worker].link_in, self.workers[source].link_out) - now
                fetching = link + FETCH_LATENCY + ((tokens - found) * self.costs.kv_token + self.costs.state) / self.network
                found = tokens
        share = self.workers[worker].share()
        return self.load[worker] + fetching + (self.costs.prefill(found, request.prompt) + self.costs.restore(found)) / share
