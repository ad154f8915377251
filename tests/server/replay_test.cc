#include "chat/replay.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "base/mapped_file.h"
#include "chat/call_arguments.h"
#include "output/output_format.h"

namespace anabranch::server {
namespace {

const Tokenizer& tokenizer() {
  static const auto made = Tokenizer::from_file(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/tokenizer.json");
  CHECK(made.ok(), "{}", made.error().message);
  return **made;
}

const ChatTemplate& chat() {
  static const auto made = ChatTemplate::parse(
      *read_file(ANABRANCH_SOURCE_DIR "/models/hybrid-146m/chat_template.jinja", 1 << 20), "", "<|im_end|>");
  CHECK(made.ok(), "{}", made.error().message);
  return **made;
}

OutputRules rules() {
  OutputRules rules;
  rules.format = find_output_format(&chat(), tokenizer());
  rules.tools =
      std::make_shared<const Json>(*parse_json(R"([{"type":"function","function":{"name":"read","parameters":
      {"type":"object","properties":{"path":{"type":"string"},"lines":{"type":"integer"}}}}}])"));
  return rules;
}

std::vector<int> tokens_of(const std::string& text) {
  return tokenizer().encode(text, true);
}

const std::string kEnd = "<|im_end|>";
const std::string kCall =
    "Let me look.\n\n<tool_call>\n{\"name\":   \"read\", \"arguments\": {\"path\":\"a.txt\", \"lines\":2}}\n"
    "</tool_call>";

Json conversation(const std::string& content, const std::string& arguments) {
  return {{{"role", "user"}, {"content", "What is in a.txt?"}},
          {{"role", "assistant"},
           {"content", content},
           {"tool_calls",
            {{{"id", "call_1"},
              {"type", "function"},
              {"function", {{"name", "read"}, {"arguments", arguments}}}}}}},
          {{"role", "tool"}, {"tool_call_id", "call_1"}, {"content", "text"}}};
}

// After the first message of such a conversation, or of one that begins with the turn.
void remember(const std::string& sampled, TurnMemory& memory,
              TurnEndReason end = TurnEndReason::end_of_turn) {
  const auto before = conversation_key(Json::array({conversation("", "{}")[0]}), "");
  remember_turn(tokens_of(sampled), end, before, rules(), tokenizer(), memory);
}

size_t known(TurnMemory& memory, const Json& messages, const std::string& salt = "") {
  return known_turns(messages, salt, rules(), tokenizer(), memory).size();
}

TEST(Replay, TheNextPromptBeginsWithWhatWasSampled) {
  TurnMemory memory("");
  PromptCompiler compiler(chat(), tokenizer());
  TemplateOptions options;
  options.enable_thinking = false;
  Json messages = conversation("Let me look.", R"({"lines": 2, "path": "a.txt"})");
  const auto first = compiler.compile(Json::array({messages[0]}), *rules().tools, options);
  ASSERT_TRUE(first.ok());
  const auto sampled = tokens_of(kCall + kEnd);
  remember(kCall + kEnd, memory);
  const auto turns = known_turns(messages, "", rules(), tokenizer(), memory);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].message, 1u);
  const auto second = compiler.compile(messages, *rules().tools, options, "", turns);
  auto beginning = first->tokens;
  beginning.insert(beginning.end(), sampled.begin(), sampled.end());
  ASSERT_GT(second->tokens.size(), beginning.size());
  EXPECT_EQ(
      std::vector<int>(second->tokens.begin(), second->tokens.begin() + static_cast<long>(beginning.size())),
      beginning);
  const auto plain = compiler.compile(messages, *rules().tools, options);
  EXPECT_NE(plain->tokens, second->tokens);
}

