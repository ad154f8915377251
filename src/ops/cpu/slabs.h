// Huge pages for buffers that are smaller than one. Recurrent states and KV blocks are read once per token,
// and that takes a tenth longer from 4 KiB pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace anabranch::ops::cpu {

// A slab is a huge page cut into pieces of one size. It can be returned to the system when none of its pieces
// is in use. One thread at a time.
class Slabs {
 public:
  static constexpr size_t kSlab = size_t{2} << 20;

  // Sizes of which 2 to 32 pieces fit in a slab with at most an eighth wasted.
  static bool suits(size_t size);

  // A free piece of `size` bytes, or one from a new slab; 64-byte aligned, uninitialised. Null: no memory.
  void* take(size_t size);
  // Returns a piece from take(size). If no other piece of its slab is in use and idle_bytes() would exceed
  // `most`, the slab is returned to the system.
  void put(void* piece, size_t size, size_t most);
  // Returns all slabs with no piece in use to the system.
  void trim();

  // Bytes of slabs with no piece in use. Free pieces in other slabs do not count: they cannot be returned,
  // and counting them would force idle slabs out instead.
  size_t idle_bytes() const { return idle_bytes_; }

 private:
  struct Slab {
    std::shared_ptr<void> memory;
    std::vector<void*> free;
  };
  struct Class {
    std::map<uintptr_t, Slab> slabs;  // by address
    std::set<uintptr_t> open;         // addresses of the slabs with free pieces
  };
  bool add_slab(Class& of, size_t size);
  void give_back(Class& of, uintptr_t slab, size_t size);

  std::map<size_t, Class> classes_;  // by size
  size_t idle_bytes_ = 0;
};

}  // namespace anabranch::ops::cpu
