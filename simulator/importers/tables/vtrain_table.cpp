// vTrain's CSV of measured iterations.

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>

#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/tables/measured_iterations.h"

namespace foretrace {
namespace {

// In the order of the columns below.
enum Column {
  kGpus,
  kBatch,
  kMicro,
  kHidden,
  kHeads,
  kLayers,
  kSequence,
  kTensor,
  kData,
  kPipeline,
  kTime,
  kColumns
};
constexpr std::array<std::string_view, kColumns> kNames = {"# GPUs",
                                                           "global batch",
                                                           "micro batch",
                                                           "hidden size",
                                                           "attention heads",
                                                           "# layers",
                                                           "sequence length",
                                                           "tensor parallelism",
                                                           "data parallelism",
                                                           "pipeline parallelism",
                                                           "iteration time (ms)"};

using Fields = std::array<double, kColumns>;

// Where each column stands, and how many the first line has.
struct Header {
  std::array<size_t, kColumns> position{};
  size_t columns = 0;
};
absl::StatusOr<Header> FindColumns(const std::string& path, std::string_view line) {
  const std::vector<std::string> header = SplitCsvLine(line);
  Header found;
  found.columns = header.size();
  for (size_t c = 0; c < kColumns; ++c) {
    const auto it = std::find(header.begin(), header.end(), kNames[c]);
    if (it == header.end()) return InvalidInput("{}:1: column '{}' is missing", path, kNames[c]);
    found.position[c] = static_cast<size_t>(it - header.begin());
  }
  return found;
}

absl::StatusOr<Fields> ReadFields(const std::string& where, std::string_view line,
                                  const Header& header) {
  const std::vector<std::string> fields = SplitCsvLine(line);
  if (fields.size() > header.columns) {
    return InvalidInput("{}: {} values, but the header has {} columns", where, fields.size(),
                        header.columns);
  }
  Fields value{};
  for (size_t c = 0; c < kColumns; ++c) {
    const std::string_view f =
        header.position[c] < fields.size() ? std::string_view(fields[header.position[c]]) : "";
    const auto [end, error] = std::from_chars(f.data(), f.data() + f.size(), value[c]);
    const bool whole = c == kTime || value[c] == std::floor(value[c]);
    if (error != std::errc() || end != f.data() + f.size() || !(value[c] > 0) || value[c] > 1e9 ||
        !whole) {
      return InvalidInput("{}: '{}' must be a positive number, not '{}'", where, kNames[c], f);
    }
  }
  return value;
}

}  // namespace

absl::StatusOr<std::vector<MeasuredIteration>> internal::ReadVtrainTable(
    const std::string& path, const std::string& content) {
  const std::vector<std::string_view> lines = SplitLines(content);
  FORETRACE_ASSIGN_OR_RETURN(const Header header, FindColumns(path, lines[0]));
  std::vector<MeasuredIteration> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    if (lines[i].find_first_not_of(" \r") == std::string_view::npos) continue;
    MeasuredIteration row;
    row.where = fmt::format("{}:{}", path, i + 1);
    row.name = fmt::format("{}:{}", path.substr(path.rfind('/') + 1), i + 1);
    FORETRACE_ASSIGN_OR_RETURN(const Fields value, ReadFields(row.where, lines[i], header));
    const auto whole = [&](Column c) { return static_cast<int64_t>(value[c]); };
    row.gpus = whole(kGpus);
    row.hidden = whole(kHidden);
    row.heads = whole(kHeads);
    row.layers = whole(kLayers);
    row.sequence = whole(kSequence);
    row.tensor = whole(kTensor);
    row.data = whole(kData);
    row.pipeline = whole(kPipeline);
    row.micro_batch = whole(kMicro);
    row.global_batch = whole(kBatch);
    row.measured = SimTime::FromUs(value[kTime] * 1e3);
    rows.push_back(std::move(row));
  }
  return rows;
}

absl::StatusOr<std::vector<MeasuredIteration>> LoadMeasuredIterations(const std::string& path) {
  FORETRACE_ASSIGN_OR_RETURN(const std::string content, ReadTextFile(path, kMaxTableBytes));
  const size_t begin = content.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return InvalidInput("{}: the file is empty", path);
  FORETRACE_ASSIGN_OR_RETURN(std::vector<MeasuredIteration> rows,
                             content[begin] == '{' ? internal::ReadCalculonTable(path, content)
                                                   : internal::ReadVtrainTable(path, content));
  if (rows.empty()) return InvalidInput("{}: no rows", path);
  return rows;
}

}  // namespace foretrace