TEST(Replay, OnlyWhatSaysTheSame) {
  TurnMemory memory("");
  remember(kCall + kEnd, memory);
  EXPECT_EQ(known(memory, conversation("Let me look.", R"({"path": "a.txt", "lines": 2})")), 1u);
  EXPECT_EQ(known(memory, conversation(" Let me look.\n", R"({"lines":2,"path":"a.txt"})")), 1u);
  EXPECT_EQ(known(memory, conversation("Let me look!", R"({"path": "a.txt", "lines": 2})")), 0u);
  EXPECT_EQ(known(memory, conversation("Let me look.", R"({"path": "b.txt", "lines": 2})")), 0u);
  EXPECT_EQ(known(memory, conversation("Let me look.", R"({"path": "a.txt", "lines": "2"})")), 0u);
  EXPECT_EQ(known(memory, conversation("Let me look.", R"({"path": "a.txt"})")), 0u);
  EXPECT_EQ(known(memory, conversation("Let me look.", "{")), 0u);
  EXPECT_EQ(known(memory, conversation("Let me look.", R"({"path": "a.txt", "lines": 2})"), "other"), 0u);
}

// Claude Code sends arguments that it could not parse within an object of its own.
TEST(Replay, BrokenArgumentsInAnObject) {
  const std::string raw = R"({"path": "a.txt", "lines)";
  const auto marked = [](const Json& inside) { return Json{{"__unparsedToolInput", inside}}; };
  EXPECT_EQ(read_arguments(marked({{"raw", raw}, {"len", raw.size()}})), Json(raw));
  EXPECT_EQ(read_arguments(marked({{"raw", "{\"a\": 1}"}, {"len", 8}})), (Json{{"a", 1}}));
  EXPECT_EQ(read_arguments(marked({{"raw", raw}}).dump()), Json(raw));
  for (Json other : {marked(raw), marked({{"raw", 1}}), Json{{"raw", raw}}})
    EXPECT_EQ(read_arguments(other), other);
  Json more = marked({{"raw", raw}});
  more["path"] = "a";
  EXPECT_EQ(read_arguments(more), more);

  TurnMemory memory("");
  const std::string path(300, 'a');  // long enough for the call to begin
  const std::string broken =
      "Let me look.\n\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"" + path +
      "\", \"lines\" oops}}\n</tool_call>";
  remember(broken + kEnd, memory);
  const auto parsed = parse_output(broken, rules());
  ASSERT_EQ(parsed.calls.size(), 1u) << parsed.content;
  EXPECT_FALSE(parse_json(parsed.calls[0].arguments).ok()) << parsed.calls[0].arguments;
  Json told = conversation("Let me look.", "");
  Json& arguments = told[1]["tool_calls"][0]["function"]["arguments"];
  arguments = read_arguments(marked({{"raw", parsed.calls[0].arguments}, {"len", 9}}));
  EXPECT_EQ(known(memory, told), 1u);
}

TEST(Replay, ReasoningIsNotPartOfIt) {
  TurnMemory memory("");
  remember("I should look.\n</think>\n\n" + kCall + kEnd, memory);
  const auto turns = known_turns(conversation("Let me look.", R"({"path": "a.txt", "lines": 2})"), "",
                                 rules(), tokenizer(), memory);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(tokenizer().decode(turns[0].tokens, false), kCall);
}

TEST(Replay, TurnsThatWereCutOrHaveOneFormOnlyAreNotKept) {
  TurnMemory memory("");
  const Json plain = {conversation("", "{}")[0], {{"role", "assistant"}, {"content", "It says text."}}};
  remember("It says text.", memory);         // no end
  remember("It says text." + kEnd, memory);  // as any tokeniser
  remember("", memory);
  EXPECT_EQ(known(memory, plain), 0u);
  std::vector<int> letters;
  for (const char c : std::string("It says text.")) letters.push_back(tokens_of(std::string(1, c)).at(0));
  letters.push_back(tokens_of(kEnd).at(0));
  const auto before = conversation_key(Json::array({plain[0]}), "");
  remember_turn(letters, TurnEndReason::end_of_turn, before, rules(), tokenizer(), memory);
  EXPECT_EQ(known(memory, plain), 1u);
}

