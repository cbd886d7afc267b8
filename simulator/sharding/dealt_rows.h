#pragma once
// Which part of a table's accesses falls on a block of its rows.

#include <array>
#include <cstdint>
#include <vector>

#include "simulator/cost/embedding/reuse_factors.h"

namespace foretrace {

// Rows are hashed, so that every block has its share of the many rows that are looked up seldom.
// The few of each reuse bin that are looked up often lie whole in one block or another, where a
// fixed hash of their number puts them: the block with the hottest rows has more to do, which no
// hash evens out. Of which rows they are the reuse factors say nothing; another hash would make
// another block the busiest.
class DealtRows {
 public:
  struct Part {
    double lookups = 0;      // share of the table's
    double unique_rows = 0;  // count
    ReuseFactors reuse;
  };

  // `table` tells tables apart, so that their hot rows do not all lie in the same block.
  DealtRows(const TableAccess& access, int64_t rows, uint64_t table);

  // Of rows [first, first + count).
  Part Of(int64_t first, int64_t count) const;

 private:
  struct Hot {
    double position = 0;  // in [0, 1) of the table
    int bin = 0;
  };
  std::vector<Hot> hot_;                           // ascending in position
  std::array<double, kReuseBins> spread_{};        // rows of each bin that lie evenly
  std::array<double, kReuseBins> share_of_row_{};  // of the lookups, by bin
  double rows_;
};

}  // namespace foretrace
