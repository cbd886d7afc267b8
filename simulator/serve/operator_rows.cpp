#include "simulator/serve/operator_rows.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/strings/numbers.h"
#include "simulator/base/csv.h"
#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"

namespace foretrace::serve {
namespace {

constexpr std::string_view kTime = "latency_ms";
constexpr double kMaxMs = 1e9, kMostSize = 1e9;

class Header {
 public:
  explicit Header(std::string_view line) : names_(SplitCsvLine(line)), by_name_(names_.size()) {
    for (size_t i = 0; i < by_name_.size(); ++i) by_name_[i] = i;
    std::ranges::sort(by_name_, {}, [this](size_t i) { return names_[i]; });
  }
  std::string Sorted() const {
    std::string all;
    for (const size_t i : by_name_) all += (all.empty() ? "" : ",") + names_[i];
    return all;
  }
  int At(std::string_view name) const {
    const auto it = std::find(names_.begin(), names_.end(), name);
    return it == names_.end() ? -1 : static_cast<int>(it - names_.begin());
  }
  bool Has(std::string_view name) const { return At(name) >= 0; }
  size_t size() const { return names_.size(); }
  // All fields but those of the named columns and the time, in the order of the columns' names:
  // tables may have them in another order.
  std::string Rest(const std::vector<std::string>& fields,
                   std::initializer_list<std::string_view> without) const {
    std::string rest;
    for (const size_t i : by_name_) {
      if (names_[i] == kTime) continue;
      if (std::find(without.begin(), without.end(), names_[i]) != without.end()) continue;
      rest += fields[i] + ",";
    }
    return rest;
  }

 private:
  std::vector<std::string> names_;
  std::vector<size_t> by_name_;
};

enum class Kind : uint8_t { kNone, kGemm, kAttention, kLatentAttention, kExperts };

Kind KindOf(const Header& header) {
  if (!header.Has(kTime)) return Kind::kNone;
  if (header.Has("m") && header.Has("n") && header.Has("k")) return Kind::kGemm;
  if (header.Has("num_tokens") && header.Has("moe_dtype")) return Kind::kExperts;
  if (!header.Has("num_heads")) return Kind::kNone;
  return header.Has("num_key_value_heads") ? Kind::kAttention : Kind::kLatentAttention;
}

std::string_view PrecisionColumn(Kind kind) {
  switch (kind) {
    case Kind::kGemm:
      return "gemm_dtype";
    case Kind::kExperts:
      return "moe_dtype";
    case Kind::kLatentAttention:
      return "mla_dtype";
    default:
      return "attn_dtype";
  }
}

class Reader {
 public:
  Reader(std::string file, const Header& header, Kind kind)
      : file_(std::move(file)), header_(header), kind_(kind) {}

  absl::StatusOr<OperatorRow> Read(std::string_view line, size_t number) {
    const std::vector<std::string> fields = SplitCsvLine(line);
    if (fields.size() != header_.size()) {
      return InvalidInput("{}:{}: has {} fields, the header {}", file_, number, fields.size(),
                          header_.size());
    }
    problem_.clear();
    const auto size = [&](std::string_view name) { return Number(fields, name); };
    OperatorRow row;
    row.time = RealMs(size(kTime));
    const int precision = header_.At(PrecisionColumn(kind_));
    if (precision >= 0) row.precision = fields[static_cast<size_t>(precision)];
    switch (kind_) {
      case Kind::kGemm:
        // Along k the same tiles take more steps; along n they become more, by whole waves.
        row.lines = {{"k" + header_.Rest(fields, {"k"}), size("k"), Along::kLine},
                     {"n" + header_.Rest(fields, {"n"}), size("n"), Along::kLine}};
        row.first_line_counts = true;
        break;
      case Kind::kAttention: {
        const double heads = size("num_heads"), shared = size("num_key_value_heads");
        const std::string rest = header_.Rest(fields, {"num_heads", "num_key_value_heads"});
        row.lines = {{fmt::format("r{:g},{}", heads / shared, rest), heads, Along::kLine},
                     {"h" + header_.Rest(fields, {"num_heads"}), heads, Along::kPowers}};
        if (header_.Has("batch_size")) {
          const std::string sizes =
              header_.Rest(fields, {"num_heads", "num_key_value_heads", "batch_size"});
          row.lines.insert(row.lines.begin(), {fmt::format("w{:g},{:g},{}", heads / shared,
                                                           shared * size("batch_size"), sizes),
                                               heads, Along::kAlike});
        }
        row.first_line_counts = true;
        break;
      }
      case Kind::kLatentAttention:
        // Latents are read once for all heads; what each adds is its GEMMs.
        row.lines = {
            {header_.Rest(fields, {"num_heads", "tp_size"}), size("num_heads"), Along::kLine}};
        break;
      default:
        row.lines = {{header_.Rest(fields, {"num_tokens"}), size("num_tokens"), Along::kPowers}};
        row.bends = true;
        row.siblings = header_.Rest(fields, {"distribution", "moe_ep_size", "moe_tp_size"});
        if (header_.Has("moe_ep_size")) row.division.devices = size("moe_ep_size");
        if (header_.Has("moe_tp_size")) row.division.widths = size("moe_tp_size");
        if (const int at = header_.At("distribution"); at >= 0) {
          row.division.distribution = fields[static_cast<size_t>(at)];
        }
    }
    const OperatorColumns columns = ColumnsOf(fields);
    AddWork(columns, row);
    AddAcross(fields, columns, row);
    if (!problem_.empty()) return InvalidInput("{}:{}: {}", file_, number, problem_);
    return row;
  }

