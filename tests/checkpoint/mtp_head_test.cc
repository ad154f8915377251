// Adding a prediction head to a model directory: where it may come from, what must fit, what stays as it was.
#include "checkpoint/mtp_head.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>

#include "base/mapped_file.h"
#include "checkpoint/convert.h"
#include "checkpoint/output_layout.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/safetensors_writer.h"

namespace anabranch {
namespace {

namespace fs = std::filesystem;
using testing::SafetensorsWriter;
using testing::TempDir;

const std::string kData = ANABRANCH_SOURCE_DIR "/tests/checkpoint/data/";
const std::string kOriginal = kData + "qwen35";

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

// A tensor's new name; "" leaves it out.
using Rename = std::function<std::string(const std::string&)>;

std::string only_mtp(const std::string& name) {
  return name.starts_with("mtp.") ? name : "";
}
std::string all_but_mtp(const std::string& name) {
  return name.starts_with("mtp.") ? "" : name;
}
std::string bare_mtp(const std::string& name) {
  return name.starts_with("mtp.") ? name.substr(4) : "";
}

SafetensorsWriter rewritten(const std::string& file, const Rename& rename) {
  const std::string bytes = read_file(file, 1 << 30).value();
  const auto parsed = parse_safetensors(std::as_bytes(std::span(bytes)), file).value();
  SafetensorsWriter out;
  for (const auto& t : parsed.tensors)
    if (const std::string name = rename(t.name); !name.empty())
      out.add(name, t.dtype, t.shape,
              std::string(reinterpret_cast<const char*>(t.data.data()), t.data.size()));
  return out;
}

std::map<std::string, std::string> files_of(const std::string& directory) {
  std::map<std::string, std::string> out;
  for (const auto& file : fs::directory_iterator(directory))
    out[file.path().filename()] = read_file(file.path(), 1 << 30).value();
  return out;
}

// The head's tensors as the model uses them: norms with the one that is added.
std::map<std::string, std::vector<float>> head_of(const std::string& path) {
  std::map<std::string, std::vector<float>> out;
  auto checkpoint = Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.error().message;
  if (!checkpoint.ok()) return out;
  for (const TensorInfo& info : (*checkpoint)->tensors()) {
    if (!info.name.starts_with("mtp.")) continue;
    const auto value = (*checkpoint)->take(info.name, info.shape);
    EXPECT_TRUE(value.ok()) << value.error().message;
    auto& values = out[info.name] = {value->data<float>(), value->data<float>() + value->size()};
    if (is_shifted_norm(info.name) && info.norms == NormConvention::offset)
      for (float& v : values) v += 1;
  }
  return out;
}

class MtpHead : public ::testing::Test {
 protected:
  // The original's config.json promises a head that its weights lack; and so does what is made from them.
  void SetUp() override {
    fs::create_directory(dir_.file("headless"));
    fs::copy(kOriginal + "/config.json", dir_.file("headless/config.json"));
    dir_.write("headless/model.safetensors",
               rewritten(kOriginal + "/model.safetensors", all_but_mtp).bytes());
    ConvertOptions options;
    options.output = model_;
    options.fallback = parse_target("4/32").value();
    options.max_shard_bytes = 40'000;
    const auto report = convert(dir_.file("headless"), options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    warnings_ = report->warnings;
    before_ = files_of(model_);
  }

  MtpReport add(const std::string& original, bool force = false) {
    auto report = add_mtp_head(model_, original, force);
    EXPECT_TRUE(report.ok()) << report.error().message;
    return report.ok() ? *report : MtpReport{};
  }

  // The message, after which nothing must have changed.
  std::string refused(const std::string& original, bool force = false) {
    const auto was = files_of(model_);
    const auto report = add_mtp_head(model_, original, force);
    EXPECT_EQ(files_of(model_), was);
    return report.ok() ? "" : report.error().message;
  }

  // A file that holds the original's head, changed.
  std::string head_file(const std::function<void(SafetensorsWriter&)>& change,
                        const Rename& rename = only_mtp) {
    auto writer = rewritten(kOriginal + "/model.safetensors", rename);
    change(writer);
    dir_.write("head.safetensors", writer.bytes());
    return dir_.file("head.safetensors");
  }

  // Without the tensors in `files`, all others in shards that are not there.
  std::string partial(const std::string& format = "pt") {
    fs::create_directory(dir_.file("partial"));
    Json map = Json::object();
    rewritten(kOriginal + "/model.safetensors", [&](const std::string& name) {
      map[name] =
          name.starts_with("mtp.") ? "model-00002-of-00002.safetensors" : "model-00001-of-00002.safetensors";
      return name;
    });
    dir_.write("partial/model.safetensors.index.json", Json{{"weight_map", map}}.dump());
    dir_.write("partial/model-00002-of-00002.safetensors",
               rewritten(kOriginal + "/model.safetensors", only_mtp).bytes(format));
    return dir_.file("partial");
  }

  TempDir dir_;
  const std::string model_ = dir_.file("model");
  std::vector<std::string> warnings_;
  std::map<std::string, std::string> before_;
};

TEST_F(MtpHead, its_absence_is_told) {
  ASSERT_EQ(warnings_.size(), 4u);  // two matrices that stay dense, no tokenizer
  EXPECT_HAS(warnings_[2], "promises a prediction head (mtp_num_hidden_layers 1)");
  EXPECT_HAS(warnings_[2], "anabranch convert " + model_ + " --mtp-from ORIGINAL");
  EXPECT_EQ(missing_mtp_note(*Checkpoint::open(kOriginal).value(), "x"), "");
  EXPECT_EQ(missing_mtp_note(*Checkpoint::open(kData + "llama").value(), "x"), "");
  const auto model = Checkpoint::open(model_).value();
  EXPECT_HAS(missing_mtp_note(*model, "x"), "convert x --mtp-from");
  EXPECT_EQ(missing_mtp_note(*model).find("convert"), std::string::npos);
}

TEST_F(MtpHead, is_the_originals_and_nothing_else_changes) {
  const auto report = add(kOriginal);
  EXPECT_EQ(report.tensors, 15);
  EXPECT_TRUE(report.warnings.empty());
  EXPECT_EQ(report.bytes, fs::file_size(report.file));
  EXPECT_EQ(head_of(model_), head_of(kOriginal));
  auto after = files_of(model_);
  EXPECT_EQ(after.size(), before_.size() + 1);
  for (const auto& [name, content] : before_) {
    if (name == "model.safetensors.index.json") continue;
    EXPECT_EQ(after.at(name), content) << name;
  }

  // The index names every tensor, and its size is that of all data.
  const auto index = parse_json(after.at("model.safetensors.index.json")).value();
  uint64_t bytes = 0, tensors = 0;
  for (const auto& [name, content] : after) {
    if (!name.ends_with(".safetensors")) continue;
    const auto parsed = parse_safetensors(std::as_bytes(std::span(content)), name).value();
    for (const auto& t : parsed.tensors) {
      EXPECT_EQ(index["weight_map"][t.name], name);
      bytes += t.data.size();
      tensors++;
    }
  }
  EXPECT_EQ(index["weight_map"].size(), tensors);
  EXPECT_EQ(index["metadata"]["total_size"], bytes);

  // Once there, it stays unless told otherwise; the same head again gives the same bytes.
  EXPECT_HAS(refused(kOriginal), "mtp.safetensors; --force replaces it");
  add(kOriginal, true);
  EXPECT_EQ(files_of(model_), after);
  const auto c = Checkpoint::open(model_).value();
  EXPECT_EQ(c->find("mtp.fc.weight")->type, "BF16");
  EXPECT_EQ(c->find("mtp.norm.weight")->type, "BF16");
  EXPECT_EQ(c->find("mtp.norm.weight")->norms, NormConvention::offset);
  EXPECT_EQ(c->find("model.norm.weight")->norms, NormConvention::plain);
}

TEST_F(MtpHead, a_model_without_index_gets_none) {
  add_mtp_head(dir_.file("headless"), kOriginal, false).value();
  EXPECT_EQ(head_of(dir_.file("headless")), head_of(kOriginal));
  EXPECT_FALSE(fs::exists(dir_.file("headless/model.safetensors.index.json")));
}

TEST_F(MtpHead, only_its_shard_is_needed) {
  add(partial());
  EXPECT_EQ(head_of(model_), head_of(kOriginal));
  dir_.write("partial/model-00001-of-00002.safetensors", "half a downlo");  // is not looked at
  add(dir_.file("partial"), true);
  fs::rename(dir_.file("partial/model-00002-of-00002.safetensors"), dir_.file("partial/other.bin"));
  EXPECT_HAS(refused(dir_.file("partial"), true),
             "into model-00002-of-00002.safetensors, which is not there");
  dir_.write("partial/model.safetensors.index.json", "{}");
  EXPECT_HAS(refused(dir_.file("partial"), true), "weight_map");
}

TEST_F(MtpHead, a_sidecar_that_the_index_does_not_name) {
  partial();
  dir_.write("partial/model.safetensors.index.json",
             R"({"weight_map":{"model.norm.weight":"a.safetensors"}})");
  dir_.write("partial/a.safetensors", "damaged");
  add(dir_.file("partial"));
  EXPECT_EQ(head_of(model_), head_of(kOriginal));
}

TEST_F(MtpHead, bare_names) {
  add(head_file([](SafetensorsWriter&) {}, bare_mtp));
  EXPECT_EQ(head_of(model_), head_of(kOriginal));
  fs::create_directory(dir_.file("bare"));
  fs::copy(dir_.file("head.safetensors"), dir_.file("bare/model.safetensors"));
  dir_.write("bare/model.safetensors.index.json", R"({"weight_map":{"fc.weight":"model.safetensors",
      "pre_fc_norm_hidden.weight":"model.safetensors"}})");
  add(dir_.file("bare"), true);
  EXPECT_EQ(head_of(model_), head_of(kOriginal));
}

TEST_F(MtpHead, quantised_sidecar_of_mlx) {
  ConvertOptions options;
  options.output = dir_.file("whole");
  options.fallback = parse_target("bf16").value();
  options.rules = {{"mtp.*.q_proj", parse_target("8/32").value()}, {"mtp.fc", parse_target("4/32").value()}};
  ASSERT_TRUE(convert(kOriginal, options).ok());
  fs::create_directory(dir_.file("side"));
  dir_.write("side/model.safetensors", rewritten(dir_.file("whole/mtp.safetensors"), bare_mtp).bytes("mlx"));
  EXPECT_HAS(refused(dir_.file("side")), "is quantised as MLX does, but");
  dir_.write("side/config.json", R"({"model_type":"qwen3_5_mtp","quantization":{"bits":4,"group_size":32,
      "layers.0.self_attn.q_proj":{"bits":8,"group_size":32}}})");
  const auto report = add(dir_.file("side"));
  ASSERT_EQ(report.warnings.size(), 1u);
  EXPECT_HAS(report.warnings[0], "is quantised (affine-");
  const auto before = head_of(dir_.file("whole")), after = head_of(model_);
  ASSERT_EQ(after.size(), before.size());
  for (const auto& [name, values] : before)
    for (size_t i = 0; i < values.size(); i++) {
      // Norms lose nothing on the way to w and back; codes are rounded to bf16.
      const float tolerance = is_shifted_norm(name) ? 0 : std::abs(values[i]) / 256;
      ASSERT_NEAR(after.at(name)[i], values[i], tolerance) << name;
    }
}

