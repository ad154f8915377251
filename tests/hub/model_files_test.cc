#include "hub/model_files.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "hub/alternatives.h"

namespace anabranch::hub {
namespace {

using Paths = std::vector<std::string>;

Result<ModelFiles> choose(Paths paths, const char* name, const std::string& index = "",
                          Purpose purpose = Purpose::model) {
  std::ranges::sort(paths);
  return choose_files(paths, *parse_model_name(name), purpose,
                      [&](const std::string& path) -> Result<std::string> {
                        EXPECT_EQ(path, "model.safetensors.index.json");
                        return index;
                      });
}

Paths files_of(const Result<ModelFiles>& choice) {
  EXPECT_TRUE(choice.ok()) << choice.error().message;
  if (!choice.ok()) return {};
  Paths files = choice->files;
  std::ranges::sort(files);
  return files;
}

std::string message_of(const Result<ModelFiles>& choice) {
  EXPECT_FALSE(choice.ok());
  return choice.ok() ? "" : choice.error().message;
}

TEST(QuantOf, ReadsTheName) {
  const std::pair<const char*, const char*> cases[] = {
      {"Qwen3-0.6B-Q8_0.gguf", "Q8_0"},
      {"qwen2.5-7b-instruct-q4_k_m.gguf", "Q4_K_M"},
      {"a/b/X-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"},
      {"Model.Q5_K_S.gguf", "Q5_K_S"},
      {"model-bf16.gguf", "BF16"},
      {"Model-IQ3_XXS-00001-of-00002.gguf", "IQ3_XXS"},
      {"gpt-oss-MXFP4_MOE.gguf", "MXFP4_MOE"},
      {"model_q4_0.gguf", "Q4_0"},
      {"M.i1-Q4_K_M.gguf", "i1-Q4_K_M"},
      {"Phi1-Q4_K_M.gguf", "Q4_K_M"},
      {"m-ud-q4_k_xl.gguf", "UD-Q4_K_XL"},
      {"Q4-model.gguf", "Q4"},
      {"model.gguf", ""},
      {"Qwen3-4B.gguf", ""},
      {"-.gguf", ""},
  };
  for (const auto& [path, quant] : cases) EXPECT_EQ(quant_of(path), quant) << path;
}

const Paths kGguf = {"README.md",
                     "m-Q4_0.gguf",
                     "m-Q4_K_M.gguf",
                     "m-Q8_0.gguf",
                     "m-UD-Q3_K_XL.gguf",
                     "m.imatrix.gguf",
                     "B/m-BF16-00002-of-00002.gguf",
                     "B/m-BF16-00001-of-00002.gguf"};

TEST(ModelFiles, OneQuantisation) {
  EXPECT_EQ(files_of(choose(kGguf, "o/n")), Paths{"m-Q4_K_M.gguf"});
  EXPECT_EQ(files_of(choose(kGguf, "o/n:q8_0")), Paths{"m-Q8_0.gguf"});
  EXPECT_EQ(files_of(choose(kGguf, "o/n:Q3_K_XL")), Paths{"m-UD-Q3_K_XL.gguf"});
  EXPECT_EQ(files_of(choose(kGguf, "o/n:UD-Q3_K_XL")), Paths{"m-UD-Q3_K_XL.gguf"});
  EXPECT_EQ(files_of(choose(kGguf, "o/n/m-Q4_0.gguf")), Paths{"m-Q4_0.gguf"});
  EXPECT_EQ(files_of(choose({"only-IQ2_S.gguf"}, "o/n")), Paths{"only-IQ2_S.gguf"});
  const auto split = choose(kGguf, "o/n:bf16");
  EXPECT_EQ(files_of(split), (Paths{"B/m-BF16-00001-of-00002.gguf", "B/m-BF16-00002-of-00002.gguf"}));
  EXPECT_EQ(split->main, "B/m-BF16-00001-of-00002.gguf");
  EXPECT_EQ(files_of(choose(kGguf, "o/n/B/m-BF16-00002-of-00002.gguf")), files_of(split));
}

TEST(ModelFiles, AVisionTowerComesWithItsModel) {
  const auto tower_of = [](Paths towers) {
    towers.push_back("m-Q4_0.gguf");
    auto files = files_of(choose(towers, "o/n"));
    EXPECT_EQ(std::erase(files, "m-Q4_0.gguf"), 1u);
    return files;
  };
  EXPECT_EQ(tower_of({"mmproj-BF16.gguf", "mmproj-F16.gguf", "mmproj-F32.gguf", "mmproj-Q8_0.gguf"}),
            Paths{"mmproj-F16.gguf"});
  EXPECT_EQ(tower_of({"mmproj-bf16.gguf", "mmproj-F32.gguf", "mmproj-Q8_0.gguf"}), Paths{"mmproj-bf16.gguf"});
  EXPECT_EQ(tower_of({"MMProj-f32.gguf", "MMProj-q4_0.gguf", "MMProj-q8_0.gguf"}), Paths{"MMProj-q8_0.gguf"});
  EXPECT_EQ(tower_of({"mmproj-F32.gguf", "mmproj-a.gguf", "mmproj-b.gguf"}), Paths{"mmproj-a.gguf"});
  EXPECT_EQ(tower_of({"mmproj-F32.gguf"}), Paths{"mmproj-F32.gguf"});
  EXPECT_EQ(tower_of({"other/mmproj-F16.gguf", "mmproj.txt"}), Paths{});
}

TEST(ModelFiles, AVisionTowerLiesBesideTheModelOrAtTheTop) {
  const Paths paths = {"B/m-BF16-00001-of-00002.gguf",
                       "B/m-BF16-00002-of-00002.gguf",
                       "Q/m-Q8_0.gguf",
                       "Q/mmproj-Q8_0.gguf",
                       "mmproj-F16.gguf",
                       "m-Q4_0.gguf"};
  EXPECT_EQ(files_of(choose(paths, "o/n:BF16")),
            (Paths{"B/m-BF16-00001-of-00002.gguf", "B/m-BF16-00002-of-00002.gguf", "mmproj-F16.gguf"}));
  EXPECT_EQ(files_of(choose(paths, "o/n:Q8_0")), (Paths{"Q/m-Q8_0.gguf", "Q/mmproj-Q8_0.gguf"}));
  EXPECT_EQ(files_of(choose(paths, "o/n/m-Q4_0.gguf")), (Paths{"m-Q4_0.gguf", "mmproj-F16.gguf"}));
  EXPECT_EQ(choose(paths, "o/n:BF16")->main, "B/m-BF16-00001-of-00002.gguf");
  EXPECT_EQ(files_of(choose(paths, "o/n:BF16", "", Purpose::mtp_head)).size(), 2u);
}

// As mradermacher and others name them.
TEST(ModelFiles, AVisionTowerHasMmprojAnywhereInItsName) {
  EXPECT_EQ(files_of(choose({"M.Q4_K_M.gguf", "M.Q8_0.gguf", "M.mmproj-f16.gguf", "M.mmproj-Q8_0.gguf"},
                            "o/n:q8_0")),
            (Paths{"M.Q8_0.gguf", "M.mmproj-f16.gguf"}));
  EXPECT_EQ(files_of(choose({"M-Q4_K_M.gguf", "M-mmproj-F16.gguf"}, "o/n")),
            (Paths{"M-Q4_K_M.gguf", "M-mmproj-F16.gguf"}));
  // Each model of a folder has its own.
  const Paths two = {"A-Q4_0.gguf", "B-2-Q4_0.gguf", "A-mmproj-F32.gguf", "mmproj-B-2-F16.gguf",
                     "mmproj-B-2-bf16.gguf"};
  EXPECT_EQ(files_of(choose(two, "o/n/A-Q4_0.gguf")), (Paths{"A-Q4_0.gguf", "A-mmproj-F32.gguf"}));
  EXPECT_EQ(files_of(choose(two, "o/n/B-2-Q4_0.gguf")), (Paths{"B-2-Q4_0.gguf", "mmproj-B-2-F16.gguf"}));
}

TEST(ModelFiles, FormsOfAQuantisation) {
  const Paths imatrix = {"M.i1-Q4_K_M.gguf", "M.i1-IQ4_XS.gguf", "M.i1-Q4_0.gguf"};
  for (const char* name : {"o/n", "o/n:i1-Q4_K_M", "o/n:I1-q4_k_m", "o/n:Q4_K_M", "o/n:latest"})
    EXPECT_EQ(files_of(choose(imatrix, name)), Paths{"M.i1-Q4_K_M.gguf"}) << name;
  const Paths both = {"M.Q4_K_M.gguf", "M.i1-Q4_K_M.gguf", "M-UD-Q4_K_M.gguf"};
  EXPECT_EQ(files_of(choose(both, "o/n")), Paths{"M.Q4_K_M.gguf"});
  EXPECT_EQ(files_of(choose(both, "o/n:i1-q4_k_m")), Paths{"M.i1-Q4_K_M.gguf"});
  EXPECT_EQ(files_of(choose(both, "o/n:ud-q4_k_m")), Paths{"M-UD-Q4_K_M.gguf"});
}

TEST(ModelFiles, ADrafterIsNoModel) {
  const Paths paths = {"m-Q8_0.gguf", "m-UD-Q4_K_XL.gguf", "mtp-m-Q8_0.gguf", "MTP/m-Q8_0.gguf",
                       "Eagle3-m-Q4_0.gguf"};
  EXPECT_EQ(files_of(choose(paths, "o/n:Q8_0")), Paths{"m-Q8_0.gguf"});
  EXPECT_EQ(files_of(choose(paths, "o/n")), Paths{"m-UD-Q4_K_XL.gguf"});
  EXPECT_NE(message_of(choose(paths, "o/n:Q4_0")).find("has no Q4_0"), std::string::npos);
  EXPECT_NE(message_of(choose(paths, "o/n/mtp-m-Q8_0.gguf")).find("drafts tokens"), std::string::npos);
  EXPECT_NE(message_of(choose({"mtp-m-Q8_0.gguf"}, "o/n")).find("no language model"), std::string::npos);
  // A model whose name tells that it has a prediction head is one.
  EXPECT_EQ(files_of(choose({"Qwen-MTP-Q4_0.gguf"}, "o/n")), Paths{"Qwen-MTP-Q4_0.gguf"});
}

std::vector<std::string> names_in(Paths paths) {
  std::ranges::sort(paths);
  std::vector<std::string> names;
  for (const ModelName& name : names_of_models(paths, {.repo = "o/n"})) names.push_back(name.text());
  return names;
}

TEST(NamesOfModels, BestFirst) {
  EXPECT_EQ(
      names_in({"m-Q8_0.gguf", "m-IQ2_S.gguf", "m-Q4_K_M.gguf", "model.safetensors", "mmproj-F16.gguf"}),
      (std::vector<std::string>{"o/n", "o/n:Q4_K_M", "o/n:Q8_0", "o/n:IQ2_S"}));
  EXPECT_EQ(names_in({"a-Q4_0.gguf", "b-Q4_0.gguf", "c.gguf"}),
            (std::vector<std::string>{"o/n/a-Q4_0.gguf", "o/n/b-Q4_0.gguf", "o/n/c.gguf"}));
}

TEST(ModelWithoutFormat, EndsBeforeTheFormat) {
  const std::pair<const char*, const char*> cases[] = {
      {"Qwen3-8B", "Qwen3-8B"},
      {"Qwen3-8B-AWQ", "Qwen3-8B"},
      {"Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen2.5-7B-Instruct"},
      {"Llama-3.1-8B-Instruct-exl2-4.0bpw", "Llama-3.1-8B-Instruct"},
      {"M-4.65bpw-h6-exl2", "M"},
      {"M-HQQ-4bit", "M"},
      {"M-4-bit", "M"},
      {"M-bnb-4bit", "M"},
      {"M-quantized.w4a16", "M"},
      {"M-FP8-dynamic", "M"},
      {"M_onnx", "M"},
      {"M-LoRA", "M"},
      {"AWQ", "AWQ"},
      {"Qwen3-4", "Qwen3-4"},
      {"", ""},
  };
  for (const auto& [name, model] : cases) EXPECT_EQ(model_without_format(name), model) << name;
}

TEST(SisterRepositories, TheUsualOnesFirst) {
  const auto own = sister_repositories("org/M-exl2", "", 20);
  EXPECT_EQ(own, (std::vector<std::string>{"org/M-GGUF", "unsloth/M-GGUF", "bartowski/M-GGUF",
                                           "bartowski/org_M-GGUF", "ggml-org/M-GGUF", "mlx-community/M-4bit",
                                           "org/M"}));
  const auto made = sister_repositories("people/Tuned-AWQ", "org/Base-7B", 3);
  EXPECT_EQ(made,
            (std::vector<std::string>{"people/Tuned-GGUF", "org/Base-7B-GGUF", "unsloth/Base-7B-GGUF"}));
}

const Paths kSharded = {"README.md",
                        "config.json",
                        "tokenizer.json",
                        "model.safetensors.index.json",
                        "model-1.safetensors",
                        "model-2.safetensors",
                        "model-3.safetensors",
                        "consolidated.safetensors",
                        "model.fp16.safetensors",
                        "onnx/model.safetensors",
                        "onnx/config.json",
                        "merges.txt",
                        "extra.gguf",
                        "notes.txt"};
const char* const kIndex = R"({"metadata": {"total_size": 5}, "weight_map": {"a": "model-1.safetensors",
    "model.layers.0.x": "model-2.safetensors", "mtp.fc.weight": "model-3.safetensors", "b": "model-1.safetensors"}})";

