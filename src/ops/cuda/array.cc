#include "ops/cuda/array.h"

#include <fmt/format.h>
#include <mlx/allocator.h>

#include <bit>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "base/check.h"
#include "ops/cpu/array.h"
#include "ops/cuda/driver.h"

namespace anabranch::ops::cuda {
namespace {

// How many handles an array has. MLX counts them (is_donatable()), but says no for memory that is not its own
// allocator's; an explicit instantiation may name the private member.
template <auto descriptor>
struct Handles {
  friend long handles_of(const mx::array& x) { return (x.*descriptor).use_count(); }
};
template struct Handles<&mx::array::array_desc_>;
long handles_of(const mx::array& x);

// Blocks of 2^n or 1.5 * 2^n bytes, kept when freed.
class Pool {
 public:
  Pool(void* (*get)(size_t), void (*give_back)(void*)) : get_(get), give_back_(give_back) {}

  static unsigned size_class(size_t bytes) {
    const auto log = static_cast<unsigned>(std::bit_width(std::max<size_t>(bytes, 512) - 1));
    return 2 * log - (bytes <= size_t{3} << (log - 2) ? 1 : 0);
  }
  static size_t size_of(unsigned size_class) {
    const unsigned log = (size_class + 1) / 2;
    return size_class % 2 == 1 ? size_t{3} << (log - 2) : size_t{1} << log;
  }

  void* take(unsigned size_class) {
    std::lock_guard lock(mutex_);
    auto& free = free_[size_class];
    if (!free.empty()) {
      void* p = free.back();
      free.pop_back();
      return p;
    }
    const size_t size = size_of(size_class);
    void* p = get_(size);
    if (!p) {
      give_back_free();
      p = get_(size);
    }
    if (!p) throw std::runtime_error(fmt::format("CUDA: no memory left on the device for {} MB", size >> 20));
    blocks_[p] = size;
    return p;
  }
  void put(void* p, unsigned size_class) {
    std::lock_guard lock(mutex_);
    free_[size_class].push_back(p);
  }
  // Whether p lies in one of the blocks.
  bool has(const void* p) {
    std::lock_guard lock(mutex_);
    auto it = blocks_.upper_bound(const_cast<void*>(p));
    if (it == blocks_.begin()) return false;
    --it;
    return static_cast<const char*>(p) < static_cast<const char*>(it->first) + it->second;
  }

 private:
  void give_back_free() {
    for (auto& free : free_) {
      for (void* block : free) {
        blocks_.erase(block);
        give_back_(block);
      }
      free.clear();
    }
  }
  void* (*get_)(size_t);
  void (*give_back_)(void*);
  std::mutex mutex_;
  std::vector<void*> free_[128];  // by size class
  std::map<void*, size_t> blocks_;
};

Pool& device_pool() {
  static auto* pool = new Pool(allocate, release);  // arrays may outlive statics
  return *pool;
}
Pool& pinned_pool() {
  static auto* pool = new Pool(allocate_pinned, release_pinned);
  return *pool;
}

// MLX's CPU allocator keeps a size before the data that a Buffer points to; its own ops ask for it. So arrays
// of the host begin `kHead` bytes into their block. Nothing asks for a device array's.
constexpr size_t kBefore = sizeof(size_t), kHead = 64;

template <Pool& pool(), size_t head>
mx::array wrap(size_t bytes, mx::Shape shape, mx::Dtype dtype) {
  const unsigned size_class = Pool::size_class(bytes + head);
  void* block = pool().take(size_class);
  constexpr auto back = static_cast<std::ptrdiff_t>(head) - static_cast<std::ptrdiff_t>(kBefore);
  mx::allocator::Data memory(
      mx::allocator::Buffer(static_cast<char*>(block) + back),
      [size_class](mx::allocator::Buffer b) { pool().put(static_cast<char*>(b.ptr()) - back, size_class); });
  mx::array x(std::move(memory), std::move(shape), dtype);
  CHECK(x.data<char>() == static_cast<char*>(block) + head,
        "MLX keeps arrays otherwise than this build knows");
  return x;
}

size_t bytes_of(const mx::Shape& shape, mx::Dtype dtype) {
  size_t n = dtype.size();
  for (const int d : shape) n *= static_cast<size_t>(d);
  return n;
}

// Host memory that copies read from after the call: a ring, waited for when it comes round.
class Staging {
 public:
  const void* put(const void* from, size_t bytes) {
    const size_t size = (bytes + 63) / 64 * 64;
    if (size > kBytes) return from;
    if (at_ + size > kBytes) {
      synchronize();
      at_ = 0;
    }
    void* to = memory_ + at_;
    at_ += size;
    std::memcpy(to, from, bytes);
    return to;
  }

