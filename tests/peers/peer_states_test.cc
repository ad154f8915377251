// What a peer says and sends is not believed.
#include "peers/peer_states.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include "base/clock.h"
#include "base/json.h"
#include "cache/disk_files.h"
#include "cache/shared_states.h"
#include "peers/lookup.h"
#include "raw_http_server.h"
#include "slow.h"

namespace anabranch {
namespace {

using Asked = RawHttpServer::Request;
using Send = RawHttpServer::Send;

const Fingerprint kModel = fingerprint_of("a model of peers");

// A prompt of two blocks and a bit.
struct Prompt {
  explicit Prompt(int first, int length = 2 * kBlockTokens + 50) : tokens(static_cast<size_t>(length)) {
    std::iota(tokens.begin(), tokens.end(), first);
    keys = prefix_keys(kModel, "", tokens);
  }
  RecordHead block(size_t i) const {
    const auto part = std::span(tokens).subspan(i * kBlockTokens, kBlockTokens);
    return {RecordKind::block,
            keys[i + 1],
            keys[i],
            static_cast<uint32_t>((i + 1) * kBlockTokens),
            {part.begin(), part.end()}};
  }
  std::vector<int> tokens;
  std::vector<PrefixKey> keys;
};

std::string name_of(const RecordHead& head) {
  return record_name(disk_record(kModel, head));
}

class Peers : public ::testing::Test {
 protected:
  // A peer that answers lookups like this, and has records under these names.
  void start(const std::string& lookup, std::map<std::string, RecordHead> records = {}) {
    server_ = std::make_unique<RawHttpServer>([=](const Asked& asked, const Send& send) {
      if (asked.target == "/v1/states/lookup") {
        send(lookup);
        return;
      }
      const auto at = records.find(asked.target.substr(asked.target.rfind('/') + 1));
      send(at == records.end() ? http_answer("{}", "", "404 Not Found")
                               : http_answer(encode_head(kModel, at->second, {}).head));
    });
    connect();
  }
  void connect(std::vector<std::string> more = {}) {
    more.push_back(server_->url());
    states_ = std::make_unique<PeerStates>(PeerOptions{.urls = std::move(more)}, kModel, 1u << 20);
  }
  std::optional<FetchedStates> fetch(const Prompt& prompt, bool any_token = true, int length = 0) {
    WantedStates wanted;
    wanted.tokens =
        std::span(prompt.tokens).first(length > 0 ? static_cast<size_t>(length) : prompt.tokens.size());
    wanted.keys = prompt.keys;
    wanted.any_token = any_token;
    wanted.until = now_seconds() + 10 * kSlowdown;
    return states_->fetch(wanted);
  }
  static std::string kept(uint32_t blocks, std::vector<KeptPoint> points = {}) {
    return http_answer(dump_json(to_json(KeptPrefix{blocks, std::move(points)})));
  }
  size_t asked() const { return server_->requests().size(); }