TEST(ModelFiles, AVisionTowerIsNoModel) {
  EXPECT_EQ(files_of(choose({"m.gguf", "mmproj-F16.gguf"}, "o/n")), (Paths{"m.gguf", "mmproj-F16.gguf"}));
  EXPECT_NE(message_of(choose({"m-Q4_0.gguf", "mmproj-F16.gguf"}, "o/n:F16")).find("it has Q4_0"),
            std::string::npos);
  EXPECT_NE(message_of(choose({"m.gguf", "mmproj.gguf"}, "o/n/mmproj.gguf")).find("no model itself"),
            std::string::npos);
  EXPECT_NE(message_of(choose({"mmproj-F16.gguf"}, "o/n")).find("no language model"), std::string::npos);
  Paths both = kSharded;
  both.push_back("mmproj-F16.gguf");
  EXPECT_EQ(files_of(choose(both, "o/n", kIndex)), files_of(choose(kSharded, "o/n", kIndex)));
}

TEST(ModelFiles, SaysWhatThereIs) {
  EXPECT_EQ(message_of(choose(kGguf, "o/n:Q9_9")),
            "o/n has no Q9_9; it has BF16, Q4_0, Q4_K_M, Q8_0, UD-Q3_K_XL");
  EXPECT_EQ(message_of(choose(kGguf, "o/n/m-Q4_1.gguf")),
            "o/n has no file m-Q4_1.gguf; did you mean m-Q4_0.gguf?");
  EXPECT_NE(message_of(choose({"a-Q4_0.gguf", "b-Q4_0.gguf"}, "o/n"))
                .find("o/n/a-Q4_0.gguf: a-Q4_0.gguf, b-Q4_0.gguf"),
            std::string::npos);
  EXPECT_NE(
      message_of(choose({"a-00001-of-00003.gguf", "a-00003-of-00003.gguf"}, "o/n")).find("2 of 3 parts"),
      std::string::npos);
  const std::pair<Paths, const char*> unreadable[] = {
      {{"model.bin"}, "model.bin, which cannot be read (PyTorch)"},
      {{"onnx/model.onnx", "config.json"}, "onnx/model.onnx, which cannot be read (ONNX)"},
      {{"weights.npz"}, "(NumPy)"},
      {{"adapter_config.json", "adapter_model.safetensors"}, "only an adapter (adapter_model.safetensors)"},
      {{"adapter_model.bin"}, "only an adapter (adapter_model.bin)"},
  };
  for (const auto& [paths, text] : unreadable)
    EXPECT_NE(message_of(choose(paths, "o/n")).find(text), std::string::npos)
        << message_of(choose(paths, "o/n"));
  EXPECT_NE(message_of(choose({}, "o/n")).find("no language model"), std::string::npos);
}

