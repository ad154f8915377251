// Limits for servers of tools: everything whose size or duration a server chooses has one.
#pragma once

#include <cstddef>

namespace anabranch::mcp {

struct Limits {
  double start_seconds = 20;           // from starting a server to its answer to `initialize`
  double call_seconds = 60;            // for one request; a server's own `timeout` takes precedence
  double close_seconds = 1;            // time for a process to end by itself after its input is closed
  size_t output_bytes = 64 << 10;      // text of one result; longer text is cut
  size_t message_bytes = 4 << 20;      // one message; a longer one ends the connection
  int message_depth = 64;              // levels of JSON in one message
  size_t max_tools = 256;              // per server; also for resources and for prompts
  size_t max_pages = 64;               // per list
  size_t schema_bytes = 64 << 10;      // per tool; a tool with a larger schema is left out
  int schema_depth = 32;               // per tool; a tool with a deeper schema is left out
  size_t description_bytes = 8 << 10;  // per description; a longer one is cut
  // Within ten seconds; the connection to a server that sends more is closed.
  size_t flood_messages = 20'000;
  size_t flood_bytes = 256 << 20;
  double list_seconds =
      60;  // how long the list of an HTTP server is cached, because it may not report changes
};

}  // namespace anabranch::mcp