// What clients are not told of must not come back in a turn's place.
TEST(Replay, TurnsThatHideSomethingAreNotKept) {
  const Json plain = {conversation("", "{}")[0], {{"role", "assistant"}, {"content", "Yes."}}};
  for (const std::string hidden : {"Yes.<|im_start|>", "<|endoftext|>Yes.", "Yes.<think>", "Yes.</think>"}) {
    TurnMemory memory("");
    remember(hidden + kEnd, memory);
    EXPECT_EQ(known(memory, plain), 0u) << hidden;
  }
  TurnMemory memory("");
  std::vector<int> lines(500, tokens_of("\n").at(0));
  for (const int token : tokens_of("Yes." + kEnd)) lines.push_back(token);
  const auto before = conversation_key(Json::array({plain[0]}), "");
  remember_turn(lines, TurnEndReason::end_of_turn, before, rules(), tokenizer(), memory);
  EXPECT_EQ(known(memory, plain), 0u);
}

// With parallel_tool_calls false no end of the turn follows the call.
TEST(Replay, ATurnIsWholeAfterItsLastAllowedCall) {
  TurnMemory memory("");
  const Json told = conversation("Let me look.", R"({"path": "a.txt", "lines": 2})");
  remember(kCall, memory);
  EXPECT_EQ(known(memory, told), 0u);
  remember(kCall, memory, TurnEndReason::last_allowed_call);
  OutputRules one_call = rules();
  one_call.max_calls = 1;
  const auto turns = known_turns(told, "", one_call, tokenizer(), memory);
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].tokens, tokens_of(kCall));
}

TEST(Replay, OnlyInTheSameConversation) {
  TurnMemory memory("");
  remember(kCall + kEnd, memory);
  Json messages = conversation("Let me look.", R"({"path": "a.txt", "lines": 2})");
  EXPECT_EQ(known(memory, messages), 1u);
  messages[1]["tool_calls"][0]["id"] = "call_2";
  messages[1]["reasoning_content"] = "hm";
  EXPECT_EQ(known(memory, messages), 1u) << "ids and reasoning do not count";
  Json longer = messages;
  longer.push_back(longer[1]);
  EXPECT_EQ(known(memory, longer), 1u) << "the same text after other messages is another turn";
  messages[0]["content"] = "What is in a.txt, please?";
  EXPECT_EQ(known(memory, messages), 0u);
}

TEST(Replay, TakesAnyMessages) {
  TurnMemory memory("");
  for (const char* messages :
       {"null", "{}", "[1,null,[]]", R"([{"role":"assistant"}])", R"([{"role":"assistant","content":7}])",
        R"([{"role":"assistant","tool_calls":[3,{"function":{"name":1}}]}])"})
    EXPECT_EQ(known(memory, *parse_json(messages)), 0u) << messages;
}

class TurnFile : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "anabranch-turns-XXXXXX";
    ASSERT_TRUE(mkdtemp(name.data()));
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path() const { return folder_ + "/turns.db"; }
  std::string folder_;
};

