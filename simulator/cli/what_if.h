#pragma once
// What-if questions on a captured trace.
//
//   --what-if SELECTOR:ACTION          may be repeated; edits apply in order
//   SELECTOR   comma-separated KEY=VALUE, all must hold; empty selects all device work
//     name=REGEX   kernel or operation name (ECMAScript, matched anywhere)
//     kind=KIND    kernel, memcpy, memset, collective, send, recv
//     rank=LIST    0,2 or 4-7
//     comm=REGEX   name of the communicator
//   ACTION
//     xF           F times as long             kind=collective:x0.5
//     =T           as long as T                name=gemm:=12us
//     +T           longer by T                 name=softmax:+3us
//     delay=T      the selected ranks start T later (a straggler from the start)
//   T is a number with us, ms or s.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/engine/compile.h"

namespace foretrace {

// Null for no edits. Errors: text that does not follow the grammar, or selects nothing in `store`.
absl::StatusOr<std::unique_ptr<DurationEdit>> ParseWhatIf(const std::vector<std::string>& texts,
                                                          const TraceStore& store);

}  // namespace foretrace
