#include "ops/cuda/collective.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels/args.h"
#include "ops/cuda/linear.h"
#include "ops/meeting.h"

namespace anabranch::ops::cuda {
namespace {

static_assert(kMostExchangeRanks == kMostRanks);
constexpr size_t kSlots = 8, kLeastSlot = 1 << 20, kPiece = 16;
constexpr size_t kFewBytes = 512 << 10;  // most bytes of a slot that exchange_few handles
constexpr size_t kLine = 16, kLeastLineBytes = 2 * kFewBytes;  // per slot, for all lines

// Memory that other ranks write to.
struct Arena {
  Arena(CudaDevice& device, size_t bytes) : context(device.context()) {
    address = static_cast<char*>(context.allocate(bytes));
    if (!address) {
      device.trim();  // returns free blocks of its pool
      address = static_cast<char*>(context.allocate(bytes));
    }
    if (!address) throw std::runtime_error(fmt::format("CUDA: no memory for {} bytes of exchanges", bytes));
  }
  ~Arena() { context.release(address); }
  Context& context;
  char* address;
};

class SlotStorage final : public Storage {
 public:
  SlotStorage(Device& device, std::shared_ptr<Arena> arena, char* address, size_t bytes)
      : Storage(device, address, bytes), arena_(std::move(arena)) {}

 private:
  std::shared_ptr<Arena> arena_;
};

// The addresses that a rank shares with the others.
struct Shown {
  char* arena = nullptr;
  unsigned* flags = nullptr;
};

class CudaCollective final : public Collective {
 public:
  CudaCollective(CudaDevice& device, std::shared_ptr<Meeting> meeting, std::shared_ptr<Block> failed,
                 int rank, int ranks)
      : Collective(rank, ranks), device_(device), meeting_(std::move(meeting)), failed_(std::move(failed)) {
    words_ = device.zeros({kMostRanks + 1}, Dtype::i32);
    device.synchronize();
    flags_[static_cast<size_t>(rank)] = device.data<unsigned>(words_, "exchange");
  }

  MatmulInput gather_inputs(const MatmulInput& own, const Split& columns) override {
    if (!own.packed) return gather_columns(own.values, columns, nullptr);
    const int all = columns.all(), first = columns.first(rank()) / kTileInputs;
    CHECK(own.inputs == columns.size(rank()) && all % kTileInputs == 0 && own.inputs % kTileInputs == 0,
          "rank {} has {} of {} packed columns", rank(), own.inputs, all);
    const int tile = own.values.shape(1), pieces = tile / static_cast<int>(kPiece);
    ExchangeArgs args = args_of(own.values, tile * own.values.shape(0));
    args.first_piece = first * pieces;
    args.all_pieces = all / kTileInputs * pieces;
    const Tensor out = exchange(args, {all / kTileInputs, tile}, Dtype::u8);
    return {out, own.rows, all};
  }

  Tensor gather_columns(const Tensor& own, const Split& columns, const Tensor* residual) override {
    constexpr int kFloats = 4;
    const int rows = own.shape(0), count = columns.size(rank()), all = columns.all();
    CHECK(own.shape(1) == count && count % kFloats == 0 && all % kFloats == 0 &&
              columns.first(rank()) % kFloats == 0,
          "rank {} has {} of {} columns", rank(), own.shape(1), all);
    ExchangeArgs args = args_of(own, count * kFloats);
    args.rows = args.all_rows = rows;
    args.all_pieces = all / kFloats;
    args.first_piece = columns.first(rank()) / kFloats;
    if (residual) args.residual = device_.data<void>(*residual, "exchange");
    return exchange(args, {rows, all}, Dtype::f32);
  }

  Tensor broadcast(const Tensor* x, int root, const Shape& shape) override {
    CHECK((x != nullptr) == (root == rank()), "rank {} of a broadcast by rank {}", rank(), root);
    ExchangeArgs args{};
    if (x) args = args_of(*x, static_cast<int>(x->nbytes()));
    args.all_rows = 1;
    args.all_pieces = static_cast<int>(static_cast<size_t>(shape.count()) * sizeof(float) / kPiece);
    // In a small broadcast the root waits for nobody, so now and then all ranks wait: the root must not run
    // far ahead.
    const bool all_wait = !device_.noting() && broadcasts_++ % (kSlots / 2) == 0;
    return exchange(args, shape, Dtype::f32, all_wait);
  }