TEST_F(MtpHead, whose_norms_they_are_is_never_guessed) {
  const auto expected = head_of(kOriginal);
  const auto of = [&](const std::string& source, float shift) {
    add(source, true);
    const auto got = head_of(model_);
    for (const auto& [name, values] : expected)
      for (size_t i = 0; i < values.size(); i++)
        ASSERT_FLOAT_EQ(got.at(name)[i], values[i] - (is_shifted_norm(name) ? shift : 0)) << name;
  };
  of(partial("mlx"), 1);  // the file says 1 + w
  of(partial(""), 0);     // says nothing, and nothing else is there
  // Beside another file that shows MLX's layout, and in a model's directory.
  dir_.write(
      "partial/model-00001-of-00002.safetensors",
      SafetensorsWriter().f32("model.layers.0.linear_attn.conv1d.weight", {1, 4, 1}, {1, 2, 3, 4}).bytes(""));
  of(dir_.file("partial"), 0);
  dir_.write("partial/config.json", "{}");
  of(dir_.file("partial"), 1);
  of(dir_.file("partial/model-00002-of-00002.safetensors"), 1);
}

TEST_F(MtpHead, from_gguf) {
  const auto report = add(kOriginal + ".gguf");
  EXPECT_TRUE(report.warnings.empty());
  const auto expected = head_of(kOriginal), got = head_of(model_);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [name, values] : expected)
    for (size_t i = 0; i < values.size(); i++) ASSERT_NEAR(got.at(name)[i], values[i], 1e-6) << name;
}

