"""Random LoRA adapters for the model under test, in PEFT's format."""

import array
import json
import os
import random
import struct

from harness import paths


def shapes():
    """(outputs, inputs) of some modules of each layer, by PEFT's name."""
    with open(os.path.join(paths.MODEL, "config.json")) as file:
        config = json.load(file)
    config = config.get("text_config", config)
    hidden, wide = config["hidden_size"], config["intermediate_size"]
    heads, head = config["num_attention_heads"], config["head_dim"]
    values = config["linear_num_value_heads"] * config["linear_value_head_dim"]
    found = {}
    for layer, kind in enumerate(config["layer_types"]):
        here = f"base_model.model.model.layers.{layer}."
        found[here + "mlp.gate_proj"] = (wide, hidden)
        found[here + "mlp.down_proj"] = (hidden, wide)
        if kind == "full_attention":
            found[here + "self_attn.q_proj"] = (2 * heads * head, hidden)  # with the output's gate
            found[here + "self_attn.v_proj"] = (config["num_key_value_heads"] * head, hidden)
        else:
            found[here + "linear_attn.out_proj"] = (hidden, values)
    return found


def write(folder, seed, rank=4, size=0.4):
    """Writes an adapter there. size: the deviation of the values of B; large enough to change answers."""
    os.makedirs(folder, exist_ok=True)
    draw = random.Random(seed)
    header, data = {}, bytearray()
    for module, (outputs, inputs) in shapes().items():
        for name, shape, deviation in (("lora_A", (rank, inputs), inputs**-0.5), ("lora_B", (outputs, rank), size)):
            values = array.array("f", (draw.gauss(0, deviation) for _ in range(shape[0] * shape[1])))
            header[f"{module}.{name}.weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + 4 * len(values)]}
            data += values.tobytes()
    text = json.dumps(header).encode()
    with open(os.path.join(folder, "adapter_model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    modules = sorted({module.rpartition(".")[2] for module in shapes()})
    with open(os.path.join(folder, "adapter_config.json"), "w") as file:
        json.dump({"peft_type": "LORA", "r": rank, "lora_alpha": rank, "target_modules": modules, "bias": "none"}, file)
    return str(folder)
