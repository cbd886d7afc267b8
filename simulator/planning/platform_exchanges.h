#pragma once
// A platform's network as the iteration model asks for it: the closed forms of `--network fitted`,
// where its NICs are shared evenly by the devices of a node.

#include <memory>

#include "absl/status/statusor.h"
#include "simulator/mapping/exchange_times.h"
#include "simulator/topology/platform.h"

namespace foretrace {

// Groups beyond the platform's devices find further nodes like its own. Errors: a platform of which
// no topology can be built.
absl::StatusOr<std::shared_ptr<const ExchangeTimes>> ExchangesOf(const PlatformSpec& platform);

}  // namespace foretrace
