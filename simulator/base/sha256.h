#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace foretrace {

// SHA-256 (FIPS 180-4), which browsers want of scripts that a page allows.
std::array<uint8_t, 32> Sha256(std::string_view text);

}  // namespace foretrace
