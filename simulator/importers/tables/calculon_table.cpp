// Calculon's JSON of Megatron-LM's measured iterations.

#include <rapidjson/document.h>
#include <rapidjson/error/en.h>

#include "simulator/base/error.h"
#include "simulator/base/input.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/tables/measured_iterations.h"

namespace foretrace::internal {
namespace {

// Members of one object; the first that is missing or of another type is remembered.
class Members {
 public:
  Members(const rapidjson::Value& value, std::string where)
      : value_(value), where_(std::move(where)) {
    if (!value.IsObject()) status_ = InvalidInput("{}: is no object", where_);
  }
  int64_t Int(const char* key) {
    const rapidjson::Value* v = Find(key);
    if (v != nullptr && v->IsInt() && v->GetInt() > 0) return v->GetInt();
    Fail(key, "a positive whole number");
    return 1;
  }
  double Number(const char* key) {
    const rapidjson::Value* v = Find(key);
    if (v != nullptr && v->IsNumber() && v->GetDouble() > 0) return v->GetDouble();
    Fail(key, "a positive number");
    return 1;
  }
  bool Bool(const char* key) {
    const rapidjson::Value* v = Find(key);
    if (v != nullptr && v->IsBool()) return v->GetBool();
    Fail(key, "true or false");
    return false;
  }
  std::string String(const char* key) {
    const rapidjson::Value* v = Find(key);
    if (v != nullptr && v->IsString()) return v->GetString();
    Fail(key, "a string");
    return "";
  }
  const rapidjson::Value& Object(const char* key) {
    static const rapidjson::Value kEmpty(rapidjson::kObjectType);
    const rapidjson::Value* v = Find(key);
    if (v != nullptr && v->IsObject()) return *v;
    Fail(key, "an object");
    return kEmpty;
  }
  const absl::Status& status() const { return status_; }

 private:
  const rapidjson::Value* Find(const char* key) const {
    if (!value_.IsObject()) return nullptr;
    const auto it = value_.FindMember(key);
    return it == value_.MemberEnd() ? nullptr : &it->value;
  }
  void Fail(const char* key, const char* what) {
    if (status_.ok()) status_ = InvalidInput("{}: '{}' must be {}", where_, key, what);
  }
  const rapidjson::Value& value_;
  std::string where_;
  absl::Status status_;
};

absl::StatusOr<MeasuredIteration> ReadRow(const rapidjson::Value& value, const std::string& name,
                                          const std::string& where) {
  Members row(value, where);
  Members app(row.Object("application"), where + ": application");
  Members exec(row.Object("execution"), where + ": execution");
  MeasuredIteration out;
  out.name = name;
  out.where = where;
  out.hidden = app.Int("hidden");
  out.ffn = app.Int("feedforward");
  out.sequence = app.Int("seq_size");
  out.heads = app.Int("attn_heads");
  out.layers = app.Int("num_blocks");
  out.gpus = exec.Int("num_procs");
  out.tensor = exec.Int("tensor_par");
  out.pipeline = exec.Int("pipeline_par");
  out.data = exec.Int("data_par");
  out.global_batch = exec.Int("batch_size");
  out.micro_batch = exec.Int("microbatch_size");
  out.chunks = exec.Int("pipeline_interleaving");
  out.sequence_parallel = exec.Bool("seq_par_ag_redo");
  out.measured = SimTime::FromSeconds(row.Number("measured_iteration_s"));
  const std::string recompute = exec.String("activation_recompute");
  for (const Members* part : {&row, &app, &exec}) FORETRACE_RETURN_IF_ERROR(part->status());
  out.recompute = recompute == "attn_only" ? "selective" : recompute;
  if (recompute != "full" && recompute != "attn_only" && recompute != "none") {
    return InvalidInput("{}: activation_recompute '{}' is not full, attn_only or none", where,
                        recompute);
  }
  return out;
}

}  // namespace

absl::StatusOr<std::vector<MeasuredIteration>> ReadCalculonTable(const std::string& path,
                                                                 const std::string& content) {
  if (static_cast<int64_t>(content.size()) > kMaxJsonBytes) {
    return InvalidInput("{}: larger than {} MiB", path, kMaxJsonBytes >> 20);
  }
  rapidjson::Document root;
  root.Parse<rapidjson::kParseIterativeFlag>(content.c_str(), content.size());
  if (root.HasParseError() || !root.IsObject()) {
    return InvalidInput("{}: byte {}: not a JSON object of measured rows: {}", path,
                        root.GetErrorOffset(), rapidjson::GetParseError_En(root.GetParseError()));
  }
  std::vector<MeasuredIteration> rows;
  for (const auto& entry : root.GetObject()) {
    const std::string name = entry.name.GetString();
    FORETRACE_ASSIGN_OR_RETURN(MeasuredIteration row,
                               ReadRow(entry.value, name, fmt::format("{}: row '{}'", path, name)));
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace foretrace::internal
