#pragma once
// Assertions on foretrace's own invariants. They stay on in release builds. Bad input is never a
// broken invariant: report that as absl::Status.

#include <cstdio>
#include <cstdlib>

namespace foretrace::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "foretrace: internal error: %s:%d: broken invariant: %s\n", file, line,
               condition);
  std::abort();
}

}  // namespace foretrace::internal

#define FORETRACE_CHECK(condition)    \
  ((condition) ? static_cast<void>(0) \
               : ::foretrace::internal::CheckFailed(__FILE__, __LINE__, #condition))
