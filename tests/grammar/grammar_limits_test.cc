// What many grammars together may take: the cache, the queue, and the threads beside a compilation.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>

#include "grammar/grammar.h"
#include "slow.h"

namespace anabranch {
namespace {

GrammarVocab vocabulary_of_size(int size) {
  std::vector<std::string> tokens = {""};
  for (int i = 0; i < size; i++) tokens.push_back("ab" + std::to_string(i * 7919));
  return {std::move(tokens), {0}};
}

// Of about `bytes` bytes, and another for each number.
std::string grammar_of_size(size_t bytes, int number) {
  return "root ::= \"ab" + std::to_string(number % 8 * 7919) + "\"\n# " + std::to_string(number) +
         std::string(bytes, 'x');
}

// Compiles for about a second with 20,000 tokens; another for each number.
std::string second_long(int number) {
  return "root ::= (((([a-z0-9]{1,300} \"x\"){1,300}) \"y\"){1,300} \"z\"){1,300} | \"n" +
         std::to_string(number) + "\"";
}

// However many bytes of grammars there were before.
TEST(GrammarCache, TheLatestGrammarsStayAfterManyOthers) {
  constexpr size_t kBytes = 20'000;
  GrammarCompiler compiler(vocabulary_of_size(8), {.cache_bytes = 10 * kBytes});
  for (int i = 0; i < 40; i++) ASSERT_TRUE(compiler.compile(grammar_of_size(kBytes, i)).ok());
  EXPECT_EQ(compiler.stats().compiled, 40u);
  for (const int again : {39, 38, 37}) ASSERT_TRUE(compiler.compile(grammar_of_size(kBytes, again)).ok());
  EXPECT_EQ(compiler.stats().compiled, 40u);
  EXPECT_EQ(compiler.stats().cached, 3u);
  ASSERT_TRUE(compiler.compile(grammar_of_size(kBytes, 0)).ok());
  EXPECT_EQ(compiler.stats().compiled, 41u) << "40 grammars are within the limit of 10";
}

TEST(GrammarCache, WhatIsUsedAgainStays) {
  GrammarCompiler compiler(vocabulary_of_size(8), {.cache_entries = 3});
  for (const int i : {0, 1, 2, 0, 3, 0, 4, 0, 5, 0})
    ASSERT_TRUE(compiler.compile(grammar_of_size(10, i)).ok());
  EXPECT_EQ(compiler.stats().compiled, 6u);
}

// The texts of these would all find room.
TEST(GrammarCache, TheMemoryOfACompiledGrammarCounts) {
  const auto grammar = [](int i) { return "root ::= [a-z0-9]{0,60} \"b\" # " + std::to_string(i); };
  GrammarCompiler compiler(vocabulary_of_size(8), {.cache_bytes = 1000});
  for (const int i : {0, 1, 2, 3, 0}) ASSERT_TRUE(compiler.compile(grammar(i)).ok());
  EXPECT_EQ(compiler.stats().compiled, 5u);
}

// Errors are kept, too.
TEST(GrammarCache, RefusedGrammarsAreBoundedAsWell) {
  GrammarCompiler compiler(vocabulary_of_size(8), {.cache_bytes = 100'000, .cache_entries = 1'000'000});
  const auto bad = [](int i) { return "root ::= missing # " + std::string(20'000, 'x') + std::to_string(i); };
  for (int i = 0; i < 20; i++) EXPECT_FALSE(compiler.compile(bad(i)).ok());
  EXPECT_FALSE(compiler.compile(bad(19)).ok());
  EXPECT_EQ(compiler.stats().compiled, 20u);
  EXPECT_FALSE(compiler.compile(bad(0)).ok());
  EXPECT_EQ(compiler.stats().compiled, 21u);
}

TEST(GrammarQueue, ManyClientsTogetherFillIt) {
  GrammarCompiler compiler(vocabulary_of_size(120'000),
                           {.waiting = 8, .waiting_of_client = 4, .seconds = 60, .first_seconds = 30});
  const auto waits = std::make_shared<int>();
  std::atomic<int> busy = 0;
  for (int i = 0; i < 20; i++)
    compiler.compile(second_long(i), {waits, "client " + std::to_string(i)},
                     [&](auto grammar) { busy += !grammar.ok() && grammar.error().kind == ErrorKind::busy; });
  EXPECT_EQ(busy, 12);
}

TEST(GrammarQueue, WhatLostItsClientIsNotBegun) {
  GrammarCompiler compiler(vocabulary_of_size(120'000), {.seconds = 60, .first_seconds = 30});
  auto waits = std::make_shared<int>();
  for (int i = 0; i < 2; i++) compiler.compile(second_long(i), {waits, ""}, [](auto) { FAIL(); });
  for (int i = 0; i < 20; i++) compiler.compile(grammar_of_size(10, i), {waits, ""}, [](auto) { FAIL(); });
  waits.reset();
  ASSERT_TRUE(compiler.compile(grammar_of_size(10, 99)).ok());  // of the same client: behind them all
  EXPECT_EQ(compiler.stats().compiled, 1u);
}

#if defined(__linux__)

std::set<int> thread_ids() {
  std::set<int> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    out.insert(std::stoi(entry.path().filename()));
  return out;
}

double seconds_of_thread(int id) {
  double nanoseconds = 0;
  std::ifstream("/proc/self/task/" + std::to_string(id) + "/schedstat") >> nanoseconds;
  return nanoseconds / 1e9;
}

double seconds_of_process() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

// The thread that stops grammars sleeps meanwhile, also beside one that was given up.
TEST(GrammarQueue, BesideACompilationNoOtherThreadIsBusy) {
  const std::set<int> before = thread_ids();
  GrammarCompiler compiler(vocabulary_of_size(120'000), {.seconds = 0.3 * kSlowdown});
  std::set<int> own = thread_ids();
  for (const int id : before) own.erase(id);
  ASSERT_FALSE(own.empty());
  const int watch = *own.rbegin();  // the last that it began
  const double start = seconds_of_process();
  EXPECT_FALSE(compiler.compile(second_long(1)).ok());
  int tries = 1;  // on a busy machine even a small one may come too late
  while (!compiler.compile(grammar_of_size(10, tries)).ok() && tries < 100) tries++;
  EXPECT_LT(tries, 100);
  const double all = seconds_of_process() - start;
  EXPECT_LT(seconds_of_thread(watch), std::max(0.05 * all, 0.01)) << all;
}

#endif

}  // namespace
}  // namespace anabranch
