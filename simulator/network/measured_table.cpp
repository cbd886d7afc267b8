#include "simulator/network/measured_table.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string_view>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace {
namespace {

// A nanosecond to a week and a half: beyond, a column was taken for another.
constexpr RealUs kLeast(1e-3);
constexpr RealUs kMost(1e12);

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

template <typename T>
bool Parse(std::string_view text, T& value) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec == std::errc() && result.ptr == text.data() + text.size();
}

class Reader {
 public:
  explicit Reader(const std::string& file) : file_(file) {}

  absl::StatusOr<std::vector<MeasuredCollective>> Read() {
    FORETRACE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(file_, kMaxTableBytes));
    for (const std::string_view line : SplitLines(text)) {
      ++line_;
      if (line.empty() || line[0] == '#') continue;
      FORETRACE_RETURN_IF_ERROR(columns_.empty() ? ReadHeader(line) : ReadRow(line));
    }
    if (columns_.empty()) return InvalidInput("{}: no header line", file_);
    // An operation that was measured both ways counts out of place.
    std::set<CollectiveOp> out_of_place;
    for (const MeasuredCollective& row : rows_) out_of_place.insert(row.op);
    for (const MeasuredCollective& row : in_place_) {
      if (!out_of_place.contains(row.op)) rows_.push_back(row);
    }
    if (rows_.empty()) return InvalidInput("{}: no rows of kind collective", file_);
    return rows_;
  }

 private:
  absl::Status ReadHeader(std::string_view line) {
    const auto names = Split(line, ',');
    for (size_t i = 0; i < names.size(); ++i) columns_[std::string(names[i])] = i;
    for (const char* needed : {"kind", "op", "shape", "time_us"}) {
      if (!columns_.contains(needed)) {
        return InvalidInput("{}:{}: no column '{}'; the schema is in calibration/README.md", file_,
                            line_, needed);
      }
    }
    return absl::OkStatus();
  }

  absl::Status ReadRow(std::string_view line) {
    const auto fields = Split(line, ',');
    if (fields.size() < columns_.size()) {
      return InvalidInput("{}:{}: {} fields, the header has {}", file_, line_, fields.size(),
                          columns_.size());
    }
    if (fields[columns_["kind"]] != "collective") return absl::OkStatus();
    MeasuredCollective row;
    row.op = ParseCollectiveOp(fields[columns_["op"]]);
    if (row.op == CollectiveOp::kUnknown) return absl::OkStatus();
    bool in_place = false;
    int64_t bytes = 0;
    double us = 0;
    if (const auto dtype = columns_.find("dtype"); dtype != columns_.end()) {
      row.dtype = ParseDType(fields[dtype->second]);
    }
    for (std::string_view pair : Split(fields[columns_["shape"]], ';')) {
      const size_t equals = pair.find('=');
      if (equals == std::string_view::npos) continue;
      const std::string_view key = pair.substr(0, equals);
      const std::string_view value = pair.substr(equals + 1);
      bool good = true;
      if (key == "bytes") good = Parse(value, bytes);
      if (key == "ranks") good = Parse(value, row.ranks);
      if (key == "nodes") good = Parse(value, row.nodes);
      if (key == "inplace") in_place = value == "1";
      if (key == "oneway") row.one_way = value == "1";
      if (!good) return InvalidInput("{}:{}: '{}' is not a number", file_, line_, pair);
    }
    const bool parsed = Parse(fields[columns_["time_us"]], us);
    row.time = RealUs(us);
    if (!parsed || !(row.time >= kLeast) || !(row.time <= kMost)) {
      return InvalidInput("{}:{}: time_us must be a number from 0.001 to 1e12", file_, line_);
    }
    row.bytes = Bytes(bytes);
    if (row.bytes <= Bytes() || row.ranks < 1 || row.nodes < 1 || row.ranks % row.nodes != 0) {
      return InvalidInput("{}:{}: needs bytes > 0, and ranks that divide over nodes", file_, line_);
    }
    if (row.one_way && (row.op != CollectiveOp::kSendRecv || row.ranks != 2)) {
      return InvalidInput("{}:{}: oneway=1 is for a send_recv of two ranks", file_, line_);
    }
    (in_place ? in_place_ : rows_).push_back(row);
    return absl::OkStatus();
  }

  std::string file_;
  int64_t line_ = 0;
  std::map<std::string, size_t, std::less<>> columns_;
  std::vector<MeasuredCollective> rows_;
  std::vector<MeasuredCollective> in_place_;
};

}  // namespace

absl::StatusOr<std::vector<MeasuredCollective>> ReadMeasuredCollectives(const std::string& file) {
  return Reader(file).Read();
}

}  // namespace foretrace
