// The drawings of tools/make_image_goldens.py, made again from their sizes and seeds.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "images/picture.h"

namespace anabranch::testing {

struct Point {
  int64_t x, y, width, height, seed;
};

inline uint8_t gradient(const Point& p, int c) {
  if (c == 0) return static_cast<uint8_t>(p.x * 255 / p.width);
  if (c == 1) return static_cast<uint8_t>(p.y * 255 / p.height);
  return static_cast<uint8_t>((p.x + p.y) * 255 / (p.width + p.height) + p.seed);
}

inline uint8_t noise(const Point& p, int c) {
  auto v = static_cast<uint32_t>((p.y * p.width + p.x) * 3 + c + p.seed * 7919);
  v *= 2654435761u;
  v ^= v >> 15;
  v *= 2246822519u;
  v ^= v >> 13;
  return static_cast<uint8_t>(v);
}

inline uint8_t board(const Point& p, int c) {
  const int64_t field = (p.x / (3 + p.seed % 9) + p.y / (2 + p.seed % 7)) % 2;
  return static_cast<uint8_t>(c == 0 ? field * 255 : c == 1 ? 255 - field * 200 : field * 90 + 60);
}

inline uint8_t rings(const Point& p, int c) {
  const int64_t dx = p.x - p.width / 2, dy = p.y - p.height / 3;
  return static_cast<uint8_t>((dx * dx + dy * dy) / ((c == 0 ? 5 : c == 1 ? 9 : 23) + p.seed));
}

inline uint8_t letters(const Point& p, int c) {
  const bool ink = (p.x * 7 + p.y / 3 * 13 + p.seed) % 61 < 9 && p.y % 17 < 12;
  return static_cast<uint8_t>(ink ? 20 + 30 * c : 250 - 5 * c);
}

inline Picture draw(const std::string& name, int width, int height, int seed) {
  const auto value = name == "gradient" ? gradient
                     : name == "noise"  ? noise
                     : name == "board"  ? board
                     : name == "rings"  ? rings
                                        : letters;
  Picture picture{width, height, {}};
  picture.rgb.reserve(size_t{3} * width * height);
  for (int y = 0; y < height; y++)
    for (int x = 0; x < width; x++)
      for (int c = 0; c < 3; c++) picture.rgb.push_back(value({x, y, width, height, seed}, c));
  return picture;
}

inline std::string read_data(const std::string& name) {
  std::ifstream file(ANABRANCH_SOURCE_DIR "/tests/images/data/" + name, std::ios::binary);
  CHECK(file.good(), "tests/images/data/{} is missing", name);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace anabranch::testing
