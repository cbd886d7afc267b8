#include "simulator/plan/in_flight.h"

#include <algorithm>

#include "simulator/base/check.h"

namespace foretrace {

int64_t ComputeInFlight(StageConfig x, StageConfig y, int64_t in_flight_y) {
  const int64_t bx = x.micro_batch, by = y.micro_batch;
  const int64_t gx = bx * x.k, gy = by * y.k;  // samples in one group of k
  const int64_t larger = std::max(bx, by);
  // Rows in the order of the table.
  if (larger < gx && gx < gy) return in_flight_y + 2 * larger;
  if (larger == gx && gx < gy) return in_flight_y + larger;
  if (bx <= by && by < gy && gy < gx) return in_flight_y + gx - gy + 2 * by;
  if (bx <= by && by == gy && gy < gx) return in_flight_y + gx;
  if (by <= bx && bx < gy && gy < gx) return in_flight_y + gx - gy + 2 * bx;
  if (by <= bx && bx == gy && gy < gx) return in_flight_y + gx;
  if (larger == gy && gy == gx) return in_flight_y + gy;
  if (larger < gy && gy == gx) return in_flight_y + 2 * larger;
  if (gx < by) return in_flight_y + by;
  FORETRACE_CHECK(gy < bx);
  return in_flight_y + gx - gy + bx;
}

}  // namespace foretrace
