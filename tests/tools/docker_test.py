"""packaging/docker/Dockerfile, without building an image: what can be read in it holds."""

import os
import re
import shutil
import subprocess

from harness import paths

HERE = "packaging/docker/Dockerfile"


def read(*parts):
    with open(os.path.join(paths.ROOT, *parts)) as file:
        return file.read()


def instructions():
    """[(word, rest)], comments left out and continued lines joined."""
    text = "\n".join(line for line in read(HERE).splitlines() if not line.startswith("#"))
    return [tuple(line.split(None, 1)) for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def stages():
    """{name: its instructions}; the last stage without a name is ''."""
    found = {}
    for word, rest in instructions():
        if word == "FROM":
            image, _, name = rest.partition(" AS ")
            current = found.setdefault(name, [])
        current.append((word, rest))
    return found


def of_image(name, wanted):
    """The values of an instruction in a stage and in those that it is made of, the last first."""
    all_stages = stages()
    own = all_stages[name]
    values = [rest for word, rest in reversed(own) if word == wanted]
    base = own[0][1].split()[0]
    return values + (of_image(base, wanted) if base in all_stages else [])


def copied():
    """The paths that COPY takes from the checkout."""
    return [path for word, rest in instructions() if word == "COPY" and not rest.startswith("--from") for path in rest.split()[:-1]]


def ignored(path):
    names = [line for line in read(".dockerignore").splitlines() if line and not line.startswith("#")]
    top = path.split("/")[0]
    return any(re.fullmatch(name.replace(".", r"\.").replace("*", "[^/]*"), top) for name in names if "/" not in name)


def test_every_source_is_there_and_not_ignored():
    assert copied()
    for path in copied():
        assert os.path.exists(os.path.join(paths.ROOT, path)), path
        assert not ignored(path), path
    for path in ("build", "build-asan", ".git", ".deps"):
        assert ignored(path), path
    known = stages()
    for _, rest in instructions():
        for source in re.findall(r"(?:--from=|,from=)(\w+)", rest):
            assert source in known, source


def test_what_is_copied_is_enough_for_the_build(tmp_path):
    source = tmp_path / "source"
    for path in copied():
        at = os.path.join(paths.ROOT, path)
        if os.path.isdir(at):
            shutil.copytree(at, source / path, dirs_exist_ok=True)
        else:
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(at, source / path)
    os.symlink(os.path.join(paths.ROOT, ".deps"), source / ".deps")
    # As script/package does, up to the list of what would be compiled: it fails if a file is missing.
    package = read("script/package")
    assert "-DANABRANCH_TESTS=OFF -DANABRANCH_REFERENCE=OFF" in package and "anabranch shell_files" in package
    for words in (["cmake", "-S", source, "-B", tmp_path / "build", "-G", "Ninja", "-DANABRANCH_TESTS=OFF", "-DANABRANCH_REFERENCE=OFF"],
                  ["ninja", "-n", "-C", tmp_path / "build", "anabranch", "shell_files"]):
        done = subprocess.run(words, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_packages_are_those_that_scripts_name():
    table = {word for line in read("script/packages.txt").splitlines() if not line.startswith("#") for word in line.split()[1:2]}
    script = set(re.search(r"apt install ([^\"]*)\"", read("script/package"))[1].split())
    named = set()
    for word, rest in instructions():
        for part in rest.split("&&") if word == "RUN" else []:
            if " install " in part and "apt-get" in part:
                named |= {name for name in part.split("install", 1)[1].split() if not name.startswith("-")}
    assert {"ca-certificates", "dpkg-dev", "file"} <= named
    assert {name for name in named if not name.startswith("/package/")} <= table | script, named
    assert "/package/*.deb" in named
    # Both bring the same compiler.
    pinned = re.search(r"nvidia-cuda-nvrtc==[\d.]+", read("script/common.sh"))[0]
    assert re.findall(r"nvidia-cuda-nvrtc==[\d.]+", read(HERE)) == [pinned]


def test_images_run_the_server_as_a_user_and_watch_it():
    names = list(stages())
    assert names[-1] == "" and stages()[""] == [("FROM", "cpu")]  # what is built without --target
    for image in ("", "cuda"):
        assert of_image(image, "USER")[0] == "anabranch"
        assert of_image(image, "ENTRYPOINT")[0] == '["anabranch"]' and of_image(image, "CMD")[0] == '["serve"]'
        assert of_image(image, "VOLUME") == ["/models"] and "HF_HOME=/models" in " ".join(of_image(image, "ENV"))
        check = of_image(image, "HEALTHCHECK")[0]
        assert re.search(r'CMD \["anabranch", "status"\]$', check) and "--start-period" in check
        for word, rest in stages()[image or "cpu"]:
            assert "API_KEY=" not in rest and "HF_TOKEN" not in rest, (word, rest)
    assert of_image("", "EXPOSE") == ["11436"]
    done = subprocess.run([paths.PROGRAM, "status", "--help"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_environment_sets_flags_of_serve():
    for image, expected in (("", {"host": "0.0.0.0"}), ("cuda", {"host": "0.0.0.0", "device": "cuda"})):
        variables = dict(pair.split("=", 1) for line in of_image(image, "ENV") for pair in line.split())
        own = {name: value for name, value in variables.items() if name.startswith("ANABRANCH_")}
        assert own == {"ANABRANCH_" + name.upper(): value for name, value in expected.items()}
        done = subprocess.run([paths.PROGRAM, "config", "show"], capture_output=True, text=True, env={**os.environ, **own})
        assert done.returncode == 0 and "unknown" not in done.stderr, done.stderr
        for name, value in expected.items():
            assert re.search(rf"^{name} .*{re.escape(value)}.*\$ANABRANCH_{name.upper()}", done.stdout, re.MULTILINE), done.stdout
