#include "cache/image_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "base/log.h"
#include "base/mapped_file.h"
#include "base/thread_name.h"
#include "cache/disk_files.h"
#include "tensor/device.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;

// The head of a file. The embeddings follow it as they lie in memory.
struct FileHead {
  char magic[8] = {'A', 'B', 'I', 'M', 'A', 'G', 'E', '1'};
  uint32_t rows = 0, width = 0;
  uint64_t check = 0;  // XXH3-64 of the embeddings
};

// Limit on bytes that wait to be written; images beyond it are not written.
constexpr uint64_t kMostWaiting = uint64_t{256} << 20;

std::vector<fs::path> folders_of(const std::string& directory) {
  std::vector<fs::path> out;
  std::error_code error;
  for (fs::directory_iterator entries(directory, error), end; !error && entries != end;
       entries.increment(error)) {
    const fs::directory_entry& entry = *entries;
    if (entry.path().filename().string().starts_with("images1-") && entry.is_directory(error))
      out.push_back(entry.path());
  }
  return out;
}

struct File {
  fs::path path;
  uint64_t bytes;
  fs::file_time_type used;
};
std::vector<File> files_of(const std::string& directory) {
  std::vector<File> out;
  for (const fs::path& folder : folders_of(directory)) {
    std::error_code error;
    for (fs::directory_iterator entries(folder, error), end; !error && entries != end;
         entries.increment(error)) {
      const fs::directory_entry& entry = *entries;
      const std::string extension = entry.path().extension().string();
      std::error_code gone;
      File one{entry.path(), entry.file_size(gone), entry.last_write_time(gone)};
      if (!gone && (extension == ".image" || extension == ".tmp")) out.push_back(std::move(one));
    }
  }
  return out;
}

}  // namespace

ImageFiles images_on_disk(const std::string& directory) {
  ImageFiles sum;
  for (const File& file : files_of(directory)) {
    sum.files++;
    sum.bytes += file.bytes;
  }
  return sum;
}

ImageFiles forget_images(const std::string& directory) {
  ImageFiles gone;
  std::error_code error;
  for (const File& file : files_of(directory)) {
    if (!fs::remove(file.path, error)) continue;
    gone.files++;
    gone.bytes += file.bytes;
  }
  for (const fs::path& folder : folders_of(directory)) fs::remove(folder, error);  // only if it is empty
  return gone;
}

ImageStore::ImageStore(ImageStoreOptions options)
    : options_(std::move(options)),
      folder_(options_.directory.empty() ? ""
                                         : options_.directory + "/images1-" + to_hex(options_.fingerprint)) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  if (error) log_warning("images are kept in memory only: {}: {}", folder_, error.message());
  fs::permissions(folder_, fs::perms::owner_all, error);
  writer_ = std::thread([this] { run_writer(); });
}

ImageStore::~ImageStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  if (writer_.joinable()) writer_.join();
}

PrefixKey ImageStore::key_of(const ImageKey& key, std::string_view salt) const {
  return fingerprint_of(
      fmt::format("{} {:016x}{:016x} {}", to_hex(options_.fingerprint), key.high, key.low, salt));
}

std::string ImageStore::path_of(const PrefixKey& key) const {
  return folder_ + "/" + to_hex(key) + ".image";
}

std::optional<Tensor> ImageStore::find(const ImageKey& image, std::string_view salt, const Shape& shape) {
  const PrefixKey key = key_of(image, salt);
  if (const auto found = index_.find(key); found != index_.end()) {
    if (found->second->embeddings.shape() != shape) return std::nullopt;
    entries_.splice(entries_.begin(), entries_, found->second);
    return entries_.front().embeddings;
  }
  auto kept = folder_.empty() ? std::nullopt : read(key, shape);
  if (kept) put(key, *kept);
  return kept;
}