TEST(ModelFiles, FollowsTheIndex) {
  EXPECT_EQ(files_of(choose(kSharded, "o/n", kIndex)),
            (Paths{"config.json", "merges.txt", "model-1.safetensors", "model-2.safetensors",
                   "model-3.safetensors", "model.safetensors.index.json", "tokenizer.json"}));
  Paths with_head = kSharded;
  with_head.push_back("mtp.safetensors");
  const auto files = files_of(choose(with_head, "o/n", kIndex));
  EXPECT_NE(std::ranges::find(files, "mtp.safetensors"), files.end());
  EXPECT_EQ(files_of(choose(kSharded, "o/n:extra.gguf")), Paths{"extra.gguf"});
  Paths fewer = kSharded;
  std::erase(fewer, "model-2.safetensors");
  EXPECT_NE(message_of(choose(fewer, "o/n", kIndex)).find("lacks model-2.safetensors"), std::string::npos);
}

TEST(ModelFiles, OfTheHeadOnlyItsShards) {
  EXPECT_EQ(files_of(choose(kSharded, "o/n", kIndex, Purpose::mtp_head)),
            (Paths{"config.json", "model-3.safetensors", "model.safetensors.index.json"}));
  EXPECT_EQ(files_of(choose({"config.json", "model.safetensors"}, "o/n", "", Purpose::mtp_head)),
            (Paths{"config.json", "model.safetensors"}));
  EXPECT_EQ(
      files_of(choose({"config.json", "model.safetensors", "mtp.safetensors"}, "o/n", "", Purpose::mtp_head)),
      (Paths{"config.json", "mtp.safetensors"}));
  EXPECT_NE(message_of(
                choose(kSharded, "o/n", R"({"weight_map": {"a": "model-1.safetensors"}})", Purpose::mtp_head))
                .find("no prediction head"),
            std::string::npos);
}

