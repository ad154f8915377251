"""`doctor` names what would not run before anything is loaded."""

import contextlib
import json
import os
import subprocess
import tempfile

from harness import paths


def doctor(folder, *prefix):
    done = subprocess.run([*prefix, paths.PROGRAM, "doctor", "-m", folder, "--json"], capture_output=True, text=True, timeout=600)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


@contextlib.contextmanager
def copy_of_model(without=(), config=None):
    """A directory of links to the model's files; `config` changes what config.json says."""
    with tempfile.TemporaryDirectory() as folder:
        for name in set(os.listdir(paths.MODEL)) - set(without) - {"config.json"}:
            os.symlink(os.path.join(os.path.abspath(paths.MODEL), name), os.path.join(folder, name))
        with open(os.path.join(paths.MODEL, "config.json")) as file:
            content = json.load(file)
        if config:
            config(content)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(content, file)
        yield folder


def has_problem(text, *args, **more):
    with copy_of_model(*args, **more) as folder:
        code, report, err = doctor(folder)
        assert code == 1, (code, err)
        problems = report["model"]["problems"]
        assert len(problems) == 1 and text in problems[0], problems
        assert any(text in line for line in report["advice"]), report["advice"]
        out = subprocess.run([paths.PROGRAM, "doctor", "-m", folder], capture_output=True, text=True).stdout
        assert "would not run" in out and text in out, out


def test_a_good_model_has_no_problem():
    code, report, err = doctor(paths.MODEL)
    assert code == 0 and report["model"]["problems"] == [], (report, err)


def test_an_unsupported_family_is_named():
    has_problem("model_type \"rwkv\"", config=lambda c: c.update(model_type="rwkv"))


def test_an_unsupported_rope_is_named():
    rope = {"rope_type": "dynamic-yarn", "factor": 4.0}
    has_problem("dynamic-yarn", config=lambda c: c["text_config"]["rope_parameters"].update(rope))


def test_an_unsupported_activation_is_named():
    has_problem("hidden_act", config=lambda c: c["text_config"].update(hidden_act="relu2"))


def test_missing_shard_with_an_index():
    with copy_of_model(["model-00002-of-00002.safetensors"]) as folder:
        code, _, err = doctor(folder)
        assert code == 1 and "model-00002-of-00002.safetensors" in err and "download" in err, err


def test_missing_shard_without_an_index():
    has_problem("model.layers.27.*", without=["model-00002-of-00002.safetensors", "model.safetensors.index.json"])


def test_a_missing_tokenizer_is_named():
    has_problem("tokenizer.json", without=["tokenizer.json"])


def test_too_little_memory_is_named():
    """The weights of a sparse file of 200 GB."""
    header = json.dumps({"model.big": {"dtype": "BF16", "shape": [10 ** 5, 10 ** 6], "data_offsets": [0, 2 * 10 ** 11]}}).encode()
    with copy_of_model() as folder:
        with open(os.path.join(folder, "more.safetensors"), "wb") as file:
            file.write(len(header).to_bytes(8, "little") + header)
            file.truncate(8 + len(header) + 2 * 10 ** 11)
        code, report, err = doctor(folder)
        assert code == 1 and not report["model"]["fits_in_memory"], err
        assert "200.1 GB of weights do not fit into" in report["model"]["problems"][0], report["model"]


def test_a_device_that_is_not_there():
    done = subprocess.run([paths.PROGRAM, "doctor", "-m", paths.MODEL, "--device", "metal"], capture_output=True, text=True)
    assert done.returncode == 1 and "metal" in done.stderr.lower(), done.stderr
