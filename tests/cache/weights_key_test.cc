#include "cache/weights_key.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "cache/records.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

void put(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string get(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string key(const fs::path& model, const std::string& memory = {}) {
  const auto made = weights_key(model.string(), memory);
  EXPECT_TRUE(made.ok());
  return made.ok() ? to_hex(*made) : "";
}

std::vector<fs::path> files_in(const fs::path& directory) {
  return {fs::directory_iterator(directory), fs::directory_iterator()};
}

TEST(WeightsKey, IsOfEveryByte) {
  TemporaryDirectory directory;
  const fs::path model = fs::path(directory.path()) / "model";
  fs::create_directory(model);
  put(model / "config.json", "{}");
  put(model / "a.safetensors", std::string(40 << 20, 'a'));
  put(model / "tokenizer.json", "{}");
  const std::string before = key(model);
  EXPECT_EQ(before, "b4872fb5c1e95ed0b964fc82f504a448");  // caches are found by it
  put(model / "tokenizer.json", "{ }");
  EXPECT_EQ(key(model), before);
  std::string text = get(model / "a.safetensors");
  text[30 << 20] = 'b';
  put(model / "a.safetensors", text);
  EXPECT_NE(key(model), before);
  const std::string changed = key(model);
  put(model / "params.json", "{}");  // the configuration in Mistral's own layout
  EXPECT_NE(key(model), changed);
  EXPECT_FALSE(weights_key((model / "missing").string()).ok());
}

TEST(WeightsKey, IsOfAllPartsOfASplitModel) {
  TemporaryDirectory directory;
  const fs::path root = directory.path(), first = root / "m-00001-of-00002.gguf",
                 second = root / "m-00002-of-00002.gguf";
  put(first, "one");
  const std::string alone = key(first);
  put(second, "two");
  const std::string both = key(first);
  EXPECT_NE(both, alone);
  EXPECT_EQ(key(second), both);
  put(second, "2nd");
  EXPECT_NE(key(first), both);
  put(root / "m.gguf", "one");
  EXPECT_NE(key(root / "m.gguf"), both);
}

TEST(WeightsKey, RemembersFilesThatDoNotChange) {
  TemporaryDirectory directory;
  const fs::path root = directory.path(), model = root / "model.gguf", memory = root / "memory" / "states";
  put(model, "weights");
  const std::string right = key(model);
  EXPECT_EQ(key(model, memory), right);
  ASSERT_EQ(files_in(memory).size(), 1u);
  const fs::path known = files_in(memory).front();
  EXPECT_EQ(get(known),
            "anabranch-weights 1\n");  // the file has just been written: its next change may not show
  std::this_thread::sleep_for(std::chrono::milliseconds(2100));
  EXPECT_EQ(key(model, memory), right);
  ASSERT_EQ(files_in(memory), std::vector{known});
  const std::string good = get(known);
  EXPECT_EQ(fs::status(known).permissions(), fs::perms::owner_read | fs::perms::owner_write);

  std::string other = good;  // what it says counts
  other[other.size() - 2] = other[other.size() - 2] == '0' ? '1' : '0';
  put(known, other);
  const std::string wrong = key(model, memory);
  EXPECT_NE(wrong, right);
  fs::permissions(known, fs::perms::group_write,
                  fs::perm_options::add);  // unless another may have written it
  EXPECT_EQ(key(model, memory), right);
  EXPECT_EQ(get(known), good);

  put(known, other);
  fs::permissions(memory, fs::perms::group_write, fs::perm_options::add);  // or moved it there
  EXPECT_EQ(key(model, memory), right);
  fs::permissions(memory, fs::perms::group_write, fs::perm_options::remove);
  EXPECT_EQ(key(model, memory), wrong);
  fs::rename(known, root / "elsewhere");
  fs::create_symlink(root / "elsewhere", known);
  EXPECT_EQ(key(model, memory), right);
  EXPECT_EQ(get(known), good);
  EXPECT_FALSE(fs::is_symlink(known));

  const fs::path temporary = known.string() + ".tmp";  // of a process that died
  put(temporary, std::string(3000, 'x'));
  fs::remove(known);
  EXPECT_EQ(key(model, memory), right);
  EXPECT_EQ(get(known), good);
  EXPECT_EQ(files_in(memory), std::vector{known});

  for (const std::string& damaged :
       {std::string(), good.substr(0, good.size() - 1), good.substr(0, good.size() - 9) + "\n",
        good.substr(good.find('\n') + 1), std::string(good).replace(good.size() - 2, 1, "x"),
        std::string(good).replace(good.find("model"), 5, "nodel"), std::string(2 << 20, '\n')}) {
    put(known, damaged);
    EXPECT_EQ(key(model, memory), right) << damaged.substr(0, 200);
    EXPECT_EQ(get(known), good);
  }

  const auto time = fs::last_write_time(model);
  put(model, "WEIGHTS");
  fs::last_write_time(model, time);  // the inode's own time tells
  EXPECT_EQ(key(model, memory), key(model));
  EXPECT_NE(key(model, memory), right);
  EXPECT_EQ(key(model, "/proc/nowhere"), key(model));

  put(memory / "weights-of-mine", "");
  put(temporary, "");
  forget_weights(memory.string());
  EXPECT_EQ(files_in(memory), std::vector{memory / "weights-of-mine"});
}

}  // namespace
}  // namespace anabranch
