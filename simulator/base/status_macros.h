#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define FORETRACE_CONCAT_INNER(a, b) a##b
#define FORETRACE_CONCAT(a, b) FORETRACE_CONCAT_INNER(a, b)

// Returns the status from the enclosing function when it is an error.
#define FORETRACE_RETURN_IF_ERROR(expr)                      \
  do {                                                       \
    absl::Status status_macro_value = (expr);                \
    if (!status_macro_value.ok()) return status_macro_value; \
  } while (false)

// FORETRACE_ASSIGN_OR_RETURN(auto x, F()): x = *F(), or returns F's error.
#define FORETRACE_ASSIGN_OR_RETURN(lhs, expr) \
  FORETRACE_ASSIGN_OR_RETURN_IMPL(FORETRACE_CONCAT(status_or_, __LINE__), lhs, expr)
#define FORETRACE_ASSIGN_OR_RETURN_IMPL(var, lhs, expr) \
  auto var = (expr);                                    \
  if (!var.ok()) return var.status();                   \
  lhs = *std::move(var)
