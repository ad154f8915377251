// Builds safetensors files and model directories for tests, byte by byte, so that they can be wrong on
// purpose.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "temp_dir.h"

namespace anabranch::testing {

template <class T>
std::string raw_bytes(const std::vector<T>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

inline std::string with_header(const std::string& header, const std::string& data) {
  const uint64_t n = header.size();
  return std::string(reinterpret_cast<const char*>(&n), 8) + header + data;
}

class SafetensorsWriter {
 public:
  SafetensorsWriter& add(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
                         const std::string& bytes) {
    std::string dims;
    for (int64_t n : shape) dims += (dims.empty() ? "" : ",") + std::to_string(n);
    header_ += ",\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + dims + "],\"data_offsets\":[" +
               std::to_string(data_.size()) + "," + std::to_string(data_.size() + bytes.size()) + "]}";
    data_ += bytes;
    return *this;
  }
  SafetensorsWriter& f32(const std::string& name, const std::vector<int64_t>& shape,
                         const std::vector<float>& values) {
    return add(name, "F32", shape, raw_bytes(values));
  }
  std::string bytes(const std::string& format = "pt") const {
    return with_header("{\"__metadata__\":{\"format\":\"" + format + "\"}" + header_ + "}", data_);
  }

 private:
  std::string header_, data_;
};

}  // namespace anabranch::testing
