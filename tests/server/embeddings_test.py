"""Embeddings over HTTP with the official clients."""

import contextlib
import json
import os
import subprocess
import tempfile
import threading

import numpy
import ollama
import openai
import pytest

from harness import paths
from harness.server import Server

TEXTS = ["The river rises in the hills.", "A boat.", "x " * 300, "The river rises in the hills. " * 9]


@contextlib.contextmanager
def serving(*flags, model=None):
    """The official client of a server."""
    with Server("--no-cache", *flags, model=model or paths.MODEL) as server:
        yield openai.OpenAI(base_url=server.v1, api_key="none", max_retries=0)


@contextlib.contextmanager
def model_that_says(**pooling):
    """The model with a file that says how it makes embeddings."""
    with tempfile.TemporaryDirectory() as folder:
        for name in os.listdir(paths.MODEL):
            os.symlink(os.path.join(paths.MODEL, name), os.path.join(folder, name))
        os.mkdir(os.path.join(folder, "1_Pooling"))
        with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as file:
            json.dump(pooling, file)
        yield folder


def embed(client, texts, **more):
    return numpy.array([one.embedding for one in client.embeddings.create(model="default", input=texts, **more).data], numpy.float32)


def test_embeddings_do_not_depend_on_company():
    with serving("--pooling", "mean") as client:
        together = embed(client, TEXTS)
        assert numpy.allclose((together ** 2).sum(1), 1, atol=1e-6)
        assert all((embed(client, [text])[0] == one).all() for text, one in zip(TEXTS, together))
        assert (embed(client, TEXTS, encoding_format="float") == together).all()
        stop, answers = threading.Event(), []

        def chat():
            while not stop.is_set():
                answers.append(client.chat.completions.create(model="default", max_tokens=30, messages=[{"role": "user", "content": "Hi."}]))
        thread = threading.Thread(target=chat)
        thread.start()
        busy = embed(client, TEXTS * 20)
        stop.set()
        thread.join()
        assert (busy == numpy.concatenate([together] * 20)).all() and answers
    with serving("--pooling", "mean", "--prefill-chunk", "16", "--threads", "1") as client:
        assert (embed(client, TEXTS) == together).all()


