#include "simulator/planning/sharding/shard_output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

namespace foretrace {

SimTime LookupTime(const RankLoad& load) {
  return load.busy[static_cast<size_t>(WorkPart::kLookupForward)] +
         load.busy[static_cast<size_t>(WorkPart::kLookupBackward)];
}

std::string RanksText(const TablePlacement& p) {
  if (p.ranks.size() > 8) return fmt::format("{} ({} ranks)", Name(p.kind), p.ranks.size());
  return fmt::format("{} {}{}", Name(p.kind), fmt::join(p.ranks, ","), p.uvm ? " uvm" : "");
}

namespace {

constexpr size_t kMostRankRows = 32;
constexpr size_t kMostChangedTables = 40;

double Megabytes(Bytes b) { return static_cast<double>(b.count()) * 1e-6; }

double Share(SimTime part, SimTime whole) {
  return whole > SimTime() ? 100 * part.us() / whole.us() : 0;
}

// Over the collectives of the tables, ids and gradients included: what the busiest rank of each
// sends or receives.
Bytes Exchanged(const PlanEvaluation& e) {
  return std::accumulate(e.bytes.begin(), e.bytes.end(), Bytes());
}

// The rank whose lookups take longest.
size_t Busiest(const PlanEvaluation& e) {
  return static_cast<size_t>(
      std::max_element(e.ranks.begin(), e.ranks.end(),
                       [](const auto& a, const auto& b) { return LookupTime(a) < LookupTime(b); }) -
      e.ranks.begin());
}

std::string Bar(double share, size_t width) {
  return std::string(static_cast<size_t>(share * static_cast<double>(width) + 0.5), '#');
}

std::string Mix(const ShardingPlan& plan) {
  std::vector<std::string> parts;
  for (int k = 0; k < static_cast<int>(PlacementKind::kCount); ++k) {
    const auto count = std::count_if(plan.tables.begin(), plan.tables.end(),
                                     [&](const auto& p) { return static_cast<int>(p.kind) == k; });
    static constexpr std::array<std::string_view, 5> kShort = {"T", "C", "R", "TR", "DP"};
    if (count > 0) parts.push_back(fmt::format("{}{}", kShort[static_cast<size_t>(k)], count));
  }
  return fmt::format("{}", fmt::join(parts, " "));
}

std::string PlansTable(const Ranking& ranking, const TextStyle& style) {
  using Align = TextTable::Align;
  // Names that --compare and --traces-of take stay whole; those of files given by --plan may not.
  constexpr size_t kLongName = 24;
  const bool long_names = std::ranges::any_of(
      ranking.plans, [](const RankedPlan& p) { return p.plan.sharder.size() > kLongName; });
  TextTable table({{"sharder", Align::kLeft, long_names},
                   {"iteration us"},
                   {"to best %"},
                   {"lookup max us"},
                   {"imbalance"},
                   {"exchanged MB"},
                   {"exposed %"},
                   {"waiting %"},
                   {"GPU GB"},
                   {"tables", Align::kLeft},
                   {"fits", Align::kLeft}});
  const double best = ranking.plans.front().evaluation.iteration.us();
  for (const RankedPlan& p : ranking.plans) {
    const PlanEvaluation& e = p.evaluation;
    const RankLoad& busiest = e.ranks[Busiest(e)];
    table.AddRow({p.plan.sharder, fmt::format("{:.1f}", e.iteration.us()),
                  fmt::format("{:+.2f}", 100 * (e.iteration.us() / best - 1)),
                  fmt::format("{:.1f}", LookupTime(busiest).us()),
                  fmt::format("{:.2f}", e.lookup_imbalance),
                  fmt::format("{:.2f}", Megabytes(Exchanged(e))),
                  fmt::format("{:.1f}", Share(busiest.exposed(), e.iteration)),
                  fmt::format("{:.1f}", Share(busiest.waiting, e.iteration)),
                  fmt::format("{:.2f}", static_cast<double>(p.memory.largest.count()) * 1e-9),
                  Mix(p.plan), p.memory.fits ? "yes" : "no"});
  }
  return table.Format(style);
}

std::string RanksTable(const ShardingTask& task, const RankedPlan& plan, const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable table({{"rank"},
                   {"shards"},
                   {"lookups"},
                   {"lookup us"},
                   {"sent MB"},
                   {"GPU GB"},
                   {"computing %"},
                   {"exposed %"},
                   {"waiting %"},
                   {"idle %"},
                   {"lookup time", Align::kLeft}});
  const PlanEvaluation& e = plan.evaluation;
  const auto by_rank = ShardsByRank(task, plan.plan);
  const double longest = LookupTime(e.ranks[Busiest(e)]).us();
  for (size_t r = 0; r < std::min(kMostRankRows, e.ranks.size()); ++r) {
    const RankLoad& load = e.ranks[r];
    const double lookup = LookupTime(load).us();
    table.AddRow(
        {fmt::format("{}", r), fmt::format("{}", by_rank[r].size()),
         fmt::format("{:.0f}", load.lookups), fmt::format("{:.1f}", lookup),
         fmt::format("{:.2f}", Megabytes(load.sent)),
         fmt::format("{:.2f}", static_cast<double>(plan.memory.ranks[r].total().count()) * 1e-9),
         fmt::format("{:.1f}", Share(load.computing, e.iteration)),
         fmt::format("{:.1f}", Share(load.exposed(), e.iteration)),
         fmt::format("{:.1f}", Share(load.waiting, e.iteration)),
         fmt::format("{:.1f}", Share(load.idle, e.iteration)),
         Bar(longest > 0 ? lookup / longest : 0, 20)});
  }
  std::string text = table.Format(style);
  if (e.ranks.size() > kMostRankRows) {
    text += fmt::format("... and {} more ranks (--json has all)\n", e.ranks.size() - kMostRankRows);
  }
  return text;
}

std::array<double, static_cast<size_t>(EstimateSource::kCount)> SourceShares(
    const PlanEvaluation& e) {
  std::array<double, static_cast<size_t>(EstimateSource::kCount)> shares{};
  SimTime total;
  for (const SimTime t : e.by_source) total += t;
  for (size_t s = 0; s < shares.size(); ++s) shares[s] = Share(e.by_source[s], total) / 100;
  return shares;
}

// `recorded`: what that share is.
std::string SourcesLine(const PlanEvaluation& e, std::string_view recorded) {
  const auto shares = SourceShares(e);
  SimTime total;
  for (const SimTime t : e.by_source) total += t;
  const auto percent = [&](EstimateSource s) { return 100 * shares[static_cast<size_t>(s)]; };
  return fmt::format(
      "Time simulated by source: calibrated {:.1f} %, analytic {:.1f} %, missing {:.1f} %, "
      "{} {:.1f} %{}\n",
      percent(EstimateSource::kCalibrated), percent(EstimateSource::kAnalytic),
      percent(EstimateSource::kMissing), recorded, percent(EstimateSource::kRecorded),
      e.extrapolated > SimTime()
          ? fmt::format("; beyond calibrated ranges {:.1f} %", Share(e.extrapolated, total))
          : std::string());
}

}  // namespace

std::string FormatRanking(const ShardingTask& task, const Ranking& ranking,
                          const std::vector<std::string>& notes, const TextStyle& style) {
  const RankedPlan& best = ranking.plans.front();
  std::string out = fmt::format("Verdict: the plan of {} is the fastest, {:.1f} us an iteration\n",
                                best.plan.sharder, best.evaluation.iteration.us());
  out += fmt::format("{}: {} tables on {} GPUs ({}), batch {}{}\n", task.name, task.tables.size(),
                     task.gpus, task.platform, task.batch,
                     ranking.evaluated > 0
                         ? fmt::format("; {} plans simulated in searching", ranking.evaluated)
                         : "");
  out += SourcesLine(best.evaluation,
                     task.capture.empty() ? "CPU overheads as the task states them" : "recorded");
  for (const std::string& note : notes) out += fmt::format("Note: {}\n", note);
  for (const RankedPlan& p : ranking.plans) {
    // One that found nothing for long has settled, as far as it can tell.
    if (p.plan.found_as * 5 <= p.plan.searched * 4) continue;
    out += fmt::format(
        "Note: {} was still finding faster plans when its {} simulated ones were used up; --budget "
        "gives it more\n",
        p.plan.sharder, p.plan.searched);
  }
  for (const std::string& skipped : ranking.skipped) out += fmt::format("Skipped: {}\n", skipped);
  out +=
      "\nPlans (the shares are of the rank with the longest lookups; waiting is part of exposed; "
      "tables: "
      "T\ntable-wise, C column-wise, R row-wise, TR table-row-wise, DP data-parallel)\n";
  out += PlansTable(ranking, style);
  out += fmt::format("\nRanks of {}\n", best.plan.sharder);
  out += RanksTable(task, best, style);
  return out;
}

std::string FormatComparison(const ShardingTask& task, const RankedPlan& a, const RankedPlan& b,
                             const TextStyle& style) {
  using Align = TextTable::Align;
  TextTable summary({{"", Align::kLeft}, {a.plan.sharder}, {b.plan.sharder}, {"difference"}});
  const auto row = [&](std::string what, double x, double y) {
    summary.AddRow({std::move(what), fmt::format("{:.2f}", x), fmt::format("{:.2f}", y),
                    fmt::format("{:+.2f}", y - x)});
  };
  row("iteration us", a.evaluation.iteration.us(), b.evaluation.iteration.us());
  row("longest lookups us", LookupTime(a.evaluation.ranks[Busiest(a.evaluation)]).us(),
      LookupTime(b.evaluation.ranks[Busiest(b.evaluation)]).us());
  row("lookup imbalance", a.evaluation.lookup_imbalance, b.evaluation.lookup_imbalance);
  for (size_t s = 0; s < a.evaluation.bytes.size(); ++s) {
    if (a.evaluation.bytes[s].count() == 0 && b.evaluation.bytes[s].count() == 0) continue;
    row(fmt::format("{} MB", Name(static_cast<CommStep>(s))), Megabytes(a.evaluation.bytes[s]),
        Megabytes(b.evaluation.bytes[s]));
  }
  row("fullest GPU GB", static_cast<double>(a.memory.largest.count()) * 1e-9,
      static_cast<double>(b.memory.largest.count()) * 1e-9);
  std::string out = summary.Format(style);
  TextTable tables({{"table", Align::kLeft, true},
                    {"lookups"},
                    {"MB"},
                    {a.plan.sharder, Align::kLeft},
                    {b.plan.sharder, Align::kLeft}});
  size_t changed = 0;
  for (size_t t = 0; t < task.tables.size(); ++t) {
    if (a.plan.tables[t] == b.plan.tables[t]) continue;
    if (++changed > kMostChangedTables) continue;
    const EmbeddingTable& table = task.tables[t];
    tables.AddRow({table.name, fmt::format("{}", table.access.lookups),
                   fmt::format("{:.1f}", Megabytes(table.weight_bytes())),
                   RanksText(a.plan.tables[t]), RanksText(b.plan.tables[t])});
  }
  out += fmt::format("\n{} of {} tables are placed otherwise\n", changed, task.tables.size());
  if (changed > 0) out += tables.Format(style);
  if (changed > kMostChangedTables) {
    out += fmt::format("... and {} more tables\n", changed - kMostChangedTables);
  }
  return out;
}

}  // namespace foretrace
