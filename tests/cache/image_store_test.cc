#include "cache/image_store.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "cache/records.h"
#include "tensor/device.h"

namespace anabranch {
namespace {

using namespace anabranch::testing;
namespace fs = std::filesystem;

Tensor numbers(int rows, float first) {
  Tensor x = host_device().empty({rows, 8}, Dtype::f32);
  for (int i = 0; i < rows * 8; i++) x.data<float>()[i] = first + static_cast<float>(i);
  return x;
}

bool equal(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::equal(a.data<float>(), a.data<float>() + a.size(), b.data<float>());
}

ImageStoreOptions options_in(const std::string& directory) {
  return {.fingerprint = {1, 2}, .directory = directory};
}

std::vector<fs::path> files_in(const std::string& directory) {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) out.push_back(entry.path());
  return out;
}

TEST(ImageStore, FindsUnderTheSameSaltAndShapeOnly) {
  ImageStore store(options_in(""));
  store.keep({3, 4}, "mine", numbers(5, 1));
  const auto found = store.find({3, 4}, "mine", {5, 8});
  ASSERT_TRUE(found);
  EXPECT_TRUE(equal(*found, numbers(5, 1)));
  EXPECT_FALSE(store.find({3, 4}, "", {5, 8}));
  EXPECT_FALSE(store.find({3, 5}, "mine", {5, 8}));
  EXPECT_FALSE(store.find({3, 4}, "mine", {4, 8}));
}

TEST(ImageStore, ForgetsWhatWasUsedLeastRecently) {
  ImageStore store({.fingerprint = {1, 2}, .directory = "", .ram_bytes = 2 * 5 * 8 * 4});
  store.keep({1, 0}, "", numbers(5, 1));
  store.keep({2, 0}, "", numbers(5, 2));
  EXPECT_TRUE(store.find({1, 0}, "", {5, 8}));
  store.keep({3, 0}, "", numbers(5, 3));
  EXPECT_TRUE(store.find({1, 0}, "", {5, 8}));
  EXPECT_FALSE(store.find({2, 0}, "", {5, 8}));
  EXPECT_LE(store.ram_bytes(), 2u * 5 * 8 * 4);
}

TEST(ImageStore, OutlivesItsProcessOnDisk) {
  TemporaryDirectory directory;
  { ImageStore(options_in(directory.path())).keep({1, 9}, "salt", numbers(7, 3)); }
  ImageStore again(options_in(directory.path()));
  const auto found = again.find({1, 9}, "salt", {7, 8});
  ASSERT_TRUE(found);
  EXPECT_TRUE(equal(*found, numbers(7, 3)));
  EXPECT_FALSE(again.find({1, 9}, "", {7, 8}));
  ImageStore other({.fingerprint = {1, 3}, .directory = directory.path()});
  EXPECT_FALSE(other.find({1, 9}, "salt", {7, 8}));
}

// Whatever one byte is, or wherever the file ends: nothing is found, or exactly what was kept.
TEST(ImageStore, DamagedFilesAreNotFound) {
  TemporaryDirectory directory;
  const auto written = [&] {
    { ImageStore(options_in(directory.path())).keep({1, 9}, "", numbers(2, 3)); }
    return files_in(directory.path()).at(0);
  };
  const fs::path path = written();
  const size_t size = fs::file_size(path);
  for (size_t at = 0; at < size; at++) {
    written();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<long>(at));
    const char old = static_cast<char>(file.get());
    file.seekp(static_cast<long>(at));
    file.put(static_cast<char>(old ^ 0x10));
    file.close();
    ImageStore store(options_in(directory.path()));
    EXPECT_FALSE(store.find({1, 9}, "", {2, 8})) << at;
    fs::remove(path);
  }
  for (size_t length = 0; length < size; length += 7) {
    written();
    fs::resize_file(path, length);
    ImageStore store(options_in(directory.path()));
    EXPECT_FALSE(store.find({1, 9}, "", {2, 8})) << length;
    fs::remove(path);
  }
}

TEST(ImageStore, AreForgottenAndOtherFilesStay) {
  TemporaryDirectory directory;
  { ImageStore(options_in(directory.path())).keep({1, 9}, "", numbers(2, 3)); }
  const fs::path mine = files_in(directory.path()).at(0).parent_path() / "mine.txt";
  std::ofstream(mine) << "mine";
  EXPECT_EQ(forget_images(directory.path()).files, 1u);
  EXPECT_EQ(files_in(directory.path()), std::vector<fs::path>{mine});
}

TEST(ImageStore, FilesOfAllFingerprintsAreCounted) {
  TemporaryDirectory directory;
  EXPECT_EQ(images_on_disk(directory.path() + "/none").files, 0u);
  { ImageStore(options_in(directory.path())).keep({1, 9}, "", numbers(2, 3)); }
  { ImageStore({.fingerprint = {1, 3}, .directory = directory.path()}).keep({1, 9}, "", numbers(4, 3)); }
  uint64_t bytes = 0;
  for (const fs::path& path : files_in(directory.path())) bytes += fs::file_size(path);
  const fs::path folder = files_in(directory.path()).at(0).parent_path();
  std::ofstream(folder / "mine.txt") << "mine";
  EXPECT_EQ(images_on_disk(directory.path()).files, 2u);
  EXPECT_EQ(images_on_disk(directory.path()).bytes, bytes);
  const ImageFiles gone = forget_images(directory.path());
  EXPECT_EQ(gone.files, 2u);
  EXPECT_EQ(gone.bytes, bytes);
  EXPECT_EQ(images_on_disk(directory.path()).files, 0u);
}

TEST(ImageStore, FilesStayWithinTheirBudget) {
  TemporaryDirectory directory;
  ImageStoreOptions options = options_in(directory.path());
  options.disk_bytes = 2000;
  {
    ImageStore store(options);
    for (uint64_t i = 0; i < 20; i++) store.keep({i, i}, "", numbers(10, 1));
  }
  uint64_t sum = 0;
  for (const auto& path : files_in(directory.path())) sum += fs::file_size(path);
  EXPECT_GT(sum, 0u);
  EXPECT_LE(sum, 2000u);
}

// Reading a file is a use of it. Files that fit exactly stay.
TEST(ImageStore, TheLeastRecentlyUsedFilesAreRemoved) {
  TemporaryDirectory directory;
  std::vector<fs::path> files;  // of the images 0, 1 and 2
  for (uint64_t i = 0; i < 3; i++) {
    { ImageStore(options_in(directory.path())).keep({i, i}, "", numbers(10, 1)); }
    for (const fs::path& path : files_in(directory.path()))
      if (std::ranges::find(files, path) == files.end()) {
        files.push_back(path);
        fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(9 - i));
      }
  }
  ASSERT_EQ(files.size(), 3u);
  ImageStoreOptions options = options_in(directory.path());
  options.disk_bytes = 3 * fs::file_size(files[0]);
  {
    ImageStore store(options);
    EXPECT_TRUE(store.find({0, 0}, "", {10, 8}));
    store.keep({3, 3}, "", numbers(10, 1));
  }
  EXPECT_EQ(files_in(directory.path()).size(), 3u);
  EXPECT_TRUE(fs::exists(files[0])) << "it was read";
  EXPECT_FALSE(fs::exists(files[1]));
  EXPECT_TRUE(fs::exists(files[2]));
}

}  // namespace
}  // namespace anabranch
