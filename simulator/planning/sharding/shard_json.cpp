
#include <algorithm>

#include "simulator/base/json_writer.h"
#include "simulator/planning/sharding/shard_output.h"

namespace foretrace {
namespace {

class RankingWriter {
 public:
  RankingWriter(const ShardingTask& task, const Ranking& ranking)
      : task_(task), ranking_(ranking) {}

  std::string Write(const std::vector<std::string>& notes,
                    const std::vector<TableExplanation>& explained) {
    w_.StartObject();
    Text("task", task_.name);
    Integer("gpus", task_.gpus);
    Integer("batch", task_.batch);
    Integer("memory_capacity_bytes", task_.memory.count());
    Integer("evaluated", ranking_.evaluated);
    Strings("notes", notes);
    Strings("skipped", ranking_.skipped);
    Key("plans");
    w_.StartArray();
    for (const RankedPlan& p : ranking_.plans) Plan(p, false);
    w_.EndArray();
    Key("best");
    Plan(ranking_.plans.front(), true);
    if (!explained.empty()) {
      Key("explained");
      w_.StartArray();
      for (const TableExplanation& e : explained) Explanation(e);
      w_.EndArray();
    }
    w_.EndObject();
    return std::string(buffer_.GetString(), buffer_.GetSize()) + "\n";
  }

 private:
  void Key(std::string_view key) {
    w_.Key(key.data(), static_cast<rapidjson::SizeType>(key.size()));
  }
  void String(std::string_view s) {
    w_.String(s.data(), static_cast<rapidjson::SizeType>(s.size()));
  }
  void Text(std::string_view key, std::string_view value) {
    Key(key);
    String(value);
  }
  void Integer(std::string_view key, int64_t value) {
    Key(key);
    w_.Int64(value);
  }
  void Number(std::string_view key, double value) {
    Key(key);
    w_.Double(value);
  }
  void Strings(std::string_view key, const std::vector<std::string>& values) {
    Key(key);
    w_.StartArray();
    for (const std::string& v : values) String(v);
    w_.EndArray();
  }

  void Plan(const RankedPlan& p, bool placement) {
    const PlanEvaluation& e = p.evaluation;
    w_.StartObject();
    Text("sharder", p.plan.sharder);
    Number("iteration_time_us", e.iteration.us());
    Integer("memory_bytes_max", p.memory.largest.count());
    Integer("host_bytes_max", p.memory.largest_host.count());
    Key("feasible");
    w_.Bool(p.memory.fits);
    Number("lookup_imbalance", e.lookup_imbalance);
    Key("sources");
    w_.StartObject();
    SimTime total;
    for (const SimTime t : e.by_source) total += t;
    for (size_t s = 0; s < e.by_source.size(); ++s) {
      Number(Name(static_cast<EstimateSource>(s)),
             total > SimTime() ? e.by_source[s].us() / total.us() : 0);
    }
    w_.EndObject();
    Number("extrapolated", total > SimTime() ? e.extrapolated.us() / total.us() : 0);
    Key("collective_bytes");
    w_.StartObject();
    for (size_t s = 0; s < e.bytes.size(); ++s) {
      if (e.bytes[s].count() > 0) Integer(Name(static_cast<CommStep>(s)), e.bytes[s].count());
    }
    w_.EndObject();
    Key("ranks");
    w_.StartArray();
    for (size_t r = 0; r < e.ranks.size(); ++r) Rank(r, e.ranks[r], p.memory.ranks[r]);
    w_.EndArray();
    if (placement) Placement(p.plan);
    w_.EndObject();
  }

  void Rank(size_t rank, const RankLoad& load, const RankMemory& memory) {
    w_.StartObject();
    Integer("rank", static_cast<int64_t>(rank));
    Number("lookups", load.lookups);
    for (size_t p = 0; p < load.busy.size(); ++p) {
      if (static_cast<WorkPart>(p) == WorkPart::kCpu) continue;
      Number(std::string(Name(static_cast<WorkPart>(p))) + "_us", load.busy[p].us());
    }
    Number("computing_us", load.computing.us());
    Number("exposed_transfer_us", load.exposed_transfer.us());
    Number("waiting_us", load.waiting.us());
    Number("idle_us", load.idle.us());
    Integer("sent_bytes", load.sent.count());
    Integer("received_bytes", load.received.count());
    Integer("memory_bytes", memory.total().count());
    Integer("host_bytes", memory.host.count());
    Key("memory");
    w_.StartObject();
    Integer("weights_bytes", memory.weights.count());
    Integer("optimizer_bytes", memory.optimizer.count());
    Integer("gradients_bytes", memory.gradients.count());
    Integer("activations_bytes", memory.activations.count());
    Integer("buffers_bytes", memory.buffers.count());
    Integer("dense_bytes", memory.dense.count());
    w_.EndObject();
    w_.EndObject();
  }

  void Explanation(const TableExplanation& e) {
    w_.StartObject();
    Text("table", task_.tables[e.table].name);
    Text("kind", Name(e.placement.kind));
    List("ranks", e.placement.ranks, [](int32_t r) { return int64_t{r}; });
    Number("iteration_time_us", e.iteration.us());
    Key("others");
    w_.StartArray();
    for (const OtherPlacement& o : e.others) {
      w_.StartObject();
      Text("kind", Name(o.placement.kind));
      List("ranks", o.placement.ranks, [](int32_t r) { return int64_t{r}; });
      Number("iteration_time_us", o.iteration.us());
      Key("feasible");
      w_.Bool(o.fits);
      w_.EndObject();
    }
    w_.EndArray();
    w_.EndObject();
  }

  // Ranks, rows and columns of each shard, in the same order.
  void Placement(const ShardingPlan& plan) {
    Key("placement");
    w_.StartArray();
    for (size_t t = 0; t < plan.tables.size(); ++t) {
      const TablePlacement& p = plan.tables[t];
      const auto shards = ShardsOf(task_.tables[t], static_cast<int32_t>(t), p);
      w_.StartObject();
      Text("table", task_.tables[t].name);
      Text("kind", Name(p.kind));
      Key("uvm");
      w_.Bool(p.uvm);
      List("ranks", p.ranks, [](int32_t r) { return int64_t{r}; });
      List("rows", shards, [](const Shard& s) { return s.rows; });
      List("columns", shards, [](const Shard& s) { return s.columns; });
      w_.EndObject();
    }
    w_.EndArray();
  }

  template <typename T, typename Value>
  void List(std::string_view key, const std::vector<T>& values, Value value) {
    Key(key);
    w_.StartArray();
    for (const T& v : values) w_.Int64(value(v));
    w_.EndArray();
  }

  const ShardingTask& task_;
  const Ranking& ranking_;
  rapidjson::StringBuffer buffer_;
  JsonWriter w_{buffer_};
};

}  // namespace

std::string RankingJson(const ShardingTask& task, const Ranking& ranking,
                        const std::vector<std::string>& notes,
                        const std::vector<TableExplanation>& explained) {
  return RankingWriter(task, ranking).Write(notes, explained);
}

}  // namespace foretrace
