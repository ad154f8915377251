"""script/bootstrap names the packages of the system that it runs on, and docs/install.md shows the same names."""

import os
import re
import shutil
import subprocess

import pytest

from harness import paths

TABLE = os.path.join(paths.ROOT, "script/packages.txt")
FAKES = {"dpkg-query": "exit 1", "rpm": "exit 1", "pacman": "exit 127", "sudo": '[[ $1 == -n ]] && shift; exec "$@"',
         "apt-get": "echo apt-get: $* >&2; exit 9"}


def rows():
    with open(TABLE) as file:
        return [line.split() for line in file if not line.startswith("#")]


def names(system, *groups):
    header, *lines = rows()
    column = header.index(system)
    return [line[column] for line in lines if line[0] in groups and line[column] != "-"]


def bootstrap(folder, release, *arguments, **fakes):
    """Runs a copy of it, with programs that install nothing; release: the text of /etc/os-release, if there is one."""
    shutil.copytree(os.path.join(paths.ROOT, "script"), folder / "script")
    (folder / "bin").mkdir()
    for name, code in {**FAKES, **fakes}.items():
        (folder / "bin" / name).write_text(f"#!/bin/bash\n{code}\n")
        (folder / "bin" / name).chmod(0o755)
    if release is not None:
        (folder / "os-release").write_text(release)
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "HOME": str(folder),
                   "ANABRANCH_TEST_OS_RELEASE": str(folder / "os-release")}
    done = subprocess.run(["bash", str(folder / "script/bootstrap"), *arguments], env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("release, system, command", [
    ("ID=fedora\nVERSION_ID=43\n", "fedora", "sudo dnf install "),
    ('ID="fedora"\nVERSION_ID="41"\nPRETTY_NAME="Fedora Linux 41 (Server Edition)"\n', "fedora", "sudo dnf install "),
    ('ID=nobara\nID_LIKE="rhel centos fedora"\nVERSION_ID=42\n', "fedora", "sudo dnf install "),
    ("ID=arch\nBUILD_ID=rolling\n", "arch", "sudo pacman -S --needed "),
    ("NAME='Manjaro Linux'\nID=manjaro\nID_LIKE=arch\n", "arch", "sudo pacman -S --needed "),
    ('NAME="Ubuntu"\nID=ubuntu\nID_LIKE=debian\nVERSION_ID="24.04"\n', "ubuntu:24.04", "sudo apt-get update && "),
    ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="26.04"\n', "ubuntu:24.04", "sudo apt-get update && "),
    ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22.1"\n', "ubuntu:24.04", "sudo apt-get update && "),
    ('ID=lmde\nID_LIKE=debian\nVERSION_ID="6"\nDEBIAN_CODENAME=bookworm\n', "debian:12", "sudo apt-get update && "),
    ('ID=zorin\nID_LIKE="ubuntu debian"\nVERSION_ID="18"\nUBUNTU_CODENAME=noble\nVERSION_CODENAME=noble\n',
     "ubuntu:24.04", "sudo apt-get update && "),
    ('ID=debian\nVERSION_ID="13"\n', "debian:13", "sudo apt-get update && "),
    ("ID=debian\nVERSION_CODENAME=forky\n", "debian:13", "sudo apt-get update && "),
    ('ID=raspbian\nID_LIKE=debian\nVERSION_ID="12"\n', "debian:13", "sudo apt-get update && "),
])
def test_it_names_what_is_missing_and_installs_nothing_that_was_not_tried(tmp_path, release, system, command):
    status, said = bootstrap(tmp_path, release)
    assert status == 1 and "apt-get: " not in said
    assert "were not tried" in said and system.replace(":", " ") in said
    line, = (line for line in said.splitlines() if line.startswith("  sudo "))
    assert line.startswith("  " + command)
    wanted = names(system, "build")
    others = [line.split(": ")[1] for line in said.splitlines() if "User Repository" in line]
    assert line.endswith((" " if "pacman" in line or "dnf" in line else " --no-install-recommends ")
                         + " ".join(name for name in wanted if not name.startswith("aur/")))
    assert others == [name[4:] for name in wanted if name.startswith("aur/")]


def test_only_what_is_missing_is_named(tmp_path):
    pacman = "[[ $2 == fmt || $2 == prometheus-cpp || $2 == gtest ]] && exit 127; exit 0"
    status, said = bootstrap(tmp_path, "ID=arch\n", "--test", pacman=pacman)
    assert status == 1
    assert said.splitlines()[-2:] == ["  sudo pacman -S --needed fmt gtest",
                                      "  from the Arch User Repository: prometheus-cpp"]


def test_debian_12_is_installed_at_once(tmp_path):
    installed = "[[ $* == *libfmt-dev* ]] && printf 'g++ ii \\nlibfmt-dev ii \\nlibedit-dev rc \\n'; exit 1"
    status, said = bootstrap(tmp_path, 'ID=debian\nVERSION_ID="12"\n', "--nightly", **{"dpkg-query": installed})
    assert status == 1 and "apt-get: update" in said and "were not tried" not in said  # the fake fails there
    wanted = [name for name in names("debian:12", "build", "test", "nightly") if name not in ("g++", "libfmt-dev")]
    assert "installing: " + " ".join(wanted) in said


def test_it_goes_on_when_nothing_is_missing(tmp_path):
    code = f"source {paths.ROOT}/script/common.sh; echo $xgrammar_sha256"
    checksum = subprocess.run(["bash", "-c", code], stdout=subprocess.PIPE, text=True, check=True).stdout
    (tmp_path / ".deps/xgrammar-source").mkdir(parents=True)
    (tmp_path / ".deps/xgrammar-source/stamp").write_text(checksum)
    status, said = bootstrap(tmp_path, "ID=fedora\nVERSION_ID=43\n", rpm="exit 0")
    assert status == 0 and said.splitlines()[-1].startswith("ready")
    assert (tmp_path / ".deps/stamp").read_text().split() == names("debian:12", "build")


@pytest.mark.parametrize("release, name", [
    ('ID=debian\nVERSION_ID="11"\nPRETTY_NAME="Debian GNU/Linux 11 (bullseye)"\n', "Debian GNU/Linux 11 (bullseye)"),
    ('ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\nPRETTY_NAME="Ubuntu 22.04 LTS"\n', "Ubuntu 22.04 LTS"),
    ('ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="21.3"\nUBUNTU_CODENAME=jammy\nVERSION_CODENAME=virginia\n',
     "linuxmint"),
    ("ID=nixos\n", "nixos"), ("ID=deb\n", "deb"), ("ID=opensuse-leap\nID_LIKE='suse opensuse'\n", "opensuse-leap"),
    ("", "this system"), ("ID='\n", "this system"), (None, "this system"),
])
def test_a_system_that_it_does_not_know_is_told_what_it_knows(tmp_path, release, name):
    status, said = bootstrap(tmp_path, release)
    assert status == 1
    assert f"knows no packages for {name}, only" in said
    assert "debian:12 debian:13 ubuntu:24.04 fedora arch (and macOS)" in said


def test_the_page_shows_the_same_names():
    header, *lines = rows()
    systems = header[1:-1]
    titles = [system.replace(":", " ").capitalize() for system in systems]
    table = ["| " + " | ".join(titles) + " |", "|" + "---|" * len(systems)]
    for line in lines:
        if line[0] == "build":
            cells = [f"`{name[4:]}`, from its user repository" if name.startswith("aur/") else f"`{name}`"
                     for name in line[1:-1]]
            table.append("| " + " | ".join(cells) + " |")
    with open(os.path.join(paths.ROOT, "docs/install.md")) as page:
        shown = page.read()
    assert "\n".join(table) in shown, "docs/install.md must have this table:\n" + "\n".join(table)


def test_each_row_has_a_name_for_every_system():
    header, *lines = rows()
    assert all(len(line) == len(header) and line[0] in ("build", "test", "nightly") for line in lines)
    assert all(line[header.index(system)] != "-" for line in lines for system in header[1:-1] if line[0] == "build")


def test_the_workflow_of_the_night_has_all_its_parts():
    with open(os.path.join(paths.ROOT, "script/nightly")) as file:
        script = file.read()
    with open(os.path.join(paths.ROOT, ".github/workflows/nightly.yml")) as file:
        workflow = file.read()
    parts = re.search(r"^parts=\((.*)\)$", script, re.M)[1].split()
    assert re.search(r"^ *part: \[(.*)\]$", workflow, re.M)[1].split(", ") == parts
    assert set(parts) == set(re.findall(r"^night_(\w+)\(\)", script, re.M))
