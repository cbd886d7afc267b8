#include "simulator/serve/operator_costs.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "simulator/base/error.h"
#include "simulator/base/real_sizes.h"
#include "simulator/base/status_macros.h"
#include "simulator/serve/csv_columns.h"
#include "simulator/serve/interpolation.h"
#include "simulator/serve/operator_rows.h"

namespace foretrace::serve {
namespace {

constexpr double kMost = 1e9;
constexpr int64_t kLatent = 512;  // of the tables' latent attention
constexpr std::string_view kEven = "balanced";

bool SamePrecision(const std::string& text, DType dtype) {
  const DType row = text == "fp8" ? DType::kFloat8 : ParseDType(text);
  return row != DType::kUnknown && ElementSize(row) == ElementSize(dtype);
}

Interpolated Between(Interpolated a, Interpolated b, double weight) {
  return {a.us + (b.us - a.us) * weight, a.extrapolated || b.extrapolated};
}

// Curves over a further size. Beyond the last along the last two, below the first as there.
class Family {
 public:
  Curve& At(double key) { return curves_[key]; }
  absl::Status Finish() {
    for (auto& [key, curve] : curves_) FORETRACE_RETURN_IF_ERROR(curve.Finish());
    return absl::OkStatus();
  }
  Interpolated At(double key, double x) const {
    auto high = curves_.lower_bound(key);
    if (high != curves_.end() && high->first == key) return high->second.At(x);
    if (high == curves_.begin() || curves_.size() == 1) return Outside(curves_.begin(), x);
    const bool beyond = high == curves_.end();
    if (beyond) --high;
    const auto low = std::prev(high);
    Interpolated at = Between(low->second.At(x), high->second.At(x),
                              (key - low->first) / (high->first - low->first));
    at.extrapolated = at.extrapolated || beyond;
    return at;
  }

 private:
  static Interpolated Outside(std::map<double, Curve>::const_iterator at, double x) {
    return {at->second.At(x).us, true};
  }
  std::map<double, Curve> curves_;
};

// Times of GEMMs y[m,n] = x[m,k] w[n,k].
class Gemms {
 public:
  void Add(double m, double n, double k, double us) {
    by_n_[n][k].Add(m, us);
    by_k_[k].insert(n);
  }
  absl::Status Finish() {
    for (auto& [n, line] : by_n_) {
      for (auto& [k, curve] : line) FORETRACE_RETURN_IF_ERROR(curve.Finish());
    }
    return absl::OkStatus();
  }
  // nullopt: no GEMMs around it.
  std::optional<Interpolated> At(double m, double n, double k) const {
    if (const auto known = Along(n, k, m, n, n)) return known;
    std::optional<Interpolated> over_n = OverN(n, k, m), over_k = OverK(n, k, m);
    if (over_n && over_k) return Between(*over_n, *over_k, 0.5);
    if (over_n || over_k) return over_n ? over_n : over_k;
    // Neither its n nor its k was measured.
    const auto high = by_k_.upper_bound(k);
    if (high == by_k_.begin() || high == by_k_.end()) return std::nullopt;
    const auto low = std::prev(high);
    const auto a = OverN(n, low->first, m), b = OverN(n, high->first, m);
    if (!a || !b) return std::nullopt;
    return Between(*a, *b, (k - low->first) / (high->first - low->first));
  }

 private:
  const Curve* Find(double n, double k) const {
    const auto line = by_n_.find(n);
    if (line == by_n_.end()) return nullptr;
    const auto curve = line->second.find(k);
    return curve == line->second.end() ? nullptr : &curve->second;
  }
  std::optional<Interpolated> Along(double n, double k, double m, double low, double high) const {
    const Curve *a = Find(low, k), *b = Find(high, k);
    if (a == nullptr || b == nullptr) return std::nullopt;
    return low == high ? a->At(m) : Between(a->At(m), b->At(m), (n - low) / (high - low));
  }
  std::optional<Interpolated> OverN(double n, double k, double m) const {
    const auto line = by_k_.find(k);
    if (line == by_k_.end()) return std::nullopt;
    const auto high = line->second.upper_bound(n);
    if (high == line->second.begin() || high == line->second.end()) return std::nullopt;
    return Along(n, k, m, *std::prev(high), *high);
  }
  std::optional<Interpolated> OverK(double n, double k, double m) const {
    const auto line = by_n_.find(n);
    if (line == by_n_.end()) return std::nullopt;
    const auto high = line->second.upper_bound(k);
    if (high == line->second.begin() || high == line->second.end()) return std::nullopt;
    const auto low = std::prev(high);
    return Between(low->second.At(m), high->second.At(m),
                   (k - low->first) / (high->first - low->first));
  }