 private:
  static constexpr size_t kBytes = 8 << 20;
  char* memory_ = static_cast<char*>(allocate_pinned(kBytes));
  size_t at_ = 0;
};

}  // namespace

mx::array make_padded(mx::Shape shape, mx::Dtype dtype, size_t bytes) {
  return wrap<device_pool, 0>(bytes, std::move(shape), dtype);
}
mx::array make_array(mx::Shape shape, mx::Dtype dtype) {
  const size_t bytes = bytes_of(shape, dtype);
  return make_padded(std::move(shape), dtype, bytes);
}
mx::array make_zeros(mx::Shape shape, mx::Dtype dtype) {
  mx::array x = make_array(std::move(shape), dtype);
  if (x.nbytes() > 0) clear(x.data<char>(), x.nbytes());
  return x;
}

bool on_device(const mx::array& x) {
  return x.status() == mx::array::Status::available && device_pool().has(x.data<char>());
}

void* address_of(const mx::array& x, const char* op) {
  // Of what MLX's allocator does not own, some is pinned memory of the host, which kernels can reach, too.
  if (x.status() != mx::array::Status::available || x.data_shared_ptr()->is_owned())
    throw std::invalid_argument(fmt::format("[{}] an operand is not on the device", op));
  if (!x.flags().row_contiguous)
    throw std::invalid_argument(fmt::format("[{}] an operand is not contiguous", op));
  return const_cast<char*>(x.data<char>());
}

bool is_unshared(const mx::array& x) {
  return handles_of(x) == 1 && x.data_shared_ptr().use_count() == 1;
}

mx::array copy(const mx::array& x, const char* op) {
  mx::array y = make_array(x.shape(), x.dtype());
  copy_on_device(y.data<char>(), address_of(x, op), x.nbytes());
  return y;
}

mx::array to_host(const mx::array& x) {
  if (!on_device(x)) return x;
  mx::array y = wrap<pinned_pool, kHead>(x.nbytes(), x.shape(), x.dtype());
  const size_t size = x.nbytes();
  std::memcpy(y.data<char>() - kBefore, &size, kBefore);
  copy_to_host(y.data<char>(), address_of(x, "to_host"), x.nbytes());
  return y;
}

mx::array to_device(const mx::array& x) {
  if (on_device(x)) return x;
  mx::array host = x;
  host.eval();
  if (!host.flags().row_contiguous) throw std::invalid_argument("[to_device] the array is not contiguous");
  mx::array y = make_array(x.shape(), x.dtype());
  if (x.nbytes() == 0) return y;
  copy_to_device(y.data<char>(), host.data<char>(), x.nbytes());
  synchronize();  // `host` may go
  return y;
}

std::shared_ptr<void> scratch(size_t bytes) {
  const unsigned size_class = Pool::size_class(bytes);
  return {device_pool().take(size_class), [size_class](void* p) { device_pool().put(p, size_class); }};
}

std::shared_ptr<void> upload(const void* from, size_t bytes) {
  static auto* staging = new Staging;
  auto to = scratch(bytes);
  const void* stable = staging->put(from, bytes);
  copy_to_device(to.get(), stable, bytes);
  if (stable == from) synchronize();
  return to;
}

}  // namespace anabranch::ops::cuda
