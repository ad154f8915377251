// Models that Ollama has downloaded.
#include "hub/other_stores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace anabranch::hub {
namespace {

namespace fs = std::filesystem;

class Ollama : public ::testing::Test {
 protected:
  Ollama() {
    fs::create_directories(root_ / "blobs");
    fs::create_directories(manifest_.parent_path());
    std::ofstream(root_ / "blobs/sha256-1") << "GGUF";
    std::ofstream(root_ / "blobs/sha256-2") << "GGUF";
  }
  ~Ollama() override { fs::remove_all(root_); }
  Result<std::string> find(const std::string& layers) {
    std::ofstream(manifest_) << R"({"layers": [)" << layers << "]}";
    return find_ollama_model({root_.string()}, "ollama:tiny", (root_ / "links").string());
  }
  const fs::path root_ = fs::temp_directory_path() / fmt::format("anabranch-ollama-{}", ::getpid());
  const fs::path manifest_ = root_ / "manifests/registry.ollama.ai/library/tiny/latest";
};

constexpr const char* kModel = R"({"mediaType": "application/vnd.ollama.image.model", "digest": "sha256:1"})";
constexpr const char* kAdapter =
    R"({"mediaType": "application/vnd.ollama.image.adapter", "digest": "sha256:2"})";

TEST_F(Ollama, AdaptersAreRefusedWhereverTheyStand) {
  EXPECT_TRUE(find(kModel).ok());
  for (const std::string& layers :
       {std::string(kModel) + "," + kAdapter, std::string(kAdapter) + "," + kModel}) {
    const auto found = find(layers);
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().kind, ErrorKind::unsupported);
    EXPECT_NE(found.error().message.find("adds an adapter (LoRA)"), std::string::npos)
        << found.error().message;
    const auto listed = list_ollama({root_.string()});
    ASSERT_EQ(listed.size(), 1u);
    EXPECT_NE(listed[0].problem.find("adapter"), std::string::npos);
  }
}

TEST_F(Ollama, AModelThatWasPulledAgainIsTheNewOne) {
  for (const std::string digest : {"sha256-1", "sha256-2"}) {
    const auto link =
        find(R"({"mediaType": "application/vnd.ollama.image.model", "digest": ")" + digest + "\"}");
    ASSERT_TRUE(link.ok()) << link.error().message;
    EXPECT_EQ(fs::read_symlink(*link).filename(), digest);
  }
}

TEST_F(Ollama, AManifestNamesNoFileOutsideOfTheStore) {
  std::ofstream(root_ / "secret") << "GGUF";
  for (const char* digest : {"../secret", "sha256:../secret", "/etc/passwd"})
    EXPECT_FALSE(
        find(fmt::format(R"({{"mediaType": "application/vnd.ollama.image.model", "digest": "{}"}})", digest))
            .ok())
        << digest;
}

TEST_F(Ollama, ModelsOfOtherUsersAndRegistriesAreFound) {
  for (const auto& [name, path] : {std::pair("me/tiny", "registry.ollama.ai/me/tiny/latest"),
                                   {"hf.co/org/name:Q8_0", "hf.co/org/name/Q8_0"}}) {
    const fs::path manifest = root_ / "manifests" / path;
    fs::create_directories(manifest.parent_path());
    std::ofstream(manifest) << R"({"layers": [)" << kModel << "]}";
    const auto found =
        find_ollama_model({root_.string()}, std::string("ollama:") + name, (root_ / "links").string());
    EXPECT_TRUE(found.ok()) << name << ": " << found.error().message;
  }
}

TEST_F(Ollama, LmStudioKnowsNoRevisions) {
  fs::create_directories(root_ / "org/name");
  std::ofstream(root_ / "org/name/name-Q8_0.gguf") << "GGUF";
  ModelName name{.repo = "org/name"};
  EXPECT_TRUE(find_lm_studio_model({root_.string()}, name, Purpose::model).ok());
  name.revision = "v2";
  EXPECT_FALSE(find_lm_studio_model({root_.string()}, name, Purpose::model).ok());
}

}  // namespace
}  // namespace anabranch::hub