TEST(ModelFiles, AnyTokenizerAndMistralsOwnNames) {
  EXPECT_EQ(files_of(choose({"config.json", "model.safetensors", "tokenizer.model"}, "o/n")),
            (Paths{"config.json", "model.safetensors", "tokenizer.model"}));
  EXPECT_EQ(files_of(choose({"params.json", "consolidated.safetensors", "tekken.json"}, "o/n")),
            (Paths{"consolidated.safetensors", "params.json", "tekken.json"}));
  EXPECT_EQ(files_of(choose({"config.json", "consolidated.safetensors", "model.safetensors", "tekken.json"},
                            "o/n")),
            (Paths{"config.json", "model.safetensors", "tekken.json"}));
  EXPECT_EQ(files_of(choose({"config.json", "model.safetensors", "tokenizer.model.v3"}, "o/n")),
            (Paths{"config.json", "model.safetensors", "tokenizer.model.v3"}));
  EXPECT_EQ(files_of(choose({"config.json", "merges.txt", "model.safetensors", "vocab.json"}, "o/n")),
            (Paths{"config.json", "merges.txt", "model.safetensors", "vocab.json"}));
  for (const char* other : {"README.md", "vocab.json"})
    EXPECT_NE(
        message_of(choose({"config.json", "model.safetensors", other}, "o/n")).find("no tokenizer.json"),
        std::string::npos);
}