  const Prompt prompt_{1000}, other_{500'000};
  std::unique_ptr<RawHttpServer> server_;
  std::unique_ptr<PeerStates> states_;
};

TEST_F(Peers, WhatAPeerKeepsIsFetched) {
  start(kept(2),
        {{name_of(prompt_.block(0)), prompt_.block(0)}, {name_of(prompt_.block(1)), prompt_.block(1)}});
  const auto fetched = fetch(prompt_);
  ASSERT_TRUE(fetched);
  EXPECT_EQ(fetched->length, 2 * kBlockTokens);
  ASSERT_EQ(fetched->records.size(), 2u);
  EXPECT_EQ(fetched->records[1].head, prompt_.block(1));
  EXPECT_EQ(states_->stats().failed, 0u);
}

// It would give tokens of another text.
TEST_F(Peers, TheRecordOfAnotherTextIsRefusedAndThePeerRests) {
  start(kept(2),
        {{name_of(prompt_.block(0)), prompt_.block(0)}, {name_of(prompt_.block(1)), other_.block(1)}});
  EXPECT_FALSE(fetch(prompt_));
  EXPECT_EQ(states_->stats().failed, 1u);
  EXPECT_EQ(asked(), 3u);
  EXPECT_FALSE(fetch(prompt_));
  EXPECT_EQ(asked(), 3u) << "it is left alone for some seconds";
}

TEST_F(Peers, AStateOfAnotherTextIsNotAskedFor) {
  const uint32_t length = 2 * kBlockTokens + 20;
  start(kept(2, {{length, 12345}}));
  EXPECT_FALSE(fetch(prompt_, false));
  EXPECT_EQ(asked(), 1u);
}

// Its blocks and its mark are right, but the prompt is shorter.
TEST_F(Peers, AStateThatIsLongerThanThePromptIsNone) {
  const size_t longer = prompt_.tokens.size();
  const auto tail = std::span(prompt_.tokens).subspan(2 * kBlockTokens);
  const RecordHead head{RecordKind::snapshot,
                        next_key(prompt_.keys[2], tail),
                        prompt_.keys[2],
                        static_cast<uint32_t>(longer),
                        {tail.begin(), tail.end()}};
  start(kept(2, {{static_cast<uint32_t>(longer), mark_of(head.key)}}),
        {{name_of(prompt_.block(0)), prompt_.block(0)},
         {name_of(prompt_.block(1)), prompt_.block(1)},
         {name_of(head), head}});
  EXPECT_FALSE(fetch(prompt_, false, static_cast<int>(longer))) << "the last token must be computed";
  const auto fetched = fetch(Prompt(1000, static_cast<int>(longer) + 1), false);
  ASSERT_TRUE(fetched);
  EXPECT_EQ(fetched->length, static_cast<int>(longer));
}

TEST_F(Peers, AnAnswerWithoutEndIsGivenUp) {
  constexpr size_t kMost = 32u << 20;
  std::atomic<size_t> sent = 0;
  server_ = std::make_unique<RawHttpServer>([&](const Asked&, const Send& send) {
    send("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[");
    for (const std::string piece(4096, ' '); sent < kMost && send(piece);) sent += piece.size();
  });
  connect();
  EXPECT_FALSE(fetch(prompt_));
  EXPECT_LT(sent, kMost);
  EXPECT_EQ(states_->stats().failed, 1u);
  EXPECT_FALSE(fetch(prompt_));
  EXPECT_EQ(asked(), 1u) << "it is left alone for some seconds";
}

TEST_F(Peers, AWorkerOfAnotherModelIsNotAskedForEachPrompt) {
  start(http_answer(R"({"error":{"message":"another model"}})", "", "409 Conflict"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(fetch(prompt_));
  EXPECT_EQ(asked(), 1u);
  start(http_answer(R"({"error":{"message":"busy"}})", "", "503 Service Unavailable"));
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(fetch(prompt_));
  EXPECT_EQ(asked(), 3u) << "a busy one may have room the next time";
}

TEST_F(Peers, OnlyThePeerThatAPromptNamesIsAsked) {
  const RawHttpServer named([](const Asked&, const Send& send) { send(kept(0)); });
  start(kept(0));
  connect({named.url()});
  WantedStates wanted;
  wanted.tokens = prompt_.tokens;
  wanted.keys = prompt_.keys;
  wanted.host = named.host();
  wanted.until = now_seconds() + 10 * kSlowdown;
  EXPECT_FALSE(states_->fetch(wanted));
  EXPECT_EQ(named.requests().size(), 1u);
  EXPECT_EQ(asked(), 0u);
}

// Asks for the states of this prompt, of which so many tokens are here.
WantedStates wanted_of(const Prompt& prompt, int length_here = 0, bool any_token = true) {
  WantedStates wanted;
  wanted.tokens = prompt.tokens;
  wanted.keys = prompt.keys;
  wanted.any_token = any_token;
  wanted.length_here = length_here;
  wanted.blocks_here = length_here / kBlockTokens;
  wanted.until = now_seconds() + 10 * kSlowdown;
  return wanted;
}

TEST_F(Peers, WhatIsHereIsNotFetchedAgain) {
  const Prompt prompt(1000, 3 * kBlockTokens + 50);
  std::map<std::string, RecordHead> records;
  for (size_t i = 0; i < 3; i++) records.emplace(name_of(prompt.block(i)), prompt.block(i));
  start(kept(3), records);
  EXPECT_FALSE(states_->fetch(wanted_of(prompt, 3 * kBlockTokens))) << "nothing is gained";
  EXPECT_EQ(asked(), 1u);
  const auto fetched = states_->fetch(wanted_of(prompt, kBlockTokens));
  ASSERT_TRUE(fetched);
  EXPECT_EQ(fetched->records.size(), 2u);
  EXPECT_EQ(asked(), 4u);
  EXPECT_EQ(states_->stats().tokens, uint64_t{2 * kBlockTokens});
  EXPECT_EQ(states_->stats().lookups, 2u);
  EXPECT_EQ(states_->stats().fetched, 1u);
}

TEST_F(Peers, TheLastTokenOfAPromptOfWholeBlocksIsComputed) {
  const Prompt prompt(1000, 2 * kBlockTokens);
  start(kept(2), {{name_of(prompt.block(0)), prompt.block(0)}, {name_of(prompt.block(1)), prompt.block(1)}});
  const auto fetched = states_->fetch(wanted_of(prompt));
  ASSERT_TRUE(fetched);
  EXPECT_LT(fetched->length, 2 * kBlockTokens);
}

TEST_F(Peers, OfSeveralPeersTheOneWithMostIsTaken) {
  const RawHttpServer little([](const Asked&, const Send& send) { send(kept(0)); });
  start(kept(2),
        {{name_of(prompt_.block(0)), prompt_.block(0)}, {name_of(prompt_.block(1)), prompt_.block(1)}});
  connect({little.url()});
  const auto fetched = fetch(prompt_);
  ASSERT_TRUE(fetched);
  EXPECT_EQ(fetched->peer, server_->url());
}

TEST_F(Peers, AnEntryThatIsGoneMeanwhileIsNoFault) {
  start(kept(2), {{name_of(prompt_.block(0)), prompt_.block(0)}});
  for (size_t i = 1; i <= 2; i++) {
    EXPECT_FALSE(fetch(prompt_));
    EXPECT_EQ(asked(), 3 * i) << "it is asked again at once";
  }
  EXPECT_EQ(states_->stats().failed, 0u);
}

TEST_F(Peers, AClientThatLeavesIsNoFaultOfThePeer) {
  std::atomic<bool> left = false, over = false;
  server_ = std::make_unique<RawHttpServer>([&](const Asked&, const Send& send) {
    if (left.exchange(true)) return void(send(kept(0)));
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  connect();
  WantedStates wanted = wanted_of(prompt_);
  wanted.stop = [&] { return left.load(); };
  EXPECT_FALSE(states_->fetch(wanted));
  EXPECT_EQ(states_->stats().failed, 0u);
  EXPECT_FALSE(fetch(prompt_));
  EXPECT_EQ(asked(), 2u);
  over = true;
  server_.reset();
}

TEST_F(Peers, APeerThatDoesNotAnswerTakesHalfOfTheTime) {
  std::atomic<bool> over = false;
  server_ = std::make_unique<RawHttpServer>([&](const Asked&, const Send&) {
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  });
  connect();
  WantedStates wanted = wanted_of(prompt_);
  wanted.until = now_seconds() + 2 * kSlowdown;
  EXPECT_FALSE(states_->fetch(wanted));
  EXPECT_LT(now_seconds(), wanted.until - 0.2 * kSlowdown);
  over = true;
  server_.reset();
}

TEST_F(Peers, APeerGetsTheKey) {
  start(kept(0));
  states_ = std::make_unique<PeerStates>(PeerOptions{.urls = {server_->url()}, .api_key = "secret"}, kModel,
                                         1u << 20);
  EXPECT_FALSE(fetch(prompt_));
  ASSERT_EQ(asked(), 1u);
  EXPECT_EQ(server_->requests()[0].field("Authorization"), "Bearer secret");
}

TEST_F(Peers, APromiseOfAPetabyteIsNotBelieved) {
  server_ = std::make_unique<RawHttpServer>([&](const Asked&, const Send& send) {
    send("HTTP/1.1 200 OK\r\nContent-Length: 900000000000000\r\n\r\n{}");
  });
  connect();
  EXPECT_FALSE(fetch(prompt_));
}

}  // namespace
}  // namespace anabranch
