#pragma once

#include <string_view>

namespace foretrace {

// Name of process groups whose ranks send to and receive from each other, as users declare them.
inline constexpr std::string_view kExchangeGroup = "exchange";

}  // namespace foretrace