TEST_F(TurnFile, SurvivesARestartAndIsPrivate) {
  const std::vector<int> tokens = {1, 2, 3}, others = {4};
  {
    TurnMemory memory(path());
    memory.put(7, tokens);
    EXPECT_EQ(memory.find(7), tokens);
    memory.write();
    memory.put(~uint64_t{0}, others);
  }
  TurnMemory memory(path());
  EXPECT_EQ(memory.find(7), tokens);
  EXPECT_EQ(memory.find(~uint64_t{0}), others);
  EXPECT_EQ(memory.find(8), std::nullopt);
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

// Two answers of a request may say the same with other tokens, and either may end first.
TEST_F(TurnFile, WhichOfTwoCameFirstDoesNotMatter) {
  const std::vector<int> small = {2, 9}, other = {3, 1}, longer = {1, 1, 1};
  for (const bool written : {false, true}) {
    TurnMemory memory(path());
    uint64_t key = written ? 10 : 0;
    for (const auto& order : {std::vector{small, other, longer}, {longer, other, small}, {other, small}}) {
      for (const auto& tokens : order) {
        memory.put(key, tokens);
        if (written) memory.write();
      }
      EXPECT_EQ(memory.find(key++), small);
    }
  }
}

TEST_F(TurnFile, IsMadePrivateAndLinksAreNotFollowed) {
  std::ofstream(path()).close();
  chmod(path().c_str(), 0644);
  {
    TurnMemory memory(path());
    memory.put(1, std::vector<int>{5});
  }
  struct stat status {};
  ASSERT_EQ(stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  const std::string link = folder_ + "/link.db";
  std::filesystem::create_symlink(path(), link);
  TurnMemory elsewhere(link);
  EXPECT_EQ(elsewhere.find(1), std::nullopt);
}

TEST_F(TurnFile, IsForgotten) {
  EXPECT_EQ(*forget_turns(path(), INT64_MAX), 0);  // and is not made
  EXPECT_FALSE(std::filesystem::exists(path()));
  TurnMemory memory(path());
  for (int i = 0; i < 3; i++) memory.put(static_cast<uint64_t>(i), std::vector<int>{5});
  memory.write();
  EXPECT_EQ(*forget_turns(path(), 1'000'000), 0);  // none is that old
  EXPECT_EQ(*forget_turns(path(), INT64_MAX), 3);
  EXPECT_EQ(memory.find(1), std::nullopt);
  std::ofstream(path() + "x") << std::string(2000, 'x');
  EXPECT_FALSE(forget_turns(path() + "x", INT64_MAX).ok());
}

TEST_F(TurnFile, TwoAtOnce) {
  TurnMemory one(path()), other(path());
  for (int i = 0; i < 20; i++) {
    one.put(static_cast<uint64_t>(i), std::vector<int>{i});
    one.write();
    EXPECT_EQ(other.find(static_cast<uint64_t>(i)), std::vector<int>{i});
    other.put(static_cast<uint64_t>(i + 100), std::vector<int>{i});
    other.write();
    EXPECT_EQ(one.find(static_cast<uint64_t>(i + 100)), std::vector<int>{i});
  }
}

// Service goes on without the file.
TEST_F(TurnFile, DamagedForeignOrMissing) {
  std::ofstream(path()) << "this is no database, and long enough not to be taken for an empty one: "
                        << std::string(2000, 'x');
  TurnMemory damaged(path()), nowhere(folder_ + "/no/such/folder/turns.db");
  for (TurnMemory* memory : {&damaged, &nowhere}) {
    memory->put(1, std::vector<int>{5});
    memory->write();
    EXPECT_EQ(memory->find(1), std::vector<int>{5});
  }
}

TEST_F(TurnFile, DamagedLater) {
  TurnMemory memory(path());
  for (int i = 0; i < 2000; i++) memory.put(static_cast<uint64_t>(i), std::vector<int>(50, i));
  memory.write();
  for (const char* file : {"/turns.db", "/turns.db-wal"})
    if (std::filesystem::exists(folder_ + file)) {
      std::fstream out(folder_ + file, std::ios::in | std::ios::out | std::ios::binary);
      for (long at = 30; at < static_cast<long>(std::filesystem::file_size(folder_ + file)); at += 97) {
        out.seekp(at);
        out.put('\x5a');
      }
    }
  TurnMemory again(path());
  for (int i = 0; i < 2000; i++) {
    const auto tokens = again.find(static_cast<uint64_t>(i));  // what is wrong is not believed later
    EXPECT_LE(tokens.value_or(std::vector<int>()).size(), size_t{1} << 16);
  }
  again.put(1, std::vector<int>{5});
  again.write();
}

}  // namespace
}  // namespace anabranch::server
