// Which models are offered on which machine.
#include "cli/first_models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "hub/model_name.h"
#include "hub/pull.h"

namespace anabranch::cli {
namespace {

constexpr uint64_t kGb = 1'000'000'000, kGib = 1ull << 30;

// "9B 35B-A3B 4B" for the offers' names.
std::string sizes(const std::vector<ModelOffer>& offers) {
  std::string out;
  for (const ModelOffer& offer : offers) {
    const size_t begin = offer.name.find('-', offer.name.find('/')) + 1;
    std::string size = offer.name.substr(begin, offer.name.find("-GGUF") - begin);
    if (const size_t end = size.find("-Instruct"); end != size.npos) size.resize(end);
    out += (out.empty() ? "" : " ") + size;
  }
  return out;
}

std::string offered(uint64_t memory, double gb_s, std::optional<uint64_t> disk = std::nullopt,
                    double latency = 0) {
  return sizes(offers_for({memory, disk, gb_s * 1e9, latency}, {}, known_models()));
}

ModelOffer stored(const std::string& name, uint64_t bytes = kGb, uint64_t bytes_per_token = 0) {
  return {name, bytes, true, bytes_per_token};
}

TEST(FirstModels, TableIsConsistent) {
  std::set<std::string> names;
  for (const KnownModel& model : known_models()) {
    const auto name = hub::parse_model_name(model.name);
    ASSERT_TRUE(name) << model.name;
    EXPECT_EQ(name->text(), model.name) << "the name of a stored model has the shortest form";
    EXPECT_EQ(name->quant, "Q4_K_M");
    EXPECT_TRUE(names.insert(model.name).second) << model.name;
    EXPECT_LE(model.bytes_per_token, model.download_bytes) << model.name;
    EXPECT_GT(model.least_memory, model.download_bytes + model.download_bytes / 10) << model.name;
    // The first is the smallest in every way: if it does not fit, nothing does.
    EXPECT_GE(model.least_memory, known_models().front().least_memory);
    EXPECT_GE(model.download_bytes, known_models().front().download_bytes);
  }
  EXPECT_GE(names.size(), 9u);
}

TEST(FirstModels, MachinesFromSmallToLarge) {
  // A laptop's memory is read at 40 GB/s. Two thirds of it are free.
  EXPECT_EQ(offered(kGib * 2 / 3, 40), "360M 3-270m-it 135M");
  EXPECT_EQ(offered(2 * kGib * 2 / 3, 40), "0.8B 360M 3-270m-it");
  EXPECT_EQ(offered(4 * kGib * 2 / 3, 40), "2B 0.8B 360M");
  EXPECT_EQ(offered(8 * kGib * 2 / 3, 40), "4B 2B 0.8B");
  EXPECT_EQ(offered(16 * kGib * 2 / 3, 40), "4B 2B 9B");  // 9B fits, but answers at 6.3 tokens a second
  EXPECT_EQ(offered(16 * kGib * 2 / 3, 80), "9B 4B 2B");
  EXPECT_EQ(offered(32 * kGib * 2 / 3, 40), "4B 2B 9B");        // 27B fits and 35B does not; neither is near
  EXPECT_EQ(offered(64 * kGib * 2 / 3, 40), "35B-A3B 9B 27B");  // few of its weights are read for a token
  EXPECT_EQ(offered(512 * kGib * 2 / 3, 300), "27B 35B-A3B 9B");  // a server
}

TEST(FirstModels, GpuWithItsOwnMemory) {
  EXPECT_EQ(offered(24 * kGib - kGib, 800, std::nullopt, 0.6e-3), "27B 9B 4B");
  EXPECT_EQ(offered(80 * kGb, 1600, std::nullopt, 0.6e-3), "27B 35B-A3B 9B");
  EXPECT_EQ(offered(8 * kGib - kGib, 400, std::nullopt, 0.6e-3), "4B 2B 0.8B");
}

TEST(FirstModels, LimitsAreExact) {
  for (const KnownModel& model : known_models()) {
    const std::vector<KnownModel> one = {model};
    const auto fits = [&](uint64_t memory, std::optional<uint64_t> disk) {
      return offers_for({memory, disk, 0, 0}, {}, one).size() == 1;
    };
    EXPECT_TRUE(fits(model.least_memory, std::nullopt)) << model.name;
    EXPECT_FALSE(fits(model.least_memory - 1, std::nullopt)) << model.name;
    EXPECT_TRUE(fits(model.least_memory, model.download_bytes + hub::kDiskReserve)) << model.name;
    EXPECT_FALSE(fits(model.least_memory, model.download_bytes + hub::kDiskReserve - 1)) << model.name;
  }
}

TEST(FirstModels, SmallDisk) {
  EXPECT_EQ(offered(64 * kGb, 80, 5 * kGb), "4B 2B 0.8B");
  EXPECT_EQ(offered(64 * kGb, 80, 400'000'000), "360M 3-270m-it 135M");
  EXPECT_EQ(offered(64 * kGb, 80, 180'000'000), "135M");  // fewer than three
  EXPECT_EQ(offered(64 * kGb, 80, 0), "");
  const MachineRoom full{64 * kGb, 10'000'000, 80e9, 0};
  EXPECT_NE(why_no_offer(full, known_models()).find("10.0 MB of the disk"), std::string::npos);
  EXPECT_NE(why_no_offer(full, known_models()).find("HF_HUB_CACHE"), std::string::npos);
}

TEST(FirstModels, LittleMemory) {
  EXPECT_EQ(offered(200'000'000, 10), "");
  const MachineRoom tiny{200'000'000, std::nullopt, 10e9, 0};
  EXPECT_NE(why_no_offer(tiny, known_models()).find("200.0 MB of memory are free"), std::string::npos);
  EXPECT_NE(why_no_offer(tiny, {}).find("--offline"), std::string::npos);
}

TEST(FirstModels, SlowAndUnknownMachines) {
  EXPECT_EQ(offered(64 * kGb, 0), "27B 35B-A3B 9B");  // the rate is not known: by memory alone
  EXPECT_EQ(offered(64 * kGb, 0.1), "0.8B 360M 2B");  // nothing is fast, as on a machine that is busy
  EXPECT_EQ(offered(64 * kGb, 12.7), "0.8B 360M 2B");
  EXPECT_EQ(offered(64 * kGb, 12.9), "2B 0.8B 4B");  // 8.06 tokens a second
  EXPECT_EQ(offered(600'000'000, 2.0), "135M 3-270m-it 360M");
}

TEST(FirstModels, StoredModelsComeFirstAndAreNotOfferedTwice) {
  const MachineRoom room{6 * kGb, std::nullopt, 40e9, 0};
  const std::string two = "unsloth/Qwen3.5-2B-GGUF:Q4_K_M";
  const auto offers = offers_for(room, {stored(two)}, known_models());
  ASSERT_EQ(sizes(offers), "2B 4B 0.8B");
  EXPECT_TRUE(offers[0].stored);
  EXPECT_FALSE(offers[1].stored);
  const std::vector<ModelOffer> many = {stored("x/Y-1B-GGUF"), stored("x/Y-3B-GGUF"), stored("x/Y-7B-GGUF"),
                                        stored("unsloth/Qwen3.5-4B-GGUF:Q4_K_M")};
  EXPECT_EQ(sizes(offers_for(room, many, known_models())), "1B 3B 2B");  // 4B is here, though not shown
  EXPECT_EQ(sizes(offers_for(room, many, {})), "1B 3B");                 // offline
  EXPECT_TRUE(offers_for({}, {}, {}).empty());
}

TEST(FirstModels, ExpectedRate) {
  const MachineRoom cpu{kGb, std::nullopt, 50e9, 0}, gpu{kGb, std::nullopt, 4000e9, 0.6e-3};
  EXPECT_DOUBLE_EQ(expected_rate(4 * kGb, cpu), 10);
  EXPECT_NEAR(expected_rate(4 * kGb, gpu), 540.5, 0.1);
  EXPECT_EQ(expected_rate(0, cpu), 0);
  EXPECT_EQ(expected_rate(kGb, {}), 0);
}

TEST(FirstModels, BytesPerToken) {
  const LayerSpec dense{.mlp = MlpSpec()}, mixer_only{.mlp = std::monostate()}, mixture{.mlp = MoeSpec()},
      both{.mlp = MlpAndMoeSpec()};
  const auto bytes = [](const std::vector<LayerSpec>& layers) { return bytes_per_token("x/y", 9, layers); };
  EXPECT_EQ(bytes({dense, dense}), 9u);
  EXPECT_EQ(bytes({mixer_only, dense, mixer_only}), 9u);  // layers without an MLP of their own
  EXPECT_EQ(bytes({dense, mixture}), 0u);
  EXPECT_EQ(bytes({both, dense}), 0u);
  EXPECT_EQ(bytes_per_token("unsloth/Qwen3.5-35B-A3B-GGUF:Q4_K_M", 9, std::vector{mixture}), 2'100'000'000u);
}

TEST(FirstModels, TextOfTheOffers) {
  const MachineRoom room{kGb, std::nullopt, 50e9, 0};
  EXPECT_EQ(offers_text({stored("a/b", 90'000'000, 90'000'000),
                         {"long/name:Q4_K_M", 5'680'522'464, false, 5 * kGb},
                         stored("mix\n", 20 * kGb)},
                        room),
            "  1  a/b                90.0 MB stored here  about 440 tokens a second\n"
            "  2  long/name:Q4_K_M   5.68 GB to download  about 8.0 tokens a second\n"
            "  3  mix\\n             20.00 GB stored here\n");
  EXPECT_NE(offers_text({stored("a/b", kGb, kGb)}, room).find("about 40 tokens"), std::string::npos);
}

TEST(FirstModels, AnswersToTheQuestion) {
  EXPECT_EQ(offer_named("", 3), 0u);
  EXPECT_EQ(offer_named(" \t\r", 3), 0u);
  EXPECT_EQ(offer_named("1", 3), 0u);
  EXPECT_EQ(offer_named(" 3 \r", 3), 2u);
  EXPECT_EQ(offer_named("03", 3), 2u);
  for (const char* wrong :
       {"0", "4", "-1", "+1", "1.0", "2x", "x", "1 2", "99999999999999999999", "yes", "\x1b[A"})
    EXPECT_EQ(offer_named(wrong, 3), std::nullopt) << wrong;
  EXPECT_EQ(offer_named("2", 1), std::nullopt);
}

}  // namespace
}  // namespace anabranch::cli
