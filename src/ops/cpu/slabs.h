// Huge pages for buffers that are smaller than one: states and blocks of keys and values are read once a
// token, and that takes a tenth longer where they lie in 4 KiB pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace anabranch::ops::cpu {

// A slab is a huge page cut into pieces of one size. It can go back to the system when none of its pieces is
// in use. One thread at a time.
class Slabs {
 public:
  static constexpr size_t kSlab = size_t{2} << 20;

  // Sizes of which a slab has from 2 to 32 pieces and wastes at most an eighth.
  static bool suits(size_t size);

  // A free piece of `size` bytes, or one of a new slab; 64-byte aligned, uninitialised. Null: no memory.
  void* take(size_t size);
  // What take(size) returned. Its slab is given back if nothing else of it is in use and idle_bytes() would
  // be more than `most`.
  void put(void* piece, size_t size, size_t most);
  // Gives back all slabs of which nothing is in use.
  void trim();

  // Of slabs of which nothing is in use. Free pieces beside one in use do not count: they cannot go back, and
  // slabs that can would go in their place.
  size_t idle_bytes() const { return idle_bytes_; }

 private:
  struct Slab {
    std::shared_ptr<void> memory;
    std::vector<void*> free;
  };
  struct Class {
    std::map<uintptr_t, Slab> slabs;  // by address
    std::set<uintptr_t> open;         // those with free pieces
  };
  bool add_slab(Class& of, size_t size);
  void give_back(Class& of, uintptr_t slab, size_t size);

  std::map<size_t, Class> classes_;  // by size
  size_t idle_bytes_ = 0;
};

}  // namespace anabranch::ops::cpu