  // Each rank must have the same share of the inputs, and segments must consist of whole tiles.
  bool splits_inputs(const Split& columns) const override {
    const int all = columns.all();
    if (kSegments % ranks() != 0 || all % (kSegments * kTileInputs) != 0) return false;
    for (int r = 0; r < ranks(); r++)
      if (columns.first(r) != all / ranks() * r) return false;
    return true;
  }

  Tensor multiply_own_inputs(const MatmulInput& own, const Weight& weight, const Tensor* residual) override {
    const int rows = own.rows, outputs = static_cast<int>(weight.out_features());
    CHECK(rows > 0 && rows <= kFewRows && own.inputs == weight.in_features(), "rank {} has {} rows of {}",
          rank(), rows, own.inputs);
    SegmentArgs segments{};
    segments.ranks = ranks();
    if (!device_.noting()) {
      const size_t of_row = static_cast<size_t>(std::max(kSegments / 2 / ranks(), 1) * outputs) * kLine,
                   each = of_row * static_cast<size_t>(rows),
                   most = of_row * static_cast<size_t>(kFewRows * ranks());
      if (most > line_bytes_) grow(slot_bytes_, most);
      const size_t slot = next_slot(), self = static_cast<size_t>(rank());
      segments.epoch = ++epoch_;
      segments.failed = failed_->address<unsigned>();
      segments.from = lines_of(self, slot);
      for (size_t r = 0; r < static_cast<size_t>(ranks()); r++)
        segments.to[r] = lines_of(r, slot) + each * self;
    }
    return cuda::multiply_own_inputs(own, weight, residual, segments);
  }

  bool alone() const override { return device_.noting() || device_.alone(); }

  void abort() override {
    if (device_.noting()) return;  // nothing runs, so nobody waits
    meeting_->abort();
    failed().store(1, std::memory_order_relaxed);
  }

 private:
  // Set by any rank's thread; read by the host and by kernels that wait.
  std::atomic_ref<unsigned> failed() const { return std::atomic_ref(*failed_->address<unsigned>()); }
  // Arguments for a tensor that is this rank's whole part, treated as one long row.
  ExchangeArgs args_of(const Tensor& own, int row_bytes) const {
    CHECK(row_bytes % static_cast<int>(kPiece) == 0, "rows of {} bytes", row_bytes);
    ExchangeArgs args{};
    args.from = device_.data<void>(own, "exchange");
    args.rows = args.all_rows = 1;
    args.row_pieces = args.all_pieces = row_bytes / static_cast<int>(kPiece);
    return args;
  }

  // all_wait: each rank waits for all others, even a rank that receives nothing.
  Tensor exchange(ExchangeArgs args, const Shape& shape, Dtype dtype, bool all_wait = false) {
    if (device_.noting()) {  // nothing runs, nobody waits, and a failed pass changes nothing
      for (const char* kernel : {"exchange", "exchange_few"}) device_.note(Source::exchange, kernel);
      return device_.empty(shape, dtype);
    }
    const size_t bytes = static_cast<size_t>(shape.count()) * bytes_of(dtype);
    if (bytes > slot_bytes_) grow(bytes, line_bytes_);
    const size_t slot = next_slot();
    slots_[slot] =
        std::make_shared<SlotStorage>(device_, arena_, arena_->address + slot * slot_bytes_, slot_bytes_);
    launch(args, slot, all_wait);
    return {slots_[slot], shape, dtype};
  }

  size_t next_slot() {
    if (failed().load(std::memory_order_relaxed) != 0)
      throw std::runtime_error("another device of the group has failed");
    const size_t slot = next_++ % kSlots;
    // Kernels launched from here on do not read the next two slots.
    for (const size_t later : {next_ % kSlots, (next_ + 1) % kSlots})
      CHECK(!slots_[later] || slots_[later].use_count() == 1, "the result of an exchange is kept too long");
    return slot;
  }
  // The lines of one rank and slot.
  char* lines_of(size_t rank, size_t slot) const {
    return arenas_[rank] + kSlots * slot_bytes_ + slot * line_bytes_;
  }

