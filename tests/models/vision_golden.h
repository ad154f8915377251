// Tiny random checkpoints with a vision tower, and what Transformers computes of them in fp32
// (tools/make_vision_goldens.py).
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/json.h"
#include "base/mapped_file.h"
#include "images/processor.h"

namespace anabranch::golden {

struct VisionImage {
  ProcessedImage image;
  std::vector<float> features, features_mlxq;  // as VisionTower::Encoding::result() gives them
};

struct VisionRun {
  std::vector<int> prompt, images, positions, greedy;
  std::vector<std::vector<int>> rope_positions;  // of three axes; empty where all are plain
  std::vector<float> log_probs;                  // [positions, vocab]
};

struct VisionCase {
  std::filesystem::path directory;
  int vocab = 0, width = 0, image_token = 0, deepstack = 0;
  std::vector<VisionImage> images;
  std::vector<VisionRun> runs;
};

inline VisionCase read_vision_case(const std::string& name) {
  VisionCase out;
  out.directory = std::filesystem::path(ANABRANCH_SOURCE_DIR "/tests/models/data") / name;
  const Json index = parse_json(*read_file((out.directory / "golden.json").string(), 1 << 24)).value();
  const auto data = *MappedFile::open((out.directory / index["data"].get<std::string>()).string());
  const auto read = [&](const Json& at, auto& to) {
    std::memcpy(to.data(), data->bytes().data() + at.get<size_t>(), to.size() * sizeof(to[0]));
  };
  out.vocab = index["vocab"].get<int>();
  out.width = index["width"].get<int>();
  out.image_token = index["image_token"].get<int>();
  out.deepstack = index.value("deepstack", 0);
  for (const Json& i : index["images"]) {
    VisionImage image;
    ProcessedImage& p = image.image;
    p.width = i["width"].get<int>(), p.height = i["height"].get<int>();
    p.rows = i["rows"].get<int>(), p.columns = i["columns"].get<int>();
    p.tokens = i["tokens"].get<int>();
    p.rgb.resize(static_cast<size_t>(p.width) * static_cast<size_t>(p.height) * 3);
    image.features.resize(static_cast<size_t>(p.tokens * (1 + out.deepstack)) *
                          static_cast<size_t>(out.width));
    image.features_mlxq.resize(image.features.size());
    read(i["pixels"], p.rgb);
    read(i["features"], image.features);
    read(i["features_mlxq"], image.features_mlxq);
    out.images.push_back(std::move(image));
  }
  for (const Json& r : index["runs"]) {
    VisionRun run{r["prompt"].get<std::vector<int>>(),
                  r["images"].get<std::vector<int>>(),
                  r["positions"].get<std::vector<int>>(),
                  r["greedy"].get<std::vector<int>>(),
                  {},
                  {}};
    if (r.contains("rope_positions"))
      run.rope_positions = r["rope_positions"].get<std::vector<std::vector<int>>>();
    run.log_probs.resize(run.positions.size() * static_cast<size_t>(out.vocab));
    read(r["offset"], run.log_probs);
    out.runs.push_back(std::move(run));
  }
  return out;
}

}  // namespace anabranch::golden
