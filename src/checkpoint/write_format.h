// The table of formats that `convert` writes.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"

namespace anabranch {

struct WriteFormat {
  ConvertFormat format;
  std::string_view name;  // as --format takes it
  bool is_file;           // one GGUF file, not a directory
  bool takes_bits;        // any number of bits, scales of either type
  bool takes_recipes;     // a format for each module
  bool takes_calibration;
  Result<ConvertReport> (*write)(Checkpoint& source, const std::string& source_path,
                                 const ConvertOptions& options);
};

std::span<const WriteFormat> write_formats();
const WriteFormat& write_format(ConvertFormat format);
// Null if there is no format of this name.
const WriteFormat* find_write_format(std::string_view name);

// The `write` functions of the formats, in convert.cc and gguf_writer.cc.
Result<ConvertReport> convert_to_directory(Checkpoint& source, const std::string& source_path,
                                           const ConvertOptions& options);
Result<ConvertReport> convert_to_gguf(Checkpoint& source, const std::string& source_path,
                                      const ConvertOptions& options);

}  // namespace anabranch