TEST_F(MtpHead, what_does_not_fit_is_said) {
  const auto without = [](const std::string& left_out) {
    return [left_out](const std::string& name) { return name == left_out ? "" : only_mtp(name); };
  };
  const auto nothing = [](SafetensorsWriter&) {};
  EXPECT_HAS(refused(head_file(nothing, without("mtp.norm.weight"))), "\"mtp.norm.weight\" is missing");
  std::string message = refused(head_file(
      [](auto& w) {
        w.f32("mtp.norm.weight", {2}, {1, 2});
      },
      without("mtp.norm.weight")));
  EXPECT_HAS(message, "\"mtp.norm.weight\" has shape [2]");
  EXPECT_HAS(message, "needs [32]");
  EXPECT_HAS(refused(head_file([](auto& w) { w.f32("mtp.strange.weight", {1}, {1}); })),
             "\"mtp.strange.weight\" has no place");
  EXPECT_HAS(refused(head_file([](auto& w) { w.f32("mtp.layers.1.input_layernorm.weight", {1}, {1}); })),
             "head of 2 layers; config.json of " + model_ + " says 1");
  EXPECT_HAS(refused(head_file([](auto& w) { w.add("mtp.norm.weight", "I64", {32}, std::string(256, 'x')); },
                               without("mtp.norm.weight"))),
             "type I64");
  // Found while writing: what was written is removed.
  std::vector<float> large(32, 3.4e38f);
  EXPECT_HAS(
      refused(head_file([&](auto& w) { w.f32("mtp.norm.weight", {32}, large); }, without("mtp.norm.weight"))),
      "BF16 cannot hold");
  EXPECT_HAS(refused(dir_.file("headless")), "has no prediction head");
  EXPECT_HAS(refused(dir_.file("absent")), "no checkpoint");
  EXPECT_HAS(refused(model_ + "/config.json"), "neither a directory");
  EXPECT_HAS(refused(kData + "llama.gguf"), "has no prediction head");
  const auto message_for = [&](const std::string& model, bool force = false) {
    const auto report = add_mtp_head(model, kOriginal, force);
    return report.ok() ? std::string() : report.error().message;
  };
  EXPECT_HAS(message_for(kData + "llama"), "\"llama\" have no prediction head");
  EXPECT_HAS(message_for(kOriginal + ".gguf"), "not a directory");
  EXPECT_HAS(message_for(dir_.file("absent")), "there is no model");
  fs::copy(kOriginal, dir_.file("copy"));
  EXPECT_HAS(message_for(dir_.file("copy")), "--force");
  EXPECT_HAS(message_for(dir_.file("copy"), true), "holds other tensors beside the prediction head");
}

