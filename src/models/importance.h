// Collects the statistics of checkpoint/importance.h while a model reads text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "checkpoint/importance.h"
#include "ops/input_observer.h"

namespace anabranch {

// While it exists, it is the input observer of the model's device.
class ImportanceCollector : public ops::InputObserver {
 public:
  explicit ImportanceCollector(Device& device) : device_(device) { device_.set_input_observer(this); }
  ~ImportanceCollector() override { device_.set_input_observer(nullptr); }
  ImportanceCollector(const ImportanceCollector&) = delete;
  ImportanceCollector& operator=(const ImportanceCollector&) = delete;

  void observe(const ops::Weight& weight, int expert, const float* rows, int64_t count) override;
  Importance importance() const;

 private:
  struct Sums {
    std::vector<double> squares;
    int64_t rows = 0;
  };
  Device& device_;
  std::map<std::string, std::vector<Sums>> sums_;  // by tensor, then expert
};

}  // namespace anabranch
