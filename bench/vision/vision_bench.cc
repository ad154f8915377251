// How long a vision tower takes for a picture, and where the time goes.
//
//   vision_bench MODEL [SIDE=1024] [DEVICE=cpu] [THREADS=0] [precise]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "models/vision_tower.h"
#include "ops/open.h"
#include "ops/profile.h"

using namespace anabranch;
using Clock = std::chrono::steady_clock;

namespace {

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

int run(int argc, char** argv) {
  ops::DeviceOptions options;
  if (argc > 3) options.name = argv[3];
  if (argc > 4) options.threads = std::atoi(argv[4]);
  options.precise = argc > 5;
  const auto device = ops::open_device(options).value();
  const auto checkpoint = Checkpoint::open(argv[1]).value();
  const auto tower = VisionTower::load(*checkpoint, *device).value();
  const ImageProcessor processor = image_processor_of(*checkpoint).value();
  const int side = argc > 2 ? std::atoi(argv[2]) : 1024;
  Picture picture{side, side,
                  std::vector<uint8_t>(static_cast<size_t>(side) * static_cast<size_t>(side) * 3)};
  for (size_t i = 0; i < picture.rgb.size(); i++) picture.rgb[i] = static_cast<uint8_t>(i * 7 + i / 3000);
  const ProcessedImage image = process_image(picture, processor).value();
  for (int round = 0; round < 3; round++) {
    ops::set_profiling(*device, round > 0);
    const auto start = Clock::now();
    const auto encoding = tower->begin(image, processor);
    double longest = 0;
    int steps = 0;
    for (bool done = false; !done; steps++) {
      const auto begun = Clock::now();
      done = encoding->step(0);
      longest = std::max(longest, seconds_since(begun));
    }
    std::printf("%d patches, %d tokens: %.3f s in %d pieces, the longest %.1f ms\n",
                image.rows * image.columns, image.tokens, seconds_since(start), steps, 1e3 * longest);
  }
  for (const ProfileRow& row : device->profile().rows) std::printf("%-20s %.3f s\n", row.stage, row.seconds);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 2) return run(argc, argv);
  std::fprintf(stderr, "vision_bench MODEL [SIDE] [DEVICE] [THREADS] [precise]\n");
  return 2;
}