TEST_F(MtpHead, replaces_one_in_several_files) {
  ConvertOptions options;
  options.output = model_;
  options.force = true;
  options.max_shard_bytes = 10'000;
  ASSERT_TRUE(convert(kOriginal, options).ok());
  ASSERT_TRUE(fs::exists(model_ + "/mtp-00001-of-00003.safetensors"));
  add(kOriginal, true);
  EXPECT_FALSE(fs::exists(model_ + "/mtp-00001-of-00003.safetensors"));
  EXPECT_EQ(head_of(model_), head_of(kOriginal));
  const auto index = parse_json(files_of(model_).at("model.safetensors.index.json")).value();
  const auto model = Checkpoint::open(model_).value();
  uint64_t bytes = 0;
  for (const auto& t : model->tensors()) bytes += t.bytes;
  EXPECT_EQ(index["metadata"]["total_size"], bytes);
}

TEST_F(MtpHead, experts_are_stacked) {
  auto config = parse_json(files_of(model_).at("config.json")).value();
  config["model_type"] = "qwen3_5_moe";
  config["text_config"]["num_experts"] = nullptr;
  config["text_config"]["num_local_experts"] = 3;  // as newer versions of Transformers save it
  config["text_config"]["moe_intermediate_size"] = 2;
  config["text_config"]["shared_expert_intermediate_size"] = 4;
  dir_.write("model/config.json", config.dump());
  const auto values = [](int64_t count, float first) {
    std::vector<float> out;
    for (int64_t i = 0; i < count; i++) out.push_back(first + static_cast<float>(i));
    return out;
  };
  const auto without_mlp = [](const std::string& name) {
    return name.find(".mlp.") == std::string::npos ? only_mtp(name) : "";
  };
  const std::string mlp = "mtp.layers.0.mlp.";
  const auto experts = [&](SafetensorsWriter& w) {
    w.f32(mlp + "gate.weight", {3, 32}, values(96, 0))
        .f32(mlp + "shared_expert_gate.weight", {1, 32}, values(32, 0));
    w.f32(mlp + "shared_expert.gate_proj.weight", {4, 32}, values(128, 0));
    w.f32(mlp + "shared_expert.up_proj.weight", {4, 32}, values(128, 0));
    w.f32(mlp + "shared_expert.down_proj.weight", {32, 4}, values(128, 0));
    for (int e = 0; e < 3; e++) {
      const std::string expert = mlp + "experts." + std::to_string(e) + ".";
      w.f32(expert + "gate_proj.weight", {2, 32}, values(64, static_cast<float>(64 * e)));
      w.f32(expert + "up_proj.weight", {2, 32}, values(64, static_cast<float>(-64 * e)));
      w.f32(expert + "down_proj.weight", {32, 2}, values(64, static_cast<float>(64 * e)));
    }
  };
  add(head_file(experts, without_mlp));
  const auto model = Checkpoint::open(model_).value();
  EXPECT_EQ(model->find(mlp + "switch_mlp.up_proj.weight")->shape, (std::vector<int64_t>{3, 2, 32}));
  const auto head = head_of(model_);
  EXPECT_EQ(head.at(mlp + "switch_mlp.gate_proj.weight"), values(192, 0));
  EXPECT_EQ(head.at(mlp + "switch_mlp.down_proj.weight"), values(192, 0));
  EXPECT_EQ(head.at(mlp + "switch_mlp.up_proj.weight")[70], -58);
  EXPECT_HAS(refused(kOriginal, true), "\"mtp.layers.0.mlp.down_proj.weight\" has no place");  // a dense head
}

}  // namespace
}  // namespace anabranch
