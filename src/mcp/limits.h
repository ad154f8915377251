// How much a server of tools may take: everything whose size or duration a server chooses has a limit.
#pragma once

#include <cstddef>

namespace anabranch::mcp {

struct Limits {
  double start_seconds = 20;           // from starting a server to its answer to `initialize`
  double call_seconds = 60;            // one request; a server's own `timeout` goes first
  double close_seconds = 1;            // for a process to end by itself when its input is closed
  size_t output_bytes = 64 << 10;      // text of one result; more is cut
  size_t message_bytes = 4 << 20;      // one message; a longer one ends the connection
  int message_depth = 64;              // levels of JSON in one message
  size_t max_tools = 256;              // of one server; also of resources and of prompts
  size_t max_pages = 64;               // of one list
  size_t schema_bytes = 64 << 10;      // of one tool; a tool with a larger schema is left out
  int schema_depth = 32;               // likewise
  size_t description_bytes = 8 << 10;  // of one description; more is cut
  // Within ten seconds; a server that sends more has its connection ended.
  size_t flood_messages = 20'000;
  size_t flood_bytes = 256 << 20;
  double list_seconds = 60;  // how long a list of an HTTP server, which cannot tell of changes, is kept
};

}  // namespace anabranch::mcp