  std::map<double, std::map<double, Curve>> by_n_;
  std::map<double, std::set<double>> by_k_;
};

// Latent, decode, heads a key, depth, window, bytes of an element of keys and values.
using AttentionKey = std::tuple<bool, bool, double, int64_t, int64_t, int64_t>;
// Hidden, width, experts, experts a token, tensor and expert degree, weights.
using ExpertKey = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, WeightFormat>;

// "fp8_block", "w4a16_mxfp4"; nullopt: a precision.
std::optional<WeightFormat> NarrowFormat(const std::string& text) {
  if (text.ends_with("mxfp4")) return WeightFormat::kMxfp4;
  if (text.starts_with("int4")) return WeightFormat::kInt4;
  return ParseWeightFormat(text);
}

class OperatorCosts : public DeviceCosts {
 public:
  OperatorCosts(std::shared_ptr<const DeviceCosts> base, DType dtype,
                std::set<WeightFormat> formats)
      : base_(std::move(base)), dtype_(dtype), formats_(std::move(formats)) {}

  absl::Status Read(OperatorTableText table) {
    const std::string header(HeaderLine(table.text));
    const auto has = [&](std::string_view name) { return header.find(name) != std::string::npos; };
    const size_t before = rows_;
    absl::Status status;
    if (has("moe_dtype")) {
      status = ReadExperts(table);
    } else if (has("gemm_dtype")) {
      status = ReadGemms(table);
    } else if (has("num_heads")) {
      status = ReadAttention(table, has("mla_dtype"), has("step"));
    } else {
      return InvalidInput("{}:1: is no table of operators", table.file);
    }
    FORETRACE_RETURN_IF_ERROR(status);
    if (rows_ == before) {
      return InvalidInput("{}: has no row in the model's precision, {}", table.file, Name(dtype_));
    }
    source_ += (source_.empty() ? "" : ", ") + table.file;
    return absl::OkStatus();
  }
  absl::Status Finish() {
    for (auto& [format, gemms] : gemms_) FORETRACE_RETURN_IF_ERROR(gemms.Finish());
    for (auto& [key, by_heads] : attention_) {
      for (auto& [heads, family] : by_heads) FORETRACE_RETURN_IF_ERROR(family.Finish());
    }
    for (auto& [key, curve] : experts_) FORETRACE_RETURN_IF_ERROR(curve.Finish());
    return absl::OkStatus();
  }

  Estimate Kernel(const KernelWork& work) const override {
    if (ElementSize(work.dtype) == ElementSize(dtype_)) {
      if (const auto measured = Gemm(work, WeightFormat::kModel)) return *measured;
    }
    return base_->Kernel(work);
  }
  std::optional<Estimate> Gemm(const KernelWork& work, WeightFormat format) const override {
    const auto gemms = gemms_.find(format);
    if (gemms == gemms_.end() || work.kind != KernelKind::kGemm || work.batch > 1) {
      return std::nullopt;
    }
    const auto measured = gemms->second.At(AsDouble(work.m), AsDouble(work.n), AsDouble(work.k));
    return measured ? std::optional(Of(*measured)) : std::nullopt;
  }
  bool Multiplies(WeightFormat format) const override { return base_->Multiplies(format); }

  std::optional<Estimate> Attention(const AttentionShape& s) const override {
    const double shared = s.latent ? 0 : AsDouble(s.heads) / AsDouble(s.kv_heads);
    const auto at = attention_.find(
        {s.latent, s.decode, shared, s.latent ? kLatent : s.depth, s.window, s.kv_width});
    if (at == attention_.end()) return std::nullopt;
    const auto& by_heads = at->second;
    const double x = s.decode ? s.tokens : std::log(s.tokens);
    const auto time = [&](const Family& family) {
      Interpolated t = family.At(s.sequences, x);
      if (!s.decode) t.us = std::exp(t.us);
      return t;
    };
    const auto high = by_heads.lower_bound(AsDouble(s.heads));
    if (high == by_heads.end()) return std::nullopt;
    if (high->first == AsDouble(s.heads)) return Of(time(high->second));
    if (high == by_heads.begin()) return std::nullopt;
    const auto low = std::prev(high);
    return Of(Between(time(low->second), time(high->second),
                      (AsDouble(s.heads) - low->first) / (high->first - low->first)));
  }

  std::optional<Estimate> Experts(const ExpertShape& s) const override {
    const auto at =
        experts_.find({s.hidden, s.ffn, s.experts, s.top_k, s.tensor, s.expert, s.weights});
    if (at == experts_.end()) return std::nullopt;
    return Of(at->second.At(AsDouble(s.tokens)));
  }

  Estimate Collective(CollectiveOp op, int32_t ranks, Bytes bytes) const override {
    return base_->Collective(op, ranks, bytes);
  }
  Estimate Send(int32_t distance, Bytes bytes) const override {
    return base_->Send(distance, bytes);
  }
  std::optional<Estimate> ExpertTransfer(const ExpertExchange& x) const override {
    return base_->ExpertTransfer(x);
  }
  Bandwidth SwitchBandwidth(int32_t ranks) const override { return base_->SwitchBandwidth(ranks); }
  double JoulesAboveIdle(DType dtype, Flop flop, Bytes bytes, SimTime time) const override {
    return base_->JoulesAboveIdle(dtype, flop, bytes, time);
  }
  double IdleWatts() const override { return base_->IdleWatts(); }
  std::string Source() const override {
    return fmt::format("operators of {}, else {}", source_, base_->Source());
  }

