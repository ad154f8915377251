"""The wheel and the archive that script/package makes, with a small program in place of the real one."""

import base64
import csv
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import make_tarball  # noqa: E402
import make_wheel  # noqa: E402

STAND_IN = '#include <stdio.h>\nint main(int n, char** words) { return printf("stand-in 1.2 %s\\n", n > 1 ? words[1] : "") < 0; }\n'


def compile_program(path, *flags, source=STAND_IN):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("g++")
    subprocess.run([compiler, "-x", "c", "-", "-o", path, *flags], input=source, text=True, check=True)


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    """What `cmake --install` leaves, and licences: (folder, folder)."""
    folder, licenses = tmp_path_factory.mktemp("stage"), tmp_path_factory.mktemp("licenses")
    unit = "[Service]\nExecStart=/usr/local/bin/anabranch --config /etc/x serve\n"
    files = {"share/man/man1/anabranch.1.gz": "page", "share/zsh/vendor-completions/_anabranch": "zsh",
             "share/bash-completion/completions/anabranch": "bash", "lib/systemd/user/anabranch.service": unit}
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "bin").mkdir()
    compile_program(str(folder / "bin" / "anabranch"))
    (licenses / "common-licenses").mkdir()
    (licenses / "LICENSE").write_text("ours\n")
    (licenses / "common-licenses" / "LGPL-3").write_text("theirs\n")
    return str(folder), str(licenses)


@pytest.fixture(scope="module")
def wheel(stage, tmp_path_factory):
    return make_wheel.make(os.path.join(stage[0], "bin", "anabranch"), stage[1], str(tmp_path_factory.mktemp("wheel")))


def test_a_wheel_has_the_program_and_its_own_hashes(stage, wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name for name in names if name.endswith(".dist-info/RECORD"))[: -len("RECORD")]
        rows = list(csv.reader(archive.read(info + "RECORD").decode().splitlines()))
        assert [row[0] for row in rows] == names and len(set(names)) == len(names)
        for name, digest, size in rows[:-1]:
            data = archive.read(name)
            expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            assert (digest, size) == ("sha256=" + expected, str(len(data))), name
        assert rows[-1] == [info + "RECORD", "", ""]
        program = archive.getinfo("anabranch/bin/anabranch")
        assert archive.read(program) == make_wheel.read(os.path.join(stage[0], "bin", "anabranch")) and program.external_attr >> 16 & 0o111
        assert {"anabranch/__init__.py", "anabranch/py.typed", "anabranch/mlx_lm/__init__.py", info + "licenses/LICENSE",
                info + "licenses/common-licenses/LGPL-3"} <= set(names)
        assert not [name for name in names if "__pycache__" in name or "pyproject" in name]
        metadata, tags = archive.read(info + "METADATA").decode(), archive.read(info + "WHEEL").decode()
        tag = re.fullmatch(r"anabranch-(.+)-(py3-none-manylinux_2_\d+_x86_64)\.whl", os.path.basename(wheel))
        assert f"\nVersion: {tag[1]}\n" in metadata and "\nRequires-Python: >=3.9\n" in metadata
        assert f"\nTag: {tag[2]}\n" in tags and "Root-Is-Purelib: false" in tags
        assert "License-File: common-licenses/LGPL-3\n" in metadata


def test_the_versions_agree():
    with open(os.path.join(ROOT, "CMakeLists.txt")) as file:
        assert make_wheel.version_of(os.path.join(ROOT, "python", "anabranch")) == re.search(r"VERSION ([\d.]+) LANG", file.read())[1]


