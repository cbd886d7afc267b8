#pragma once
// Rows of a table of measured operators (operator_table.h), and the lines that they lie on.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/serve/operator_work.h"

namespace foretrace::serve {

// Rows that differ in one size alone, in its order.
enum class Along : uint8_t {
  kLine,    // between the nearest on either side
  kPowers,  // the same, by the logarithms of size and time
  kAlike,   // all do the same work: their median
};
struct OperatorLine {
  std::string key;
  double x = 0;
  Along along = Along::kLine;
};
// How experts are divided among devices, and tokens among experts.
struct Division {
  double devices = 1, widths = 1;
  std::string distribution;
};
struct OperatorRow {
  std::string precision;
  RealMs time;
  std::vector<OperatorLine> lines;
  bool first_line_counts = false;  // else the mean of all
  bool bends = false;  // times jump along its lines, between rows too, as tiles and tokens fill up
  std::string siblings;  // what rows of the same kernels and the same x share
  Division division;
  // Lines along its other sizes, for rows that lie on none of `lines` between others: along these
  // what times are relative to the work (operator_work.h) is interpolated.
  std::vector<OperatorLine> across;
  std::string kernels;  // rows that the same kernels compute, which share what they reach of rates
  OperatorWork work;
  OperatorSizes sizes;
  std::string family;  // rows that one model is learnt from (operator_model.h)
};
struct OperatorRows {
  std::string header;  // names of the columns, sorted
  std::vector<OperatorRow> rows;
};

// The first line of a table behind its provenance, which are lines that begin with #.
std::string_view HeaderLine(std::string_view text);
// Whether the header, which lines that begin with # may precede, is of such a table.
bool IsOperatorTable(std::string_view text);
// Errors name file and line.
absl::StatusOr<OperatorRows> ReadOperatorRows(const std::string& file, std::string_view text);

}  // namespace foretrace::serve