TEST(ModelFiles, AnAdapterBesideTheWeightsIsNotIgnored) {
  const Paths paths = {"adapter_config.json", "adapter_model.safetensors", "config.json", "model.safetensors",
                       "tokenizer.json"};
  EXPECT_NE(
      message_of(choose(paths, "o/n")).find("an adapter (adapter_model.safetensors) beside its weights"),
      std::string::npos);
  EXPECT_EQ(choose(paths, "o/n/model.safetensors")->main, "model.safetensors");
  EXPECT_TRUE(
      choose({"config.json", "lora/adapter_model.safetensors", "model.safetensors", "tokenizer.json"}, "o/n")
          .ok());
}

TEST(ModelFiles, OneSafetensorsFile) {
  const auto choice =
      choose({"config.json", "tokenizer.json", "a.safetensors", "b.safetensors"}, "o/n/a.safetensors");
  EXPECT_EQ(files_of(choice), (Paths{"a.safetensors", "config.json", "tokenizer.json"}));
  EXPECT_EQ(choice->main, "a.safetensors");
}

TEST(ModelFiles, SideFilesOfTokenizersAndTemplatesComeAlong) {
  const Paths all = {"chat_template.jinja", "config.json", "merges.txt",
                     "model.safetensors",   "vocab.json",  "vocab.txt"};
  Paths more = all;
  more.insert(more.end(), {"README.md", "onnx/config.json", "train.py"});
  EXPECT_EQ(files_of(choose(more, "o/n")), all);
}

}  // namespace
}  // namespace anabranch::hub
