#pragma once

namespace foretrace {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace foretrace
