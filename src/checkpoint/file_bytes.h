// A file's bytes and their owner. Parsers can run on mapped files and on memory.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/mapped_file.h"
#include "base/outside_text.h"
#include "base/result.h"

namespace anabranch {

// How much of a file is read. `headers`: only the headers of weight files, because zeros follow them (a model
// that is not downloaded yet) or because the values are not needed. The values are not checked then, and
// nothing may be loaded. `some_headers`: in addition, files that an index names may be missing.
enum class Extent { whole, headers, some_headers };

struct FileBytes {
  std::string path;  // for messages
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> keep;
  std::shared_ptr<const MappedFile> map = nullptr;  // null: bytes in memory
  Extent extent = Extent::whole;
};

Result<FileBytes> map_file(const std::string& path, Extent extent = Extent::whole);

// "[4, 3]"
std::string shape_text(std::span<const int64_t> shape);

}  // namespace anabranch
