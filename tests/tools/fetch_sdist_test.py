"""tools/fetch_sdist.py with an index that is a folder."""

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# A backend that is not to be had, and one inside the package that must not run.
PROJECT = '[build-system]\nrequires = ["not-to-be-had==9"]\nbuild-backend = "scikit_build_core.build"\n'
TRAP = "import os\nopen(os.environ['TRAP'], 'w').close()\n"


def archive(folder, name="some-tool", version="1.2.3"):
    """Writes a source archive; its SHA-256."""
    stem = f"{name.replace('-', '_')}-{version}"
    path = os.path.join(folder, stem + ".tar.gz")
    with tarfile.open(path, "w:gz") as tar:
        for file, text in (("PKG-INFO", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"),
                           ("pyproject.toml", PROJECT), ("setup.py", TRAP)):
            entry = tarfile.TarInfo(f"{stem}/{file}")
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def fetch(index, *arguments):
    """(exit status, output, error output, whether code of the package was run)"""
    trap = os.path.join(index, "trap")
    done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", "fetch_sdist.py"), *arguments], capture_output=True, text=True,
                          env=os.environ | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": index, "TRAP": trap})
    return done.returncode, done.stdout.strip(), done.stderr, os.path.exists(trap)


def test_an_archive_by_name():
    with tempfile.TemporaryDirectory() as index, tempfile.TemporaryDirectory() as out:
        digest = archive(index)
        status, path, error, ran = fetch(index, "some-tool", "1.2.3", digest, out)
        assert status == 0 and not ran, error
        assert path == os.path.join(out, "some_tool-1.2.3.tar.gz"), path
        with open(path, "rb") as file:
            assert hashlib.sha256(file.read()).hexdigest() == digest


def test_another_hash_or_version_is_refused():
    with tempfile.TemporaryDirectory() as index, tempfile.TemporaryDirectory() as out:
        digest = archive(index)
        for version, sha256, word in (("1.2.3", "0" * 64, "HASHES"), ("1.2.4", digest, "No matching distribution")):
            status, _, error, ran = fetch(index, "some-tool", version, sha256, out)
            assert status == 1 and word in error and not ran and not os.listdir(out), (status, error)


def test_no_file_names_the_host_of_a_registry():
    hosts = ["files.python" + "hosted.org", "registry." + "npmjs", "//py" + "pi.org"]
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "script", "tools", "tests", "bench", "cmake", "docs", "src", "*.md"],
                            capture_output=True, check=True).stdout.decode().split("\0")
    named = []
    for name in listed:
        if not name or name.endswith(".LICENSE"):  # others' texts stay as they are
            continue
        with open(os.path.join(ROOT, name), "rb") as file:
            data = file.read()
        named += [(name, host) for host in hosts if host.encode() in data]
    assert not named, named
