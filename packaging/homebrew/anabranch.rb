# Not tried: docs/install.md. URL and checksum are those of a release.
class Anabranch < Formula
  desc "Inference engine and server for hybrid language models"
  homepage "https://anabranch.invalid"
  url "https://anabranch.invalid/anabranch-0.2.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "ninja" => :build
  depends_on "python@3.11" => :build
  depends_on "boost"
  depends_on "cli11"
  depends_on "cppzmq"
  depends_on "fmt"
  depends_on "jpeg-turbo"
  depends_on "libpng"
  depends_on "nlohmann-json"
  depends_on "openssl@3"
  depends_on "pcre2"
  depends_on "prometheus-cpp"
  depends_on "simdjson"
  depends_on "spdlog"
  depends_on "sqlite"
  depends_on "tomlplusplus"
  depends_on "utf8proc"
  depends_on "webp"
  depends_on "xxhash"
  depends_on "zeromq"

  def install
    system "script/build"
    system "cmake", "--install", "build", "--prefix", prefix
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/anabranch --version")
  end
end