  void launch(ExchangeArgs args, size_t slot, bool all_wait) {
    args.rank = rank();
    args.ranks = ranks();
    args.epoch = ++epoch_;
    const size_t pieces = static_cast<size_t>(args.all_rows) * static_cast<size_t>(args.all_pieces);
    const bool few = pieces * kPiece <= kFewBytes && !all_wait;
    for (size_t r = 0; r < static_cast<size_t>(ranks()); r++) {
      args.to[r] = arenas_[r] + slot * slot_bytes_;
      if (few) args.lines[r] = lines_of(r, slot);
      args.flags[r] = flags_[r];
    }
    args.counter = flags_[static_cast<size_t>(rank())] + kMostRanks;
    args.failed = failed_->address<unsigned>();
    const unsigned threads = few ? 256 : 512, most = static_cast<unsigned>(device_.info().multiprocessors),
                   blocks = std::clamp((static_cast<unsigned>(pieces) + threads - 1) / threads, 1u, most);
    device_.launch(Source::exchange, few ? "exchange_few" : "exchange", {blocks}, threads, 0, &args);
  }

  // Enlarges the slots on every rank: all ranks call this in the same exchange.
  void grow(size_t bytes, size_t line_bytes) {
    size_t enough = kLeastSlot;
    while (enough < bytes) enough += enough / 2;
    if (bytes > slot_bytes_) slot_bytes_ = (enough + 1023) / 1024 * 1024;
    line_bytes_ = std::max(kLeastLineBytes, (line_bytes + 1023) / 1024 * 1024);
    device_.synchronize();  // waits for the others' last writes, for which this device's last exchange waited
    for (auto& slot : slots_) slot.reset();
    const size_t lines = kSlots * line_bytes_;
    arena_ = std::make_shared<Arena>(device_, kSlots * slot_bytes_ + lines);
    // Marks the lines as belonging to no exchange.
    device_.context().clear(arena_->address + kSlots * slot_bytes_, lines);
    device_.synchronize();
    const Shown shown{arena_->address, flags_[static_cast<size_t>(rank())]};
    meeting_->show(rank(), &shown);
    for (int r = 0; r < ranks(); r++) {
      arenas_[static_cast<size_t>(r)] = meeting_->of<Shown>(r).arena;
      flags_[static_cast<size_t>(r)] = meeting_->of<Shown>(r).flags;
    }
    meeting_->wait();
  }

  CudaDevice& device_;
  std::shared_ptr<Meeting> meeting_;
  std::shared_ptr<Block>
      failed_;    // a word in host memory that every device reads: set when a rank has failed
  Tensor words_;  // one flag per rank, and a counter of blocks
  std::shared_ptr<Arena> arena_;
  std::array<std::shared_ptr<Storage>, kSlots> slots_;
  std::array<char*, kMostRanks> arenas_ = {};
  std::array<unsigned*, kMostRanks> flags_ = {};
  size_t slot_bytes_ = 0, line_bytes_ = 0, next_ = 0, broadcasts_ = 0;
  unsigned epoch_ = 0;
};

}  // namespace

Result<std::vector<std::shared_ptr<Collective>>> make_collectives(std::span<Device* const> devices) {
  for (Device* from : devices) {
    for (Device* to : devices) {
      if (from == to || cuda_device(*from).context().reach(cuda_device(*to).context())) continue;
      return make_error(
          ErrorKind::unsupported,
          "{} (device {}) cannot reach the memory of device {}: a model cannot be split between "
          "them; name other devices in --devices",
          from->name(), cuda_device(*from).info().index, cuda_device(*to).info().index);
    }
  }
  const int ranks = static_cast<int>(devices.size());
  const auto meeting = std::make_shared<Meeting>(ranks);
  // The first device outlives the others.
  const auto failed = std::make_shared<Block>(cuda_device(*devices.front()).pinned(sizeof(unsigned)));
  *failed->address<unsigned>() = 0;
  std::vector<std::shared_ptr<Collective>> out;
  for (int r = 0; r < ranks; r++)
    out.push_back(std::make_shared<CudaCollective>(cuda_device(*devices[static_cast<size_t>(r)]), meeting,
                                                   failed, r, ranks));
  return out;
}

}  // namespace anabranch::ops::cuda
