#include "simulator/base/sha256.h"

#include <bit>
#include <cmath>
#include <string>
#include <vector>

namespace foretrace {
namespace {

using Words = std::array<uint32_t, 8>;

// The first 32 bits of the fractional part of `value`.
uint32_t Fraction(long double value) {
  return static_cast<uint32_t>((value - std::floor(value)) * 4294967296.0L);
}

// FIPS 180-4, 4.2.2 and 5.3.3: cube roots of the first 64 primes, square roots of the first 8.
struct Constants {
  std::array<uint32_t, 64> round;
  Words initial;

  Constants() {
    size_t count = 0;
    for (int n = 2; count < round.size(); ++n) {
      bool prime = true;
      for (int d = 2; d * d <= n; ++d) prime = prime && n % d != 0;
      if (!prime) continue;
      if (count < initial.size()) initial[count] = Fraction(std::sqrt(static_cast<long double>(n)));
      round[count++] = Fraction(std::cbrt(static_cast<long double>(n)));
    }
  }
};

void Compress(const Constants& constants, const uint8_t* block, Words& state) {
  std::array<uint32_t, 64> w;
  for (size_t t = 0; t < 16; ++t) {
    w[t] = uint32_t{block[4 * t]} << 24 | uint32_t{block[4 * t + 1]} << 16 |
           uint32_t{block[4 * t + 2]} << 8 | uint32_t{block[4 * t + 3]};
  }
  for (size_t t = 16; t < 64; ++t) {
    const uint32_t s0 = std::rotr(w[t - 15], 7) ^ std::rotr(w[t - 15], 18) ^ (w[t - 15] >> 3);
    const uint32_t s1 = std::rotr(w[t - 2], 17) ^ std::rotr(w[t - 2], 19) ^ (w[t - 2] >> 10);
    w[t] = w[t - 16] + s0 + w[t - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (size_t t = 0; t < 64; ++t) {
    const uint32_t t1 = h + (std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25)) +
                        ((e & f) ^ (~e & g)) + constants.round[t] + w[t];
    const uint32_t t2 =
        (std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const Words added = {a, b, c, d, e, f, g, h};
  for (size_t i = 0; i < state.size(); ++i) state[i] += added[i];
}

}  // namespace

std::array<uint8_t, 32> Sha256(std::string_view text) {
  static const Constants constants;
  std::string padded(text);
  padded += '\x80';
  while (padded.size() % 64 != 56) padded += '\0';
  const uint64_t bits = uint64_t{text.size()} * 8;
  for (int shift = 56; shift >= 0; shift -= 8) padded += static_cast<char>(bits >> shift);
  Words state = constants.initial;
  for (size_t at = 0; at < padded.size(); at += 64) {
    Compress(constants, reinterpret_cast<const uint8_t*>(padded.data()) + at, state);
  }
  std::array<uint8_t, 32> digest;
  for (size_t i = 0; i < digest.size(); ++i) {
    digest[i] = static_cast<uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
  }
  return digest;
}

}  // namespace foretrace
