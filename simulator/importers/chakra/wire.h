#pragma once
// The protobuf wire format, read in place: one message at a time, no copies, no message objects.
// https://protobuf.dev/programming-guides/encoding
//
// Generated classes build a Node with its attributes on the heap, which costs several times what
// the importer needs in all; this reader hands out views instead.

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace foretrace::chakra {

static_assert(std::endian::native == std::endian::little, "fixed-width fields are little-endian");

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kLength = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // kVarint, kFixed64, kFixed32 (zero-extended)
  std::string_view bytes;  // kLength
};

class WireReader {
 public:
  explicit WireReader(std::string_view message)
      : begin_(reinterpret_cast<const uint8_t*>(message.data())),
        at_(begin_),
        end_(begin_ + message.size()) {}

  // False at the end and on a malformed message: then ok() is false. Tags and lengths are mostly of
  // one byte; everything else is left to the slow path.
  bool Next(WireField& field) {
    if (at_ == end_) return false;
    const uint8_t tag = *at_;
    if (tag < 8 || tag >= 0x80 || end_ - at_ < 2) return NextSlow(field);
    field.number = tag >> 3;
    field.type = static_cast<WireType>(tag & 7);
    const uint8_t next = at_[1];
    if (field.type == WireType::kVarint && next < 0x80) {
      field.value = next;
      at_ += 2;
      return true;
    }
    if (field.type != WireType::kLength || next >= 0x80 || next > end_ - at_ - 2) {
      return NextSlow(field);
    }
    field.bytes = {reinterpret_cast<const char*>(at_ + 2), next};
    at_ += 2 + next;
    return true;
  }

  bool ReadVarint(uint64_t& value) {
    if (at_ != end_ && *at_ < 0x80) {
      value = *at_++;
      return true;
    }
    return ReadLongVarint(value);
  }

  bool at_end() const { return at_ == end_; }
  bool ok() const { return ok_; }
  // Bytes read, or where reading failed.
  size_t position() const { return static_cast<size_t>(at_ - begin_); }

 private:
  [[gnu::noinline]] bool NextSlow(WireField& field) {
    uint64_t tag = 0;
    if (!ReadVarint(tag) || tag > UINT32_MAX || (tag >> 3) == 0) return Fail();
    field.number = static_cast<uint32_t>(tag >> 3);
    field.type = static_cast<WireType>(tag & 7);
    switch (field.type) {
      case WireType::kVarint:
        return ReadVarint(field.value) || Fail();
      case WireType::kFixed64:
        return ReadFixed(field.value, 8) || Fail();
      case WireType::kFixed32:
        return ReadFixed(field.value, 4) || Fail();
      case WireType::kLength: {
        uint64_t size = 0;
        if (!ReadVarint(size) || size > static_cast<uint64_t>(end_ - at_)) return Fail();
        field.bytes = {reinterpret_cast<const char*>(at_), static_cast<size_t>(size)};
        at_ += size;
        return true;
      }
    }
    return Fail();  // groups, and the two unassigned types
  }

  bool ReadLongVarint(uint64_t& value) {
    if (end_ - at_ >= 8) {
      // Up to eight bytes at once: the first without its highest bit is the last.
      uint64_t word = 0;
      std::memcpy(&word, at_, sizeof(word));
      const uint64_t last = ~word & 0x8080808080808080ull;
      if (last != 0) {
        const int bits = std::countr_zero(last) + 1;  // 8 to 64
        word &= ~uint64_t{0} >> (64 - bits);
        // Groups of seven bits move together, in pairs, then fours, then all eight.
        word = (word & 0x007f007f007f007full) | (word & 0x7f007f007f007f00ull) >> 1;
        word = (word & 0x00003fff00003fffull) | (word & 0x3fff00003fff0000ull) >> 2;
        value = (word & 0x0fffffffull) | (word & 0x0fffffff00000000ull) >> 4;
        at_ += bits / 8;
        return true;
      }
    }
    return ReadVarintByBytes(value);
  }

  [[gnu::noinline]] bool ReadVarintByBytes(uint64_t& value) {
    uint64_t result = 0;
    for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const uint8_t byte = *at_++;
      result |= static_cast<uint64_t>(byte & 0x7f) << (shift & 63);
      if (byte < 0x80) {
        // The tenth byte has one significant bit.
        if (shift == 63 && byte > 1) return false;
        value = result;
        return true;
      }
    }
    return false;
  }

  bool ReadFixed(uint64_t& value, size_t size) {
    if (static_cast<size_t>(end_ - at_) < size) return false;
    value = 0;
    std::memcpy(&value, at_, size);
    at_ += size;
    return true;
  }

  bool Fail() {
    ok_ = false;
    return false;
  }

  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  bool ok_ = true;
};

inline int64_t ZigZag(uint64_t v) { return static_cast<int64_t>((v >> 1) ^ (~(v & 1) + 1)); }

}  // namespace foretrace::chakra
