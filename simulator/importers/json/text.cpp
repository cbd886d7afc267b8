#include "simulator/importers/json/text.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace foretrace::json {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// mantissa * 10^exponent us; unset where it is out of range.
std::optional<Microseconds> InMicroseconds(unsigned __int128 mantissa, int exponent,
                                           bool negative) {
  exponent += 6;  // in picoseconds from here
  constexpr unsigned __int128 kLimit = static_cast<unsigned __int128>(INT64_MAX) * 1'000'000;
  for (; exponent > 0 && mantissa != 0; --exponent) {
    if (mantissa > kLimit / 10) return std::nullopt;
    mantissa *= 10;
  }
  for (; exponent < 0 && mantissa != 0; ++exponent) mantissa /= 10;
  if (mantissa > kLimit) return std::nullopt;
  Microseconds result;
  result.us = static_cast<int64_t>(mantissa / 1'000'000);
  result.ps = static_cast<int32_t>(mantissa % 1'000'000);
  if (negative) {
    result.us = -result.us;
    if (result.ps != 0) {
      --result.us;
      result.ps = 1'000'000 - result.ps;
    }
  }
  return result;
}

}  // namespace

std::optional<Microseconds> ParseMicroseconds(std::string_view text) {
  text = Trim(text);
  bool negative = false;
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) {
    negative = text.front() == '-';
    text.remove_prefix(1);
  }
  // Value = mantissa * 10^exponent; 36 digits fit in 128 bits, further ones are below 1 ps for any
  // time of day and are dropped.
  unsigned __int128 mantissa = 0;
  int exponent = 0;
  int digits = 0;
  bool any = false;
  bool fraction = false;
  size_t i = 0;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (IsDigit(c)) {
      any = true;
      if (digits < 36) {
        mantissa = mantissa * 10 + static_cast<unsigned>(c - '0');
        if (mantissa != 0) ++digits;
        if (fraction) --exponent;
      } else if (!fraction) {
        return std::nullopt;
      }
    } else if (c == '.' && !fraction) {
      fraction = true;
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  if (i < text.size()) {
    if (text[i] != 'e' && text[i] != 'E') return std::nullopt;
    std::string_view power = text.substr(i + 1);
    if (!power.empty() && power.front() == '+') power.remove_prefix(1);
    int value = 0;
    const auto [end, error] = std::from_chars(power.data(), power.data() + power.size(), value);
    if (error != std::errc() || end != power.data() + power.size()) return std::nullopt;
    if (value < -400 || value > 400) return std::nullopt;
    exponent += value;
  }
  return InMicroseconds(mantissa, exponent, negative);
}

std::optional<int64_t> ParseInteger(std::string_view text) {
  text = Trim(text);
  if (text.empty()) return std::nullopt;
  if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) {
    uint64_t value = 0;
    const auto [end, error] =
        std::from_chars(text.data() + 2, text.data() + text.size(), value, 16);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return static_cast<int64_t>(value);
  }
  if (text.front() == '-') {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc()) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty() &&
        (text.front() != '.' || text.find_first_not_of("0", 1) != std::string_view::npos)) {
      return std::nullopt;
    }
    return value;
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  if (!text.empty()) {
    if (text.front() != '.' || text.find_first_not_of("0", 1) != std::string_view::npos) {
      return std::nullopt;
    }
  }
  return static_cast<int64_t>(value);
}

std::optional<std::vector<int64_t>> ParseIntegerList(std::string_view text) {
  text = Trim(text);
  if (!text.empty() && text.front() == '[') text.remove_prefix(1);
  if (!text.empty() && text.back() == ']') text.remove_suffix(1);
  std::vector<int64_t> values;
  text = Trim(text);
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::optional<int64_t> value = ParseInteger(text.substr(0, comma));
    if (!value) return std::nullopt;
    values.push_back(*value);
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
  }
  return values;
}

bool IsValidUtf8(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    // Names are nearly always ASCII: eight characters at a time.
    for (uint64_t word = 0; text.size() - i >= sizeof(word); i += sizeof(word)) {
      std::memcpy(&word, text.data() + i, sizeof(word));
      if ((word & 0x8080808080808080ull) != 0) break;
    }
    if (i == text.size()) return true;
    const auto lead = static_cast<unsigned char>(text[i]);
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const int extra = lead >= 0xF0 && lead <= 0xF4  ? 3
                      : lead >= 0xE0 && lead < 0xF0 ? 2
                      : lead >= 0xC2 && lead < 0xE0 ? 1
                                                    : 0;
    if (extra == 0 || i + static_cast<size_t>(extra) >= text.size()) return false;
    uint32_t code = lead & (0x3Fu >> extra);
    for (int k = 1; k <= extra; ++k) {
      const auto next = static_cast<unsigned char>(text[i + static_cast<size_t>(k)]);
      if ((next & 0xC0) != 0x80) return false;
      code = (code << 6) | (next & 0x3Fu);
    }
    if ((extra == 2 && code < 0x800) || (extra == 3 && code < 0x10000) || code > 0x10FFFF ||
        (code >= 0xD800 && code < 0xE000)) {
      return false;
    }
    i += static_cast<size_t>(extra) + 1;
  }
  return true;
}

}  // namespace foretrace::json
