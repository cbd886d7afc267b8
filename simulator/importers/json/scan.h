#pragma once
// Where a token of JSON text ends, sixteen characters at a time; a detail of reader.cpp.

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>
#include <cstddef>

namespace foretrace::json {

// Position of the first quote, backslash or control character in [at, end), else end.
inline size_t FindStringStop(const char* data, size_t at, size_t end) {
#if defined(__SSE2__)
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i space = _mm_set1_epi8(0x1F);
  while (at + 16 <= end) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + at));
    const __m128i control = _mm_cmpeq_epi8(_mm_max_epu8(bytes, space), space);
    const __m128i stop = _mm_or_si128(
        _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)), control);
    const auto mask = static_cast<unsigned>(_mm_movemask_epi8(stop));
    if (mask != 0) return at + static_cast<size_t>(std::countr_zero(mask));
    at += 16;
  }
#endif
  for (; at < end; ++at) {
    const char c = data[at];
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) return at;
  }
  return end;
}

inline bool IsSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

// Position of the first character in [at, end) that is no white space, else end.
inline size_t FindNonSpace(const char* data, size_t at, size_t end) {
  // Mostly there is none or one; more is the indentation of a line.
  for (size_t few = std::min(end, at + 2); at < few; ++at) {
    if (!IsSpace(data[at])) return at;
  }
#if defined(__SSE2__)
  const __m128i space = _mm_set1_epi8(' ');
  while (at + 16 <= end) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(data + at));
    const auto blanks = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, space)));
    if (blanks != 0xFFFF) {
      at += static_cast<size_t>(std::countr_one(blanks));
      break;
    }
    at += 16;
  }
#endif
  while (at < end && IsSpace(data[at])) ++at;
  return at;
}

inline bool IsLiteralChar(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '-' || c == '+';
}

}  // namespace foretrace::json
