#pragma once
// The points of a space, evaluated.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/dataflow/files.h"

namespace foretrace::dataflow {

struct Point {
  uint32_t workload = 0, variant = 0, chip = 0, topology = 0, memory = 0, link = 0;
};

// Those of the space that its parts allow with each other.
std::vector<Point> PointsOf(const Space& space);
System SystemOf(const Space& space, const Point& point);

struct PointResult {
  bool feasible = false;
  std::string why_not;
  RealNs iteration, pass;
  double utilisation = 0;
  // Over the partitions of a pass: what each is bound by gets its time where they overlap.
  RealNs compute, memory, network;
  int64_t tensor = 1, pipeline = 1, data = 1, partitions = 0;
  double micro_batch = 1;
  RealBytes dram_bytes;
};
// Errors are those of bad input; what does not fit is a result.
absl::StatusOr<PointResult> EvaluatePoint(const Space& space, const Point& point);

// FLOP/s of the whole system; 0 where the point does not fit.
double SpeedOf(const Space& space, const Point& point, const PointResult& result);

// What files do not state of the bills of these points, as "chip a100 (price_USD)"; each once.
std::vector<std::string> NotStatedIn(const Space& space, std::span<const Point> points);

// One line without an end, that gives the same bits when read.
std::string Encode(const PointResult& result);
bool Decode(std::string_view line, PointResult& result);

// Tables in the columns of the published ones, a line a point; where a system has several
// workloads, with a last column of their names.
std::string PointsCsv(const Space& space, std::span<const Point> points,
                      std::span<const PointResult> results);
std::string PointsJson(const Space& space, std::span<const Point> points,
                       std::span<const PointResult> results);
// Points that none beats in utilisation times peak (speed), price and power together. Of a workload
// in a variant, price or power counts where every point states one.
std::vector<size_t> ParetoFront(const Space& space, std::span<const Point> points,
                                std::span<const PointResult> results);
// Heat maps, breakdowns and Pareto fronts; one page without network.
std::string ExplorationPage(const Space& space, std::span<const Point> points,
                            std::span<const PointResult> results);

}  // namespace foretrace::dataflow