 private:
  static Estimate Of(const Interpolated& t) {
    return {SimTime::FromUs(t.us), EstimateSource::kCalibrated, t.extrapolated};
  }
  static double Size(const CsvRow& row, size_t column) {
    return AsDouble(row.Integer(column, 1, static_cast<int32_t>(kMost)));
  }
  static double Us(const CsvRow& row, size_t column) {
    return row.Number(column, 1e-9, kMost) * 1e3;
  }

  // Of a row; nullopt: in another format than the model's.
  std::optional<WeightFormat> FormatOf(const std::string& text) const {
    if (const auto format = NarrowFormat(text); format && formats_.contains(*format)) return format;
    return SamePrecision(text, dtype_) ? std::optional(WeightFormat::kModel) : std::nullopt;
  }

  absl::Status ReadGemms(OperatorTableText& table) {
    FORETRACE_ASSIGN_OR_RETURN(CsvColumns rows,
                               CsvColumns::Parse(table.file, std::move(table.text),
                                                 {"gemm_dtype", "m", "n", "k", "latency_ms"}));
    while (rows.Next()) {
      const CsvRow& row = rows.row();
      const auto format = FormatOf(row.Text(0));
      if (!format) continue;
      gemms_[*format].Add(Size(row, 1), Size(row, 2), Size(row, 3), Us(row, 4));
      ++rows_;
    }
    return rows.status();
  }

  absl::Status ReadAttention(OperatorTableText& table, bool latent, bool decode) {
    std::vector<std::string_view> columns = {latent ? "mla_dtype" : "attn_dtype",
                                             "kv_cache_dtype",
                                             "num_heads",
                                             "batch_size",
                                             decode ? "step" : "isl",
                                             "latency_ms"};
    if (!latent) columns.insert(columns.end(), {"num_key_value_heads", "head_dim"});
    constexpr size_t kKeyHeads = 6, kDepth = 7;
    FORETRACE_ASSIGN_OR_RETURN(CsvColumns rows,
                               CsvColumns::Parse(table.file, std::move(table.text), columns));
    const int32_t window = rows.Also("window_size");
    while (rows.Next()) {
      const CsvRow& row = rows.row();
      const int64_t kv_width = row.Text(1) == "fp8" ? 1 : ElementSize(ParseDType(row.Text(1)));
      if (!SamePrecision(row.Text(0), dtype_) || kv_width == 0) continue;
      const double heads = Size(row, 2);
      const AttentionKey key = {
          latent,
          decode,
          latent ? 0 : heads / std::max(1.0, Size(row, kKeyHeads)),
          latent ? kLatent : row.Integer(kDepth, 1, 1 << 20),
          window >= 0 ? row.Integer(static_cast<size_t>(window), 0, 1 << 30) : 0,
          kv_width};
      const double tokens = Size(row, 4), us = Us(row, 5);
      Curve& curve = attention_[key][heads].At(Size(row, 3));
      if (us <= 0) continue;  // the row is wrong, which its table says
      decode ? curve.Add(tokens, us) : curve.Add(std::log(tokens), std::log(us));
      ++rows_;
    }
    return rows.status();
  }

  absl::Status ReadExperts(OperatorTableText& table) {
    FORETRACE_ASSIGN_OR_RETURN(
        CsvColumns rows, CsvColumns::Parse(table.file, std::move(table.text),
                                           {"moe_dtype", "hidden_size", "inter_size", "num_experts",
                                            "topk", "moe_tp_size", "moe_ep_size", "distribution",
                                            "num_tokens", "latency_ms", "kernel_source"}));
    while (rows.Next()) {
      const CsvRow& row = rows.row();
      const auto format = FormatOf(row.Text(0));
      if (!format || row.Text(7) != kEven) continue;
      if (row.Text(10).ends_with("_nongated")) continue;
      const auto size = [&](size_t column) { return int64_t{row.Integer(column, 1, 1 << 24)}; };
      experts_[{size(1), size(2), size(3), size(4), size(5), size(6), *format}].Add(Size(row, 8),
                                                                                    Us(row, 9));
      ++rows_;
    }
    return rows.status();
  }

  const std::shared_ptr<const DeviceCosts> base_;
  const DType dtype_;
  const std::set<WeightFormat> formats_;  // beside the model's precision
  std::map<WeightFormat, Gemms> gemms_;
  std::map<AttentionKey, std::map<double, Family>> attention_;  // by heads
  std::map<ExpertKey, Curve> experts_;
  size_t rows_ = 0;
  std::string source_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const DeviceCosts>> WithOperatorTables(
    std::shared_ptr<const DeviceCosts> base, std::vector<OperatorTableText> tables, DType dtype,
    std::set<WeightFormat> formats) {
  auto costs = std::make_shared<OperatorCosts>(std::move(base), dtype, std::move(formats));
  for (OperatorTableText& table : tables) {
    FORETRACE_RETURN_IF_ERROR(costs->Read(std::move(table)));
  }
  FORETRACE_RETURN_IF_ERROR(costs->Finish());
  return costs;
}

}  // namespace foretrace::serve
