#pragma once
// Times between the nearest rows on either side, along lines of rows that differ in one size alone.

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "simulator/serve/operator_rows.h"

namespace foretrace::serve {

// By size; milliseconds, or times relative to something.
using Points = std::map<double, double>;
using Lines = absl::flat_hash_map<std::string, Points>;

Lines LinesOf(const std::vector<OperatorRow>& rows);

// From the points of other sizes; nullopt: there are none, or none on one side.
std::optional<double> FromOthers(const Points& points, const OperatorLine& line);
// What was measured of the row's very shape.
std::optional<double> Measured(const OperatorRow& row, const Lines& lines);
// From the others on the lines that it lies on: the first that has any, or the mean of all.
std::optional<double> Between(const OperatorRow& row, const Lines& lines);

// How far rows are from what their lines say of them, by what they share: experts of one shape run
// the same kernels, whose tiles and choices change with the number of tokens, however they are
// divided. The nearer the division, the more alike: tokens of an expert double with the devices.
class Siblings {
 public:
  // Looks at the rows later, which must outlive it.
  Siblings(const std::vector<OperatorRow>& rows, const Lines& lines);
  // What a row's prediction is to be multiplied by: the median of its siblings on other lines, each
  // by its weight.
  double Correction(const OperatorRow& row) const;

 private:
  struct Miss {
    const OperatorRow* row = nullptr;
    double log = 0;
  };
  absl::flat_hash_map<std::string, std::vector<Miss>> misses_;
};

}  // namespace foretrace::serve
