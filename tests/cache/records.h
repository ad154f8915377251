// Records for tests: their contents follow from their keys, so that whatever is read can be judged.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cache/disk_store.h"
#include "cache/disk_tools.h"

namespace anabranch::testing {

inline const Fingerprint kFingerprint = fingerprint_of("a model in a test");

inline RecordHead head_after(RecordKind kind, PrefixKey parent, uint32_t parent_length,
                             std::vector<int> tokens) {
  const auto length = parent_length + static_cast<uint32_t>(tokens.size());
  return {kind, next_key(parent, tokens), parent, length, std::move(tokens)};
}

// A conversation's records: `blocks` blocks, then a snapshot with `rest` tokens. Parents first.
inline std::vector<RecordHead> chain(int seed, int blocks, int rest = 7) {
  std::mt19937 random(seed);
  std::vector<RecordHead> heads;
  PrefixKey key = root_key(kFingerprint, "");
  uint32_t length = 0;
  for (int i = 0; i <= blocks; i++) {
    std::vector<int> tokens(i < blocks ? kBlockTokens : rest);
    for (int& token : tokens) token = static_cast<int>(random() % 150000);
    heads.push_back(head_after(i < blocks ? RecordKind::block : RecordKind::snapshot, key, length, tokens));
    key = heads.back().key;
    length = heads.back().length;
  }
  return heads;
}

inline std::string contents(const PrefixKey& key, uint64_t section, size_t bytes) {
  std::mt19937_64 random(key.low + section);
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random();
    std::memcpy(text.data() + i, &word, std::min<size_t>(8, bytes - i));
  }
  return text;
}

inline Section section_of(uint32_t number, std::string text) {
  auto owner = std::make_shared<const std::string>(std::move(text));
  return {{1, 0, number, 0}, owner->data(), owner->size(), owner};
}

// Three sections; the middle one is empty. bytes: about, of all.
inline std::vector<Section> sections_of(const RecordHead& head, size_t bytes = 3000) {
  const size_t first = bytes / 3 + head.key.high % 7;
  return {section_of(0, contents(head.key, 0, first)), section_of(1, ""),
          section_of(2, contents(head.key, 2, bytes - first))};
}

inline bool is_right(const StoredRecord& record, const RecordHead& head) {
  if (record.head != head || record.sections.size() != 3) return false;
  for (size_t i = 0; i < 3; i++) {
    if (record.sections[i].tag != RecordTag{1, 0, static_cast<uint32_t>(i), 0}) return false;
    const auto& section = record.sections[i].bytes;
    if (reinterpret_cast<uintptr_t>(section.data()) % kSectionAlignment != 0) return false;
    const std::string expected = contents(head.key, i, section.size());
    if (!expected.empty() && std::memcmp(section.data(), expected.data(), expected.size()) != 0) return false;
  }
  return record.sections[0].bytes.size() + record.sections[2].bytes.size() > 0;
}

// The whole file in memory.
inline std::string record_bytes(const Fingerprint& fingerprint, const RecordHead& head,
                                std::span<const Section> sections) {
  const EncodedHead encoded = encode_head(fingerprint, head, sections);
  std::string bytes = encoded.head;
  for (size_t i = 0; i < sections.size(); i++) {
    bytes.resize(encoded.sections[i].offset, '\0');
    bytes.append(static_cast<const char*>(sections[i].data), sections[i].bytes);
  }
  return bytes;
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}
inline void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string name = ::testing::TempDir() + "/anabranch_cache_XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Files in the directory whose names start so.
inline int count_files(const std::string& directory, const std::string& start) {
  int n = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    n += entry.is_regular_file() && entry.path().filename().string().starts_with(start);
  return n;
}

inline std::unique_ptr<DiskStore> open_store(const std::string& directory,
                                             const std::function<void(DiskOptions&)>& change = {}) {
  DiskOptions options;
  options.directory = directory;
  options.fingerprint = kFingerprint;
  options.budget_bytes = 1ull << 30;
  if (change) change(options);
  auto store = DiskStore::open(std::move(options));
  EXPECT_TRUE(store.ok()) << store.error().message;
  return std::move(*store);
}

inline std::vector<DiskRecord> listed(const std::string& directory) {
  const auto folders = list_cache(directory);
  EXPECT_TRUE(folders.ok()) << folders.error().message;
  std::vector<DiskRecord> files;
  for (const CacheFolder& folder : *folders)
    files.insert(files.end(), folder.records.begin(), folder.records.end());
  return files;
}

inline void put_all(DiskStore& store, const std::vector<RecordHead>& heads, size_t bytes = 3000) {
  for (const RecordHead& head : heads) store.put(head, sections_of(head, bytes));
}

inline int count_right(DiskStore& store, const std::vector<RecordHead>& heads) {
  int n = 0;
  for (const RecordHead& head : heads) {
    const auto record = store.get(head);
    n += record.ok() && is_right(*record, head);
  }
  return n;
}

// unlink(2) that waits while it is closed.
struct SlowUnlink {
  std::mutex mutex;
  std::atomic<int> calls{0};
  std::function<void(DiskOptions&)> option() {
    return [this](DiskOptions& options) {
      options.unlink = [this](const char* path) {
        calls++;
        const std::lock_guard lock(mutex);
        return ::unlink(path);
      };
    };
  }
  bool was_called() {
    for (int i = 0; i < 2000 && calls == 0; i++) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return calls > 0;
  }
};

constexpr int kSkipped = 77;

// Runs `body` in a process of its own; expectations that fail there fail here. Returns its exit status.
inline int in_child(const std::function<int()>& body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    const int status = body();
    std::fflush(nullptr);
    ::_exit(status ? status : ::testing::Test::HasFailure());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace anabranch::testing
