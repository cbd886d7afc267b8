#pragma once
// What ships with foretrace and can be named on a command line, as tables.

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "simulator/base/json_writer.h"
#include "simulator/report/text_table.h"

namespace foretrace {

using ListingCell =
    std::variant<std::monostate, std::string, double, int64_t, std::vector<std::string>>;

struct Listing {
  struct Column {
    std::string key;      // in JSON
    std::string heading;  // in text; empty: in JSON alone
    bool prose = false;   // in text below the table, whole
  };
  std::string kind;  // "platforms"
  std::vector<Column> columns;
  std::vector<std::vector<ListingCell>> rows;
  std::vector<std::string> folders;  // where was looked
};

// Names of what can be listed, in order.
std::vector<std::string> ListingKinds();
// Errors: no such kind; a file that cannot be read.
absl::StatusOr<Listing> ListOf(std::string_view kind);

std::string ListingText(const Listing& listing, const TextStyle& style);
std::string ListingJson(const Listing& listing);

}  // namespace foretrace
