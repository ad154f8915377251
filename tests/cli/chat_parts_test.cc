// The parts of `chat`: its settings, saved conversations, and images.
#include <gtest/gtest.h>

#include "base/base64.h"
#include "cli/chat_file.h"
#include "cli/chat_settings.h"
#include "cli/image_files.h"
#include "temp_dir.h"

namespace anabranch::cli {
namespace {

using anabranch::testing::TempDir;

TEST(ChatSettings, TakeWhatTheFlagsTake) {
  SamplingOptions options;
  const auto good = [&](const char* name, const char* value) {
    return change_setting(options, name, value).ok();
  };
  for (const char* value : {"0", "0.5", "1", "1e-3"}) EXPECT_TRUE(good("top_p", value)) << value;
  for (const char* value : {"", "-0.1", "1.1", "0.5x", "half", "nan", "inf"})
    EXPECT_FALSE(good("top_p", value)) << value;
  EXPECT_EQ(options.top_p, 0.001f) << "of the last good one";
  EXPECT_TRUE(good("top_k", "40"));
  EXPECT_FALSE(good("top_k", "40.5"));
  EXPECT_EQ(options.top_k, 40);
  const auto unknown = change_setting(options, "topk", "1");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::not_found);
  EXPECT_NE(unknown.error().message.find("top_k"), std::string::npos);
}

TEST(ChatSettings, DefaultIsWhatTheyWereWithoutFlags) {
  SamplingOptions options;
  for (const char* name : {"temperature", "top_k", "seed", "min_tokens", "max_tokens"}) {
    EXPECT_TRUE(change_setting(options, name, "1").ok()) << name;
    EXPECT_TRUE(change_setting(options, name, "default").ok()) << name;
  }
  EXPECT_FALSE(options.temperature || options.top_k || options.seed);
  EXPECT_EQ(options.min_tokens, 0);
  EXPECT_EQ(options.max_tokens, -1) << "up to the context";
}

TEST(ChatFile, HoldsWhateverAConversationHas) {
  const TempDir folder;
  const std::string path = folder.file("talk.json");
  const Json messages = parse_json(R"([
      {"role": "system", "content": "Be brief."}, {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
      {"role": "assistant", "content": null, "tool_calls": []}, {"role": "assistant", "tool_calls": []},
      {"role": "tool", "content": "12"}, {"role": "developer", "content": ""}])")
                            .value();
  ASSERT_TRUE(save_messages(path, messages).ok());
  const auto loaded = load_messages(path);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message;
  EXPECT_EQ(*loaded, messages);
  const auto again = save_messages(path, Json::array());
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::invalid);
  EXPECT_EQ(*load_messages(path), messages) << "it was written over";
  folder.write("list.json", messages.dump());
  EXPECT_EQ(*load_messages(folder.file("list.json")), messages);
}

TEST(ChatFile, OthersAreRefusedWithTheirPlace) {
  const TempDir folder;
  for (const auto& [text, place] : {std::pair("{}", "no conversation"),
                                    {"[1]", "message 1 "},
                                    {R"({"messages": {}})", "no conversation"},
                                    {R"([{"role": "user"}, {"role": "someone"}])", "message 2 "},
                                    {R"([{"role": "user", "content": 7}])", "message 1:"},
                                    {"[", "other.json"}}) {
    folder.write("other.json", text);
    const auto loaded = load_messages(folder.file("other.json"));
    ASSERT_FALSE(loaded.ok()) << text;
    EXPECT_NE(loaded.error().message.find(place), std::string::npos) << loaded.error().message;
  }
}

TEST(ImageFiles, AreKnownByTheirFirstBytes) {
  const TempDir folder;
  const auto part = [&](const std::string& bytes) {
    folder.write("image", bytes);
    const auto read = image_part(folder.file("image"));
    return read.ok() ? (*read)["image_url"]["url"].get<std::string>() : read.error().message;
  };
  const std::string png = "\x89PNG\r\n\x1a\n and more", jpeg = "\xff\xd8\xff and more";
  const std::string webp("RIFF\x04\x03\x02\x01WEBPVP8 ", 16);
  EXPECT_EQ(part(png), "data:image/png;base64," + to_base64(png));
  EXPECT_EQ(part(jpeg), "data:image/jpeg;base64," + to_base64(jpeg));
  EXPECT_EQ(part(webp), "data:image/webp;base64," + to_base64(webp));
  for (const std::string other : {"", "GIF89a", "RIFF....WAVEfmt ", "....\x04\x03\x02\x01WEBPVP8 ", "PNG"})
    EXPECT_NE(part(other).find("no image"), std::string::npos) << other;
}

TEST(ImageFiles, MessagesAreKeptWithTheirImagesInPlace) {
  const auto text = [](const char* words) { return Json{{"type", "text"}, {"text", words}}; };
  const auto image = [](const char* url) {
    return Json{{"type", "image_url"}, {"image_url", {{"url", url}}}};
  };
  const Json message = {{"role", "user"},
                        {"content", Json::array({image("data:a"), text("one"), image("data:b"), text("two"),
                                                 image("data:c"), image("data:d")})}};
  const Json kept = kept_message(message);
  EXPECT_EQ(kept["content"], "onetwo");
  EXPECT_EQ(kept["images"].size(), 4u);
  EXPECT_EQ(chat_message(kept), message);
  const Json plain = {{"role", "user"}, {"content", "Hi"}};
  EXPECT_EQ(kept_message(plain), plain);
  EXPECT_EQ(chat_message(plain), plain);
  Json detailed = kept;
  detailed["images"][1]["detail"] = "low";
  EXPECT_EQ(chat_message(detailed)["content"][2]["image_url"], Json({{"url", "data:b"}, {"detail", "low"}}));
}

}  // namespace
}  // namespace anabranch::cli
