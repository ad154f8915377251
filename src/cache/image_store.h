// Caches the embeddings that a vision tower made of images, for later prompts: in memory, and on disk between
// runs. Embeddings are found by the image's key. Both tiers are bounded and evict the least recently used
// entries.
//
// Used on the engine thread; a separate thread writes the files. A file that cannot be read or written only
// costs the time to encode the image again.
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>

#include "base/image_ids.h"
#include "cache/prefix_key.h"
#include "tensor/tensor.h"

namespace anabranch {

inline constexpr uint64_t kMostImageDiskBytes = uint64_t{1} << 30;

struct ImageStoreOptions {
  Fingerprint fingerprint;  // of the tower: weights, precision, device
  std::string directory;    // of the cache; empty: nothing is kept on disk
  uint64_t ram_bytes = uint64_t{256} << 20;
  uint64_t disk_bytes = kMostImageDiskBytes;
};

// The files in the cache's directory, of all fingerprints.
struct ImageFiles {
  uint64_t files = 0, bytes = 0;
};
ImageFiles images_on_disk(const std::string& directory);
// Removes these files; returns what was removed.
ImageFiles forget_images(const std::string& directory);

class ImageStore {
 public:
  explicit ImageStore(ImageStoreOptions options);
  ~ImageStore();  // writes the waiting files first
  ImageStore(const ImageStore&) = delete;
  ImageStore& operator=(const ImageStore&) = delete;

  // Embeddings [tokens, width], f32, in the host's memory. They are found only under the salt that they were
  // kept with, and only if their shape is `shape`.
  std::optional<Tensor> find(const ImageKey& key, std::string_view salt, const Shape& shape);
  void keep(const ImageKey& key, std::string_view salt, const Tensor& embeddings);
  uint64_t ram_bytes() const { return used_; }

 private:
  struct Entry {
    PrefixKey key;
    Tensor embeddings;
  };
  PrefixKey key_of(const ImageKey& key, std::string_view salt) const;
  std::string path_of(const PrefixKey& key) const;
  void put(const PrefixKey& key, Tensor embeddings);
  std::optional<Tensor> read(const PrefixKey& key, const Shape& shape) const;
  void write(const Entry& entry) const;
  void make_room() const;
  void run_writer();

  const ImageStoreOptions options_;
  const std::string folder_;  // empty: no disk
  std::list<Entry> entries_;  // the latest use first
  std::unordered_map<PrefixKey, std::list<Entry>::iterator> index_;
  uint64_t used_ = 0;

  std::mutex mutex_;  // guards the two below
  std::deque<Entry> to_write_;
  bool stopping_ = false;
  std::condition_variable wake_;
  std::thread writer_;
};

}  // namespace anabranch
