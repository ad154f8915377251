// What `show` and `doctor` report about a model's files.
#include "cli/reports.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/clock.h"
#include "base/mapped_file.h"
#include "checkpoint/safetensors_writer.h"
#include "cli/text.h"
#include "ops/cpu/device.h"
#include "temp_dir.h"

namespace anabranch::cli {
namespace {

// Layers for prediction draft only if the family's can be run.
TEST(ModelReport, LayersForPrediction) {
  namespace fs = std::filesystem;
  const auto device = ops::cpu::open_cpu(1, false);
  const fs::path data = ANABRANCH_SOURCE_DIR "/tests/models/data";
  const auto report_of = [&](const fs::path& from, const std::string& extra) {
    const testing::TempDir dir;
    fs::create_symlink(from / "model.safetensors", fs::path(dir.path()) / "model.safetensors");
    Json config = parse_json(read_file((from / "config.json").string(), 1 << 20).value()).value();
    config["num_nextn_predict_layers"] = 1;
    dir.write("config.json", config.dump());
    dir.write("model-2.safetensors", testing::SafetensorsWriter().f32(extra, {1, 2}, {1, 2}).bytes());
    const auto checkpoint = Checkpoint::open(dir.path());
    EXPECT_TRUE(checkpoint.ok());
    return model_report(**checkpoint, *device);
  };
  const fs::path glm = data / "glm4_moe" / "model";
  const int layers =
      parse_json(read_file((glm / "config.json").string(), 1 << 20).value()).value()["num_hidden_layers"];
  const Json inside = report_of(glm, "model.layers.0.eh_proj.weight");
  for (const std::string& name :
       {std::string("mtp.fc.weight"), fmt::format("model.layers.{}.eh_proj.weight", layers)}) {
    const Json report = report_of(glm, name);
    EXPECT_EQ(report["mtp_head"], "no") << name;
    EXPECT_EQ(report["mtp_tensors"], 1) << name;
    EXPECT_EQ(report["parameters"], inside["parameters"].get<int>() - 2) << name;
  }
  EXPECT_EQ(inside["mtp_tensors"], 0);
}

TEST(Texts, OfCountsAndTimes) {
  EXPECT_EQ(count_text(0, "file"), "0 files");
  EXPECT_EQ(count_text(1, "file"), "1 file");
  EXPECT_EQ(count_text(2, "file"), "2 files");
  const auto ago = [](double seconds) {
    return age_text(unix_nanoseconds() - static_cast<int64_t>(seconds * 1e9));
  };
  EXPECT_EQ(ago(-100), "0 s ago");
  EXPECT_EQ(ago(90), "1 min ago");
  EXPECT_EQ(ago(3605), "1 h ago");
  EXPECT_EQ(ago(47.5 * 3600), "47 h ago");
  EXPECT_EQ(ago(49 * 3600), "2 days ago");
}

}  // namespace
}  // namespace anabranch::cli
