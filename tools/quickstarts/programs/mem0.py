from asked import KEY, MODEL, V1
from mem0 import Memory

OPENAI = {"model": MODEL, "openai_base_url": V1, "api_key": KEY}


def embeddings():
    vector = {"provider": "qdrant", "config": {"embedding_model_dims": 576, "path": "memory"}}
    memory = Memory.from_config({"llm": {"provider": "openai", "config": OPENAI}, "vector_store": vector,
                                 "embedder": {"provider": "openai", "config": OPENAI | {"embedding_dims": 576}}})
    memory.add("I live in Paris.", user_id="user", infer=False)
    found = memory.search("Where do I live?", filters={"user_id": "user"})["results"]
    assert found[0]["memory"] == "I live in Paris.", found
    return memory.embedding_model.embed("A river")
