#include "checkpoint/shard_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/json.h"
#include "checkpoint/output_file.h"

namespace anabranch {

namespace {

constexpr uint64_t kHeaderShare = 120;  // for a tensor's entry, besides its name

// flags: additional flags for open().
Result<void> write_at(const std::string& path, uint64_t offset, const void* data, uint64_t bytes,
                      int flags = 0) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
  if (fd < 0) return make_error(ErrorKind::io, "cannot write {}: {}", path, std::strerror(errno));
  const auto written = write_fully(fd, path, offset, data, bytes);
  if (::close(fd) != 0 && written.ok())
    return make_error(ErrorKind::io, "cannot write {}: {}", path, std::strerror(errno));
  return written;
}

uint64_t size_of(const std::vector<Piece>& pieces) {
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes + piece.name.size() + kHeaderShare;
  return bytes;
}

// Wider elements first, so that all are aligned.
int width(const Piece& piece) {
  return piece.dtype == "U32" || piece.dtype == "F32" ? 4 : 2;
}

}  // namespace

Result<void> write_file(const std::string& path, std::string_view text) {
  return write_at(path, 0, text.data(), text.size(), O_TRUNC);
}

Result<void> ShardWriter::begin_file(const std::string& file, std::vector<Piece> pieces) {
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const auto& a, const auto& b) { return width(a) > width(b); });
  // Written by hand, because a Json object takes quadratic time in its keys.
  std::string header = "{\"__metadata__\":" + Json{{"format", format_}}.dump();
  uint64_t at = 0;
  for (const Piece& piece : pieces) {
    const Json entry{
        {"dtype", piece.dtype}, {"shape", piece.shape}, {"data_offsets", {at, at + piece.bytes}}};
    header += "," + Json(piece.name).dump() + ":" + entry.dump();
    at += piece.bytes;
  }
  header += "}";
  header.append((8 - header.size() % 8) % 8, ' ');
  const uint64_t length = header.size();
  uint64_t offset = sizeof(length) + length;
  for (const Piece& piece : pieces) {
    const bool fresh = locations_.emplace(piece.name, PieceLocation{file, offset, piece.bytes}).second;
    if (!fresh)
      return make_error(ErrorKind::invalid, "two tensors would both be written as \"{}\"", piece.name);
    offset += piece.bytes;
  }
  const std::string head = std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + header;
  TRY_VOID(write_at(directory_ + "/" + file, 0, head.data(), head.size()));
  files_++;
  bytes_ += offset;
  data_bytes_ += at;
  return {};
}

Result<void> ShardWriter::add_files(const std::string& stem, const std::vector<std::vector<Piece>>& modules,
                                    uint64_t max_bytes) {
  constexpr uint64_t kFileHead = 64;
  std::vector<std::vector<Piece>> files;
  uint64_t used = 0;
  const auto add = [&](const std::vector<Piece>& pieces) {
    const uint64_t size = size_of(pieces);
    if (files.empty() || (used + size > max_bytes && !files.back().empty())) {
      files.emplace_back();
      used = kFileHead;
    }
    files.back().insert(files.back().end(), pieces.begin(), pieces.end());
    used += size;
  };
  for (const auto& module : modules) {
    if (size_of(module) + kFileHead <= max_bytes)
      add(module);
    else
      for (const Piece& piece : module) add({piece});
  }
  for (size_t i = 0; i < files.size(); i++)
    TRY_VOID(begin_file(files.size() == 1
                            ? stem + ".safetensors"
                            : fmt::format("{}-{:05}-of-{:05}.safetensors", stem, i + 1, files.size()),
                        std::move(files[i])));
  return {};
}

Result<void> ShardWriter::write(const std::string& name, const void* data, uint64_t bytes) {
  const auto at = locations_.find(name);
  CHECK(at != locations_.end() && at->second.bytes == bytes, "{}: {} bytes", name, bytes);
  return write_part(name, 0, data, bytes);
}

Result<void> ShardWriter::write_part(const std::string& name, uint64_t offset, const void* data,
                                     uint64_t bytes) {
  const auto at = locations_.find(name);
  CHECK(at != locations_.end() && offset + bytes <= at->second.bytes, "{}: {} bytes from {}", name, bytes,
        offset);
  return write_at(directory_ + "/" + at->second.file, at->second.offset + offset, data, bytes);
}

Result<void> ShardWriter::write_index(uint64_t parameters) const {
  std::string text =
      "{\n  \"metadata\": " + Json{{"total_size", data_bytes_}, {"total_parameters", parameters}}.dump() +
      ",\n  \"weight_map\": {";
  const char* separator = "\n";
  for (const auto& [name, location] : locations_) {
    text += separator + ("    " + Json(name).dump()) + ": " + Json(location.file).dump();
    separator = ",\n";
  }
  return write_file(directory_ + "/model.safetensors.index.json", text + "\n  }\n}\n");
}

}  // namespace anabranch