 private:
  // Of fields that outlive them.
  OperatorColumns ColumnsOf(const std::vector<std::string>& fields) {
    return {[&](std::string_view name) { return Size(fields, name); },
            [&](std::string_view name) -> std::string_view {
              return header_.Has(name) ? std::string_view(Field(fields, name)) : "";
            }};
  }

  void AddWork(const OperatorColumns& columns, OperatorRow& row) const {
    if (kind_ == Kind::kExperts) {
      const ExpertSizes sizes = ExpertSizesOf(columns);
      row.sizes = sizes;
      row.work = ExpertWork(sizes);
      row.kernels = fmt::format("{},{}", row.precision, columns.text("kernel_source"));
      row.family = row.precision;
      return;
    }
    const CallSizes sizes = kind_ == Kind::kGemm ? GemmSizes(columns) : AttentionSizes(columns);
    row.sizes = sizes;
    row.work = kind_ == Kind::kGemm              ? GemmWork(sizes)
               : kind_ == Kind::kLatentAttention ? LatentAttentionWork(sizes)
                                                 : AttentionWork(sizes);
    row.kernels = fmt::format("{},{}", row.precision, columns.text("kv_cache_dtype"));
    row.family = row.kernels;
  }

  // GEMMs have lines along both sizes of their matrices anyway.
  void AddAcross(const std::vector<std::string>& fields, const OperatorColumns& columns,
                 OperatorRow& row) const {
    std::vector<std::string_view> along;
    switch (kind_) {
      case Kind::kExperts:
        along = {"moe_ep_size", "moe_tp_size"};
        break;
      case Kind::kLatentAttention:
        along = {"isl", "step", "batch_size"};
        break;
      case Kind::kAttention:
        along = {"isl", "step", "batch_size", "head_dim"};
        break;
      default:
        break;
    }
    for (const std::string_view size : along) {
      const double x = columns.number(size);
      if (x <= 0) continue;
      row.across.push_back(
          {fmt::format("{}:{}", size, header_.Rest(fields, {size})), x, Along::kPowers});
    }
  }

  const std::string& Field(const std::vector<std::string>& fields, std::string_view name) const {
    return fields[static_cast<size_t>(header_.At(name))];
  }

  // 0: none is stated, as by -1 of windows. Products of a row's sizes are finite.
  double Size(const std::vector<std::string>& fields, std::string_view name) {
    double value = 0;
    if (!header_.Has(name) || !absl::SimpleAtod(Field(fields, name), &value)) return 0;
    if (!std::isfinite(value)) return 0;
    if (value > kMostSize && problem_.empty()) {
      problem_ = fmt::format("{} '{}' is more than {:g}", name, Field(fields, name), kMostSize);
    }
    return value > 0 && value <= kMostSize ? value : 0;
  }

  double Number(const std::vector<std::string>& fields, std::string_view name) {
    const std::string& text = fields[static_cast<size_t>(header_.At(name))];
    double value = 0;
    if (absl::SimpleAtod(text, &value) && value > 0 && value <= kMaxMs) return value;
    if (problem_.empty()) problem_ = fmt::format("{} '{}' is no positive number", name, text);
    return 1;
  }

  std::string file_;
  const Header& header_;
  Kind kind_;
  std::string problem_;
};

bool IsComment(std::string_view line) { return line.starts_with('#'); }

}  // namespace

std::string_view HeaderLine(std::string_view text) {
  for (std::string_view line : SplitLines(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!IsComment(line)) return line;
  }
  return {};
}

bool IsOperatorTable(std::string_view text) {
  return KindOf(Header(HeaderLine(text))) != Kind::kNone;
}

absl::StatusOr<OperatorRows> ReadOperatorRows(const std::string& file, std::string_view text) {
  const Header header(HeaderLine(text));
  OperatorRows table{header.Sorted(), {}};
  const Kind kind = KindOf(header);
  if (kind == Kind::kNone) return InvalidInput("{}:1: is no table of operators", file);
  Reader reader(file, header, kind);
  size_t number = 0;
  bool past_header = false;
  for (std::string_view line : SplitLines(text)) {
    if (line.ends_with('\r')) line.remove_suffix(1);
    ++number;
    if (line.empty() || IsComment(line)) continue;
    if (!std::exchange(past_header, true)) continue;
    FORETRACE_ASSIGN_OR_RETURN(OperatorRow row, reader.Read(line, number));
    table.rows.push_back(std::move(row));
  }
  if (table.rows.empty()) return InvalidInput("{}: has a header and no rows", file);
  return table;
}

}  // namespace foretrace::serve
