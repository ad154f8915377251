// Writes safetensors files whose tensors are known beforehand, in parts of limited size.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace anabranch {

struct Piece {
  std::string name;   // as in the file
  std::string dtype;  // "BF16" ...
  std::vector<int64_t> shape;
  uint64_t bytes = 0;
};

class ShardWriter {
 public:
  // `format`: the norm convention, for the metadata of each file: "mlx", or "pt" for Hugging Face's.
  explicit ShardWriter(std::string directory, std::string format = "mlx")
      : directory_(std::move(directory)), format_(std::move(format)) {}

  // Files "<stem>.safetensors" or "<stem>-00001-of-00003.safetensors" for modules (pieces that belong
  // together) in this order; a file has at most max_bytes unless a single tensor has more. Creates the files
  // and writes their headers.
  Result<void> add_files(const std::string& stem, const std::vector<std::vector<Piece>>& modules,
                         uint64_t max_bytes);
  // Writes the data of a piece. Each piece is written once.
  Result<void> write(const std::string& name, const void* data, uint64_t bytes);
  // Writes a part of a piece, `offset` bytes from its beginning.
  Result<void> write_part(const std::string& name, uint64_t offset, const void* data, uint64_t bytes);
  // model.safetensors.index.json
  Result<void> write_index(uint64_t parameters) const;

  int files() const { return static_cast<int>(files_); }
  uint64_t bytes() const { return bytes_; }            // of all files
  uint64_t data_bytes() const { return data_bytes_; }  // without headers

 private:
  struct PieceLocation {
    std::string file;
    uint64_t offset, bytes;
  };
  Result<void> begin_file(const std::string& file, std::vector<Piece> pieces);

  std::string directory_, format_;
  std::map<std::string, PieceLocation> locations_;
  size_t files_ = 0;
  uint64_t bytes_ = 0, data_bytes_ = 0;
};

// Writes a small file, replacing its contents. Errors: io.
Result<void> write_file(const std::string& path, std::string_view text);

}  // namespace anabranch
