#include "ops/cpu/slabs.h"

#include <new>
#include <utility>

#include "ops/cpu/device.h"

namespace anabranch::ops::cpu {
namespace {

size_t pieces_of(size_t size) {
  return Slabs::kSlab / size;
}

}  // namespace

bool Slabs::suits(size_t size) {
  return size % 64 == 0 && size >= kSlab / 32 && size <= kSlab / 2 && kSlab % size <= kSlab / 8;
}

// Take from the slab with the lowest address that has room, so that other slabs become empty.
void* Slabs::take(size_t size) {
  Class& of = classes_[size];
  if (of.open.empty() && !add_slab(of, size)) return nullptr;
  const uintptr_t address = *of.open.begin();
  Slab& slab = of.slabs.at(address);
  if (slab.free.size() == pieces_of(size)) idle_bytes_ -= pieces_of(size) * size;
  void* piece = slab.free.back();
  slab.free.pop_back();
  if (slab.free.empty()) of.open.erase(address);
  return piece;
}

bool Slabs::add_slab(Class& of, size_t size) {
  Slab slab;
  try {
    slab.memory = allocate_huge(kSlab);
  } catch (const std::bad_alloc&) {
    return false;
  }
  char* base = static_cast<char*>(slab.memory.get());
  for (size_t i = pieces_of(size); i-- > 0;) slab.free.push_back(base + i * size);
  const auto address = reinterpret_cast<uintptr_t>(base);
  of.slabs.emplace(address, std::move(slab));
  of.open.insert(address);
  idle_bytes_ += pieces_of(size) * size;
  return true;
}

void Slabs::put(void* piece, size_t size, size_t most) {
  Class& of = classes_.at(size);
  const uintptr_t address = reinterpret_cast<uintptr_t>(piece) / kSlab * kSlab;
  Slab& slab = of.slabs.at(address);
  slab.free.push_back(piece);
  of.open.insert(address);
  if (slab.free.size() < pieces_of(size)) return;
  idle_bytes_ += pieces_of(size) * size;
  if (idle_bytes_ > most) give_back(of, address, size);
}

void Slabs::trim() {
  for (auto& [size, of] : classes_) {
    const std::set<uintptr_t> open = of.open;
    for (const uintptr_t address : open)
      if (of.slabs.at(address).free.size() == pieces_of(size)) give_back(of, address, size);
  }
}

void Slabs::give_back(Class& of, uintptr_t slab, size_t size) {
  idle_bytes_ -= pieces_of(size) * size;
  of.open.erase(slab);
  of.slabs.erase(slab);
}

}  // namespace anabranch::ops::cpu
