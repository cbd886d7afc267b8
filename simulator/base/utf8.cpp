#include "simulator/base/utf8.h"

#include <cstddef>
#include <cstdint>

namespace foretrace {
namespace {

// Length of the well-formed sequence at `at`, 0 when there is none.
size_t SequenceLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return 1;
  size_t length = 0;
  uint32_t code = 0, least = 0;
  if (lead >= 0xc2 && lead < 0xe0) {
    length = 2, code = lead & 0x1f, least = 0x80;
  } else if (lead >= 0xe0 && lead < 0xf0) {
    length = 3, code = lead & 0x0f, least = 0x800;
  } else if (lead >= 0xf0 && lead < 0xf5) {
    length = 4, code = lead & 0x07, least = 0x10000;
  }
  if (length == 0 || at + length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(at + i) & 0x3fu);
  }
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  return code < least || code > 0x10ffff || surrogate ? 0 : length;
}

}  // namespace

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t length = SequenceLength(text, at);
    if (length == 0) {
      valid += '?';
      ++at;
    } else {
      valid += text.substr(at, length);
      at += length;
    }
  }
  return valid;
}

std::string OneLine(std::string_view text) {
  const std::string valid = ValidUtf8(text);
  std::string line;
  for (size_t at = 0; at < valid.size(); ++at) {
    const auto byte = static_cast<uint8_t>(valid[at]);
    // C1, which terminals obey too: U+0080 to U+009F, of two bytes.
    const bool c1 = byte == 0xc2 && static_cast<uint8_t>(valid[at + 1]) < 0xa0;
    line += c1 || byte < 0x20 || byte == 0x7f ? '?' : valid[at];
    if (c1) ++at;
  }
  return line;
}

std::string Excerpt(std::string_view text, size_t bytes) { return OneLine(text.substr(0, bytes)); }

std::string_view WithoutByteOrderMark(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return text;
}

void RemoveByteOrderMark(std::string& text) {
  text.erase(0, text.size() - WithoutByteOrderMark(text).size());
}

}  // namespace foretrace
