#pragma once
// Decisions read out of bytes, so that whoever changes a byte changes one decision; past the end of
// the bytes every decision is 0.

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace foretrace {

class Drawn {
 public:
  explicit Drawn(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return at_ >= bytes_.size(); }
  // In [0, n), n up to 65,536.
  uint32_t Below(uint32_t n) {
    if (n <= 1) return 0;
    uint32_t value = Byte();
    if (n > 256) value = value << 8 | Byte();
    return value % n;
  }
  bool OneIn(uint32_t n) { return Below(n) == 1; }
  std::string_view Rest() const { return done() ? std::string_view() : bytes_.substr(at_); }

 private:
  uint32_t Byte() { return done() ? 0 : static_cast<uint8_t>(bytes_[at_++]); }

  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace foretrace
