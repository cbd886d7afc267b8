#include "simulator/base/string_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "simulator/base/check.h"

namespace foretrace {
namespace {

constexpr uint32_t kFree = StringId::kNone;
constexpr size_t kLeastSlots = 64;
constexpr size_t kFirstBlock = size_t{1} << 10;
constexpr size_t kLargestBlock = size_t{1} << 18;

uint64_t Load(const char* at, size_t count) {
  uint64_t word = 0;
  std::memcpy(&word, at, count);
  return word;
}

// The high and low half of a product, folded: every bit of both factors reaches every bit.
uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint32_t Hash(std::string_view text) {
  constexpr uint64_t kOdd[] = {0x9E3779B97F4A7C15ull, 0xD6E8FEB86659FD93ull, 0xA0761D6478BD642Full};
  const char* at = text.data();
  size_t left = text.size();
  uint64_t hash = kOdd[2] ^ left;
  for (; left > 16; at += 16, left -= 16) {
    hash = Mix(Load(at, 8) ^ kOdd[0] ^ hash, Load(at + 8, 8) ^ kOdd[1]);
  }
  uint64_t head = 0;
  uint64_t tail = 0;
  if (left >= 8) {
    head = Load(at, 8);
    tail = Load(at + left - 8, 8);
  } else if (left >= 4) {
    head = Load(at, 4);
    tail = Load(at + left - 4, 4);
  } else if (left > 0) {
    head = static_cast<unsigned char>(at[0]);
    tail = static_cast<uint64_t>(static_cast<unsigned char>(at[left / 2])) << 8 |
           static_cast<unsigned char>(at[left - 1]);
  }
  hash = Mix(head ^ kOdd[0] ^ hash, tail ^ kOdd[1]);
  return static_cast<uint32_t>(hash ^ hash >> 32);
}

}  // namespace

const char* StringPool::Keep(std::string_view text) {
  if (text.empty()) return "";
  if (text.size() > free_bytes_) {
    const size_t usual =
        std::clamp(blocks_.empty() ? kFirstBlock : block_bytes_, kFirstBlock, kLargestBlock);
    const size_t bytes = std::max(text.size(), usual);
    free_ = blocks_.emplace_back(new char[bytes]).get();
    free_bytes_ = bytes;
    block_bytes_ += bytes;
  }
  char* const kept = free_;
  std::memcpy(kept, text.data(), text.size());
  free_ += text.size();
  free_bytes_ -= text.size();
  return kept;
}

size_t StringPool::SlotOf(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  while (slots_[slot] != kFree) {
    const Entry& entry = entries_[slots_[slot]];
    if (entry.hash == hash && entry.size == text.size() &&
        std::string_view(entry.text, entry.size) == text) {
      break;
    }
    slot = (slot + 1) & mask;
  }
  return slot;
}

void StringPool::Rehash(size_t slots) {
  slots_.assign(std::max(slots, kLeastSlots), kFree);
  const size_t mask = slots_.size() - 1;
  for (uint32_t id = 0; id < entries_.size(); ++id) {
    size_t slot = entries_[id].hash & mask;
    while (slots_[slot] != kFree) slot = (slot + 1) & mask;
    slots_[slot] = id;
  }
}

StringId StringPool::InternHashed(std::string_view text, uint32_t hash) {
  FORETRACE_CHECK(text.size() <= UINT32_MAX);
  // At least a third of the slots stays free.
  if (entries_.size() * 3 / 2 >= slots_.size()) Rehash(std::bit_ceil(entries_.size() * 2 + 1));
  const size_t slot = SlotOf(text, hash);
  if (slots_[slot] != kFree) return StringId(slots_[slot]);
  const auto id = static_cast<uint32_t>(entries_.size());
  FORETRACE_CHECK(id != kFree);
  entries_.push_back({Keep(text), static_cast<uint32_t>(text.size()), hash});
  slots_[slot] = id;
  return StringId(id);
}

StringId StringPool::Intern(std::string_view text) { return InternHashed(text, Hash(text)); }

std::vector<StringId> StringPool::InternAll(const StringPool& other) {
  std::vector<StringId> ids;
  ids.reserve(other.entries_.size());
  for (const Entry& entry : other.entries_) {
    ids.push_back(InternHashed({entry.text, entry.size}, entry.hash));
  }
  return ids;
}

StringId StringPool::Find(std::string_view text) const {
  const uint32_t hash = Hash(text);
  if (!slots_.empty()) {
    const uint32_t id = slots_[SlotOf(text, hash)];
    return id == kFree ? StringId() : StringId(id);
  }
  for (uint32_t id = 0; id < entries_.size(); ++id) {
    if (entries_[id].hash == hash && Get(StringId(id)) == text) return StringId(id);
  }
  return StringId();
}

std::string_view StringPool::Get(StringId id) const {
  FORETRACE_CHECK(id.value < entries_.size());
  return {entries_[id.value].text, entries_[id.value].size};
}

void StringPool::ReleaseSlack() {
  std::vector<uint32_t>().swap(slots_);
  entries_.shrink_to_fit();
}

size_t StringPool::bytes() const {
  return block_bytes_ + entries_.capacity() * sizeof(Entry) + slots_.capacity() * sizeof(uint32_t);
}

}  // namespace foretrace