def test_pip_installs_it(wheel, tmp_path):
    subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--target", str(tmp_path), wheel], check=True)
    done = subprocess.run([sys.executable, "-c", "import anabranch.binary as b; print(b.find_binary(), flush=True); b.main()", "hello"],
                          env={"PYTHONPATH": str(tmp_path), "PATH": ""}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [str(tmp_path / "anabranch" / "bin" / "anabranch"), "stand-in 1.2 hello"], done
    assert os.path.exists(tmp_path / "bin" / "anabranch")


def test_the_tag_is_the_newest_symbol_that_is_needed(tmp_path):
    old, new = str(tmp_path / "old"), str(tmp_path / "new")
    compile_program(old)
    compile_program(new, source="#define _GNU_SOURCE\n#include <unistd.h>\nint main() { return gettid() < 0; }\n")  # of glibc 2.30
    numbers = [int(make_wheel.platform_of(path)[0].split(".")[1]) for path in (old, new)]
    assert max(numbers[0], 30) == numbers[1], numbers


@pytest.mark.parametrize("number, machine", [(62, "x86_64"), (183, "aarch64"), (8, None)])
def test_the_processor_is_the_programs(stage, tmp_path, number, machine):
    """The header's number of another processor in a program of this one: e_machine (183 is 64-bit Arm, 8 MIPS)."""
    program = tmp_path / "program"
    shutil.copy(os.path.join(stage[0], "bin", "anabranch"), program)
    with open(program, "r+b") as file:
        file.seek(18)
        file.write(number.to_bytes(2, "little"))
    if machine:
        assert make_wheel.wheel_tag(str(program)).endswith("_" + machine)
    else:
        with pytest.raises(SystemExit, match="for another processor: MIPS"):
            make_wheel.wheel_tag(str(program))


def test_a_program_that_needs_other_libraries_makes_no_wheel(stage, tmp_path):
    program = str(tmp_path / "program")
    compile_program(program, "-Wl,--no-as-needed", "-lz")
    with pytest.raises(SystemExit, match=r"needs libz\.so\.1"):
        make_wheel.make(program, stage[1], str(tmp_path / "out"))
    with pytest.raises(SystemExit, match="no program for Linux"):
        make_wheel.make(__file__, stage[1], str(tmp_path / "out"))
    (tmp_path / "none").mkdir()
    with pytest.raises(SystemExit, match="no licences"):
        make_wheel.make(os.path.join(stage[0], "bin", "anabranch"), str(tmp_path / "none"), str(tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def unpack(stage, folder):
    """The folder in which install.sh lies."""
    path = make_tarball.make(*stage, str(folder / "made"))
    sums = subprocess.run(["sha256sum", "-c", os.path.basename(path) + ".sha256"], cwd=folder / "made", capture_output=True, text=True)
    assert sums.returncode == 0, sums.stderr
    with tarfile.open(path) as archive:
        archive.extractall(folder)
    return folder / os.path.basename(path)[: -len(".tar.gz")]


def install(folder, *words, home="/nonexistent"):
    return subprocess.run([str(folder / "install.sh"), *words], capture_output=True, text=True, env={"PATH": os.environ["PATH"], "HOME": str(home)})


def test_the_archive_installs_to_any_folder(stage, tmp_path):
    folder = unpack(stage, tmp_path)
    others = [tmp_path / name for name in ("an other", "R&D", "50% a|b", "%h", 'a"b\\c', "$HOME")]
    for prefix, done in ((tmp_path / "home" / ".local", install(folder, home=tmp_path / "home")),
                         *((other, install(folder, str(other))) for other in others)):
        assert done.returncode == 0 and "stand-in 1.2 --version is in" in done.stdout, done
        assert f'export PATH="{prefix}/bin:$PATH"' in done.stdout
        files = sorted(str(path.relative_to(prefix)) for path in prefix.rglob("*") if path.is_file())
        assert files == ["bin/anabranch", "share/bash-completion/completions/anabranch", "share/doc/anabranch/licenses/LICENSE",
                         "share/doc/anabranch/licenses/common-licenses/LGPL-3", "share/man/man1/anabranch.1.gz",
                         "share/systemd/user/anabranch.service", "share/zsh/site-functions/_anabranch"]
        assert os.access(prefix / "bin" / "anabranch", os.X_OK)
        program = str(prefix / "bin/anabranch").replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
        text = (prefix / "share/systemd/user/anabranch.service").read_text()
        assert text == f'[Service]\nExecStart="{program}" --config /etc/x serve\n'
    done = subprocess.run(["sh", folder.name + "/install.sh", "below"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and (tmp_path / "below" / "bin" / "anabranch").exists(), done


def test_an_installed_program_that_runs_is_replaced(stage, tmp_path):
    folder = unpack(stage, tmp_path)
    program = tmp_path / "to" / "bin" / "anabranch"
    program.parent.mkdir(parents=True)
    shutil.copy(shutil.which("sleep"), program)
    with subprocess.Popen([str(program), "60"]) as running:
        assert install(folder, str(tmp_path / "to")).returncode == 0
        running.kill()
    assert subprocess.run([str(program)], capture_output=True, text=True).stdout.startswith("stand-in")


@pytest.mark.parametrize("name", ["bin/anabranch", "share/man/man1/anabranch.1.gz"])
def test_a_wrong_checksum_installs_nothing(stage, tmp_path, name):
    folder = unpack(stage, tmp_path)
    with open(folder / name, "ab") as file:
        file.write(b"x")
    done = install(folder, str(tmp_path / "to"))
    assert done.returncode == 1 and f"files differ from SHA256SUMS: {name} " in done.stderr, done
    assert not (tmp_path / "to").exists()


def test_a_broken_archive_and_mistakes_install_nothing(stage, tmp_path):
    folder = unpack(stage, tmp_path)
    to = str(tmp_path / "to")
    assert "usage" in install(folder, to, "more").stderr
    assert install(folder, "--help").returncode == 2
    (tmp_path / "file").write_text("")
    done = install(folder, str(tmp_path / "file"))
    assert done.returncode == 1 and "cannot write to" in done.stderr, done
    assert "more than one line" in install(folder, to + "\nto").stderr
    (folder / "share/man/man1/anabranch.1.gz").unlink()
    assert "share/man/man1/anabranch.1.gz" in install(folder, to).stderr
    (folder / "SHA256SUMS").write_text("")
    assert "SHA256SUMS is missing" in install(folder, to).stderr
    assert not os.path.exists(to)


def test_a_program_that_does_not_start_is_not_installed(stage, tmp_path):
    shutil.copytree(stage[0], tmp_path / "stage")
    compile_program(str(tmp_path / "stage" / "bin" / "anabranch"), source="int main() { return 1; }\n")
    folder = unpack((str(tmp_path / "stage"), stage[1]), tmp_path)
    done = install(folder, str(tmp_path / "to"))
    assert done.returncode == 1 and re.search(r"does not run here.*\nIt needs Linux on x86_64 with glibc 2\.\d+ or newer", done.stderr), done
    assert not (tmp_path / "to").exists()


def test_the_libraries_are_those_of_a_build():
    """A library that a build needs is in the portable program, and those of headers alone are in the .deb's copyright, too."""
    with open(os.path.join(ROOT, "packaging/static/libraries.txt")) as file:
        kinds = dict(line.split() for line in file if line.split() and not line.startswith("#"))
    with open(os.path.join(ROOT, "script/packages.txt")) as file:
        needed = {words[1] for words in map(str.split, file) if words[0] == "build" and words[1].endswith("-dev")}
    assert needed <= set(kinds), needed - set(kinds)
    with open(os.path.join(ROOT, "packaging/debian/copyright")) as file:
        notice = file.read()
    names = {"libboost1.81-dev": "Boost", "nlohmann-json3-dev": "nlohmann-json", "libcli11-dev": "CLI11", "libtomlplusplus-dev": "toml++",
             "cppzmq-dev": "cppzmq"}
    assert {package for package, kind in kinds.items() if kind == "headers"} == set(names)
    assert all(name in notice for name in names.values())
