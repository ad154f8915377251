// A CUDA driver and a run-time compiler that do nothing: libcuda.so.1 and libnvrtc.so.13 as the program opens
// them where the tests of dispatch are linked with them. They take what the real ones take and note it.
#pragma once

#include <string>
#include <vector>

namespace anabranch {

struct FakeLaunch {
  std::string kernel;
  std::string source;  // the kernel's text, macros first
  unsigned grid = 0;   // blocks
  // The macro's value in the source.
  int macro(const std::string& name) const;
};

struct FakeCard {
  int capability = 90, multiprocessors = 132, shared_bytes = 232448;
  int clusters = 15;  // of 8 blocks, at a time
  std::vector<FakeLaunch> launches;
};
extern FakeCard fake_card;

}  // namespace anabranch