void ImageStore::keep(const ImageKey& image, std::string_view salt, const Tensor& embeddings) {
  const PrefixKey key = key_of(image, salt);
  if (index_.contains(key)) return;
  Tensor own = host_device().empty(embeddings.shape(), Dtype::f32);  // not of a pool of pinned memory
  std::memcpy(own.data<float>(), embeddings.data<float>(), embeddings.nbytes());
  put(key, own);
  if (folder_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    uint64_t waiting = 0;
    for (const Entry& entry : to_write_) waiting += entry.embeddings.nbytes();
    if (waiting > kMostWaiting) return;
    to_write_.push_back({key, own});
  }
  wake_.notify_one();
}

void ImageStore::put(const PrefixKey& key, Tensor embeddings) {
  used_ += embeddings.nbytes();
  entries_.push_front({key, std::move(embeddings)});
  index_[key] = entries_.begin();
  while (used_ > options_.ram_bytes) {
    used_ -= entries_.back().embeddings.nbytes();
    index_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

std::optional<Tensor> ImageStore::read(const PrefixKey& key, const Shape& shape) const {
  const size_t bytes = static_cast<size_t>(shape.count()) * sizeof(float);
  const std::string path = path_of(key);
  const auto text = read_file(path, sizeof(FileHead) + bytes);
  if (!text) return std::nullopt;
  FileHead head;
  if (text->size() != sizeof(head) + bytes || std::memcmp(text->data(), head.magic, sizeof(head.magic)) != 0)
    return std::nullopt;
  std::memcpy(&head, text->data(), sizeof(head));
  const char* numbers = text->data() + sizeof(head);
  const bool good = head.rows == static_cast<uint32_t>(shape[0]) &&
                    head.width == static_cast<uint32_t>(shape[1]) &&
                    head.check == XXH3_64bits(numbers, bytes);
  if (!good) {
    log_warning("{} is damaged and is removed", path);
    ::unlink(path.c_str());
    return std::nullopt;
  }
  Tensor out = host_device().empty(shape, Dtype::f32);
  std::memcpy(out.data<float>(), numbers, bytes);
  ::utimensat(AT_FDCWD, path.c_str(), nullptr, 0);  // it was used
  return out;
}

// Writes to a temporary name first, so that nobody sees a partial file.
void ImageStore::write(const Entry& entry) const {
  const Tensor& numbers = entry.embeddings;
  FileHead head;
  head.rows = static_cast<uint32_t>(numbers.shape(0));
  head.width = static_cast<uint32_t>(numbers.shape(1));
  head.check = XXH3_64bits(numbers.data<float>(), numbers.nbytes());
  const std::string path = path_of(entry.key), temporary = fmt::format("{}.{}.tmp", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  int error = fd < 0 ? errno : 0;
  const std::atomic<bool> never{false};
  const auto put = [&](const void* data, size_t bytes) {
    if (!error) error = write_all(fd, static_cast<const char*>(data), bytes, ::write, never);
  };
  put(&head, sizeof(head));
  put(numbers.data<float>(), numbers.nbytes());
  if (fd >= 0 && ::close(fd) != 0 && !error) error = errno;
  if (!error && ::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (!error) return make_room();
  log_warning("an image was not kept on disk: {}: {}", temporary, std::strerror(error));
  ::unlink(temporary.c_str());
}

// Removes the least recently used files, of all fingerprints, and files that a killed process left.
void ImageStore::make_room() const {
  std::vector<File> files = files_of(options_.directory);
  std::error_code error;
  uint64_t sum = 0;
  for (const File& file : files) sum += file.bytes;
  std::ranges::sort(files, {}, &File::used);
  for (const File& file : files) {
    if (sum <= options_.disk_bytes) return;
    fs::remove(file.path, error);
    sum -= file.bytes;
  }
}

void ImageStore::run_writer() {
  name_thread("image writer");
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stopping_ || !to_write_.empty(); });
    if (to_write_.empty()) return;
    const Entry entry = std::move(to_write_.front());
    to_write_.pop_front();
    lock.unlock();
    try {
      write(entry);
    } catch (const std::exception& e) {
      log_warning("an image was not kept on disk: {}", e.what());
    }
    lock.lock();
  }
}

}  // namespace anabranch
