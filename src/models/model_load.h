// Options of Model::load().
#pragma once

#include <functional>
#include <vector>

#include "base/result.h"

namespace anabranch {

class Model;

struct ModelLoadOptions {
  // Token ids, ascending, from which drafts are chosen (see OutputHead::set_draft_vocab). Null or empty:
  // drafts use the whole head. Called once the other weights are loaded.
  std::function<std::vector<int>()> draft_vocab;
  std::function<Result<void>(int done, int total)> progress;  // per layer; an error ends the loading
  // Called as soon as there is a layer of each kind, with a partial model of the layers loaded so far. It
  // only serves to find out which kernels the whole model will need: its head is the embedding. Not called
  // for models of few layers.
  std::function<void(const Model& begun)> begun;
  bool split = true;  // split layers among the device's group, if it is in one
};

}  // namespace anabranch
