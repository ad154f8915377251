#!/usr/bin/env python3
"""A checkpoint directory as GGUF, made by llama.cpp's own converter: llama_cpp_gguf.py LLAMA_CPP DIR OUT [f32|f16|q8_0]

LLAMA_CPP is a source tree of llama.cpp (the source package llama-cpp-python 0.3.36 on PyPI has one under
vendor/llama.cpp). The file gets no vocabulary: the tiny checkpoints of the tests have none.
"""
import json
import logging
import pathlib
import sys


def subclasses(kind):
    for child in kind.__subclasses__():
        yield child
        yield from subclasses(child)


def convert(llama_cpp, directory, out, kind="f16"):
    llama_cpp, directory = pathlib.Path(llama_cpp), pathlib.Path(directory)
    sys.path[:0] = [str(llama_cpp / "gguf-py"), str(llama_cpp)]
    import conversion
    import gguf
    import torch
    logging.disable(logging.WARNING)
    config = json.loads((directory / "config.json").read_text())
    tokens = config.get("text_config", config)["vocab_size"]  # Gemma's table is cut to the vocabulary
    (directory / "tokenizer.json").write_text(json.dumps(
        {"model": {"vocab": {str(i): i for i in range(tokens)}}, "added_tokens": []}))
    if config["model_type"] == "gpt_neox" or config["model_type"] == "nemotron_h" and "num_experts_per_tok" not in config:
        # Transformers' defaults have experts, which would make a file of nemotron_h_moe, and other keys for GPT-NeoX's rope.
        conversion.ModelBase.load_hparams = staticmethod(lambda *_, **__: dict(config))
    hparams = conversion.ModelBase.load_hparams(directory, False)
    model_class = conversion.get_model_class(
        conversion.get_model_architecture(hparams, conversion.ModelType.TEXT), mmproj=False)
    for each in subclasses(conversion.ModelBase):
        each.set_vocab = lambda self: self.gguf_writer.add_eos_token_id(2)
    if getattr(model_class, "supports_mtp_export", False):
        model_class.no_mtp = not config.get("mtp_num_hidden_layers")
    types = {"f32": gguf.LlamaFileType.ALL_F32, "f16": gguf.LlamaFileType.MOSTLY_F16,
             "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0}
    with torch.inference_mode():
        model_class(directory, types[kind], pathlib.Path(out), model_name="golden").write()


if __name__ == "__main__":
    convert(*sys.argv[1:])
