"""Between Dynamo's requests and chunks and those of `POST /v1/generate`. Plain functions on dictionaries and text; needs
nothing but Python."""

import json
import re

MOST_TOP_LOGPROBS = 20
MOST_STOP_IDS = 256
MOST_EVENT = 8 << 20  # bytes of one event of a stream
SAMPLING = ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty", "repetition_penalty",
            "logit_bias")


class Refused(ValueError):
    """The request asks for something that a worker cannot do."""


def request_id_of(context_id):
    """A request id that a worker accepts."""
    return re.sub(r"[^A-Za-z0-9._:+=@-]", "-", context_id)[:128] or "-"


def generate_body(request, request_id):
    """The body of POST /v1/generate for a request of Dynamo's frontend. What is absent keeps the server's default, which is
    the model's own recommendation."""
    sampling, stop, output = (request.get(part) or {} for part in ("sampling_options", "stop_conditions", "output_options"))
    refuse_unsupported(sampling, stop, output)
    body = {"prompt_token_ids": list(request["token_ids"]), "request_id": request_id, "stream": True}
    body.update({name: sampling[name] for name in SAMPLING if sampling.get(name) is not None})
    if stop.get("max_tokens") is not None:
        body["max_tokens"] = stop["max_tokens"]
    if stop.get("ignore_eos"):
        body["ignore_eos"] = True
    if stop.get("min_tokens"):
        body["min_tokens"] = stop["min_tokens"]
    ids = stop_ids(request, stop)
    if ids:
        body["stop_token_ids"] = ids
    if output.get("logprobs") is not None:
        body["logprobs"] = True
        body["top_logprobs"] = min(int(output["logprobs"]), MOST_TOP_LOGPROBS)
    salt = cache_salt(request)
    if salt:
        body["cache_salt"] = salt
    priority = (request.get("routing") or {}).get("priority")
    if priority:
        body["priority"] = -int(priority)  # Dynamo serves higher numbers first, Anabranch lower ones
    return body


def refuse_unsupported(sampling, stop, output):
    if (sampling.get("n") or 1) > 1 or (sampling.get("best_of") or 1) > 1:
        raise Refused("n and best_of must be 1: send the request several times instead")
    if sampling.get("guided_decoding"):
        raise Refused("guided decoding is not available through Dynamo; Anabranch's own API has response_format and grammar")
    if sampling.get("use_beam_search"):
        raise Refused("beam search is not available")
    if output.get("prompt_logprobs") is not None:
        raise Refused("prompt_logprobs are not available")


def stop_ids(request, stop):
    """Ids that end the answer. The model's own end-of-turn tokens do so anyway, unless ignore_eos is set."""
    ids = list(stop.get("stop_token_ids") or []) + list(stop.get("stop_token_ids_hidden") or [])
    eos = set(request.get("eos_token_ids") or [])
    if stop.get("ignore_eos"):
        ids = [token for token in ids if token not in eos]  # the frontend puts them among the hidden ones
    ids = sorted(set(ids))
    if len(ids) > MOST_STOP_IDS:
        raise Refused(f"at most {MOST_STOP_IDS} stop token ids")
    return ids


def cache_salt(request):
    extra = request.get("extra_args") or {}
    for source in (request.get("nvext"), extra.get("nvext") if isinstance(extra, dict) else None, request.get("routing")):
        if isinstance(source, dict) and source.get("cache_salt"):
            return source["cache_salt"]
    return None


class EventReader:
    """Server-sent events out of bytes that come in any pieces."""

    def __init__(self):
        self.rest = b""

    def feed(self, data):
        """The payloads of the events that are complete now."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        if len(self.rest) > MOST_EVENT:
            raise ValueError("an event of the stream is too long")
        return [line[5:].strip() for line in lines if line.startswith(b"data:")]


def chunk_of(event):
    """Dynamo's chunk for an event of the stream; None: it says nothing new."""
    ids = event.get("token_ids") or []
    if not ids and not event.get("finish_reason"):
        return None
    chunk = {"token_ids": ids, "index": 0}
    if event.get("logprobs"):
        chunk["log_probs"] = [entry["logprob"] for entry in event["logprobs"]]
        if any(entry.get("top_logprobs") for entry in event["logprobs"]):
            chunk["top_logprobs"] = [ranked(entry.get("top_logprobs") or []) for entry in event["logprobs"]]
    if event.get("finish_reason"):
        chunk["finish_reason"] = event["finish_reason"]
        chunk["completion_usage"] = event.get("usage") or {}
    return chunk


def ranked(candidates):
    return [{"rank": rank + 1, "token_id": entry["token_id"], "token": None, "logprob": entry["logprob"]}
            for rank, entry in enumerate(candidates)]


def cancelled_chunk(prompt_tokens, completion_tokens):
    return {"token_ids": [], "index": 0, "finish_reason": "cancelled",
            "completion_usage": {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
                                 "total_tokens": prompt_tokens + completion_tokens}}


def error_message(text, limit=500):
    """The message of an error in the server's shape."""
    try:
        error = json.loads(text)["error"]
        return str(error["message"])[:limit], error.get("code")
    except (ValueError, KeyError, TypeError):
        return text[:limit], None


def samples(metrics):
    """{name: sum over its labels} of Prometheus' text form."""
    sums = {}
    for line in metrics.splitlines():
        found = re.match(r"([A-Za-z_:][\w:]*)(?:\{.*\})? ([-+.\deEinfNa]+)", line)
        if found and not line.startswith("#"):
            sums[found[1]] = sums.get(found[1], 0.0) + float(found[2])
    return sums


def labelled(metrics, labels):
    """The same metrics with more labels on each sample. Label values are those of Dynamo and of this package."""
    added = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    lines = []
    for line in metrics.splitlines():
        found = re.match(r"([A-Za-z_:][\w:]*)(?:\{(.*)\})? (.*)", line)
        if line.startswith("#") or not found or not added:
            lines.append(line)
            continue
        own = found[2] or ""
        lines.append(f"{found[1]}{{{own}{',' if own else ''}{added}}} {found[3]}")
    return "\n".join(lines) + "\n" if lines else ""


def escaped(value):
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def joined(texts):
    """Several workers' metrics as one text: the samples of a name together, HELP and TYPE once, as the format wants it."""
    families, kind = {}, None
    for text in texts:
        for line in text.splitlines():
            if line.startswith("# "):
                name = line.split(" ", 3)[2]
                kind = name
                comments, _ = families.setdefault(name, ([], []))
                if not any(known.split(" ", 3)[1] == line.split(" ", 3)[1] for known in comments):
                    comments.append(line)
            elif line:
                families.setdefault(kind, ([], []))[1].append(line)
    return "".join(line + "\n" for comments, lines in families.values() for line in comments + lines)


def blocks(figures, bytes_per_token, block):
    """(used, all) blocks of a worker's memory for running requests, from samples() of its metrics."""
    size = max(1, bytes_per_token * block)
    return (int(figures.get("anabranch_state_bytes", 0) // size), int(figures.get("anabranch_state_budget_bytes", 0) // size))


def hit_rate(figures):
    """Of all prompt tokens so far, the share that was found in the prefix cache; None: no prompt yet."""
    prompt = figures.get("anabranch_prompt_tokens_total", 0)
    return figures.get("anabranch_cache_hit_tokens_total", 0) / prompt if prompt else None