def test_models_say_how_they_embed():
    with model_that_says(pooling_mode_lasttoken=True) as folder:
        with serving(model=folder) as client:
            said = embed(client, TEXTS)
        with serving("--pooling", "last") as client:
            assert (embed(client, TEXTS) == said).all()
            ids = client.post("/../tokenize", body={"content": TEXTS[0]}, cast_to=object)["tokens"]
            assert (embed(client, ids)[0] == said[0]).all()
        with serving("--pooling", "cls", model=folder) as client:
            first = embed(client, ["The sea", "The hill"])
            assert (first[0] == first[1]).all()
        copy = os.path.join(folder, "copy")
        subprocess.run([paths.PROGRAM, "convert", folder, copy, "--bits", "8"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert os.path.exists(os.path.join(copy, "1_Pooling", "config.json"))


def test_dimensions_cut_and_ollama_gets_the_same():
    with serving("--pooling", "last") as client:
        whole, part = embed(client, TEXTS[:1])[0], embed(client, TEXTS[:1], dimensions=32)[0]
        assert len(part) == 32 and numpy.allclose(part, whole[:32] / numpy.linalg.norm(whole[:32]), atol=1e-6)
        theirs = ollama.Client(host=str(client.base_url).removesuffix("/v1/"))
        assert (numpy.array(theirs.embed("default", TEXTS).embeddings, numpy.float32) == embed(client, TEXTS)).all()
        assert len(theirs.embeddings("default", TEXTS[0]).embedding) == len(whole)
        assert len(theirs.embed("default", "word " * 20000).embeddings) == 1  # cut


def probabilities(client, ids, **more):
    """Log probabilities of the ids but the first, as a completion echoes them."""
    answer = client.completions.create(model="default", prompt=ids, max_tokens=0, echo=True, logprobs=0, **more).choices[0].logprobs
    assert len(answer.tokens) == len(ids) and answer.token_logprobs[0] is None
    return answer.token_logprobs[1:]


def test_echo_tells_what_decoding_told():
    for flags in ((), ("--prefill-chunk", "16"), ("--precise",)):
        with serving(*flags) as client:
            ids = client.post("/../tokenize", body={"content": TEXTS[0] * 3}, cast_to=object)["tokens"]
            said = client.completions.create(model="default", prompt=ids, max_tokens=20, logprobs=3, temperature=0,
                                             extra_body={"speculation": "off", "ignore_eos": True})
            new = [entry["id"] for entry in client.post("/../completion", body={
                "prompt": ids, "n_predict": 20, "temperature": 0, "n_probs": 1, "speculation": "off", "ignore_eos": True},
                cast_to=object)["completion_probabilities"]]
            assert probabilities(client, ids + new)[-20:] == said.choices[0].logprobs.token_logprobs
            whole = client.completions.create(model="default", prompt=TEXTS[0], max_tokens=5, echo=True, logprobs=2, temperature=0)
            alone = client.completions.create(model="default", prompt=TEXTS[0], max_tokens=5, logprobs=2, temperature=0)
            text, parts = whole.choices[0].text, whole.choices[0].logprobs
            assert text == TEXTS[0] + alone.choices[0].text
            assert parts.token_logprobs[-5:] == alone.choices[0].logprobs.token_logprobs
            assert parts.top_logprobs[-5:] == alone.choices[0].logprobs.top_logprobs
            assert "".join(parts.tokens[-5:]) and parts.text_offset[-5] == len(TEXTS[0])
            chunks = list(client.completions.create(model="default", prompt=[TEXTS[0], TEXTS[1]], max_tokens=5, echo=True, n=2, temperature=0, stream=True))
            texts = ["".join(c.choices[0].text for c in chunks if c.choices and c.choices[0].index == i) for i in range(4)]
            assert texts[0] == texts[1] == text and texts[2] == texts[3] and texts[2].startswith(TEXTS[1])


def rank(client, **body):
    return client.post("/rerank", body={"model": "default", "query": "Where does the river begin?", "documents": TEXTS} | body, cast_to=object)


def test_rerank_by_cosine_orders_by_embeddings():
    with serving("--pooling", "mean") as client:
        query, *documents = embed(client, ["Where does the river begin?", *TEXTS])
        scores = [float((query * one).sum()) for one in documents]
        answer = rank(client, return_documents=True)
        order = [one["index"] for one in answer["results"]]
        assert sorted(order) == [0, 1, 2, 3] and order == sorted(order, key=lambda i: -scores[i])
        assert all(abs(one["relevance_score"] - scores[one["index"]]) < 1e-6 for one in answer["results"])
        assert [one["document"]["text"] for one in answer["results"]] == [TEXTS[i] for i in order]
        assert len(rank(client, top_n=2)["results"]) == 2 and "document" not in rank(client)["results"][0]
        tei = client.post("/../rerank", body={"query": "Where does the river begin?", "texts": TEXTS, "return_text": True}, cast_to=object)
        assert [(one["index"], one["score"], one["text"]) for one in tei] == \
            [(one["index"], one["relevance_score"], TEXTS[one["index"]]) for one in answer["results"]]


def test_rerank_by_yes_and_no_is_what_the_model_says():
    with serving("--pooling", "rank") as client:
        answer = rank(client, instruction="Find rivers")
        for one in answer["results"]:
            text = ("<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct provided. "
                    "Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Find rivers\n"
                    f"<Query>: Where does the river begin?\n<Document>: {TEXTS[one['index']]}<|im_end|>\n"
                    "<|im_start|>assistant\n<think>\n\n</think>\n\n")
            ids, yes, no = (client.post("/../tokenize", body={"content": content}, cast_to=object)["tokens"] for content in (text, "yes", "no"))
            yes, no = (numpy.exp(probabilities(client, ids + word)[-1]) for word in (yes, no))
            assert abs(one["relevance_score"] - yes / (yes + no)) < 1e-5, (one, yes, no)
        with pytest.raises(openai.BadRequestError, match="/v1/rerank"):
            embed(client, TEXTS)


def test_errors_name_the_field():
    def refused(client, status, **body):
        with pytest.raises(openai.APIStatusError) as error:
            client.embeddings.create(**({"model": "default"} | body))
        assert error.value.status_code == status, error.value
        return error.value
    with serving() as client:
        assert "--pooling" in refused(client, 400, input="a").message
    with serving("--pooling", "last") as client:
        assert refused(client, 400, input="").param == "input"
        assert refused(client, 400, input=["a", ""]).param == "input[1]"
        assert refused(client, 400, input=["word " * 20000]).code == "context_length_exceeded"
        assert refused(client, 400, input="a", dimensions=100000).param == "dimensions"
        assert refused(client, 400, input=["a"] * 3000).param == "input"
        assert refused(client, 400, input=[[10 ** 9]]).param == "input[0]"
        for body, param in (({"documents": []}, "documents"), ({"documents": None}, "documents"), ({"documents": [1]}, "documents[0]"),
                            ({"query": None}, "query"), ({"top_n": 0}, "top_n"), ({"documents": ["a", "word " * 20000]}, "documents[1]")):
            with pytest.raises(openai.BadRequestError) as error:
                rank(client, **body)
            assert error.value.param == param, error.value
