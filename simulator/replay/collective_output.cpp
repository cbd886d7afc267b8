#include "simulator/replay/collective_output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "simulator/base/json_writer.h"
#include "simulator/base/real_quantities.h"

namespace foretrace {
namespace {

using Align = TextTable::Align;

// "64 MiB"; what is no whole number of units in bytes.
std::string SizeText(Bytes size) {
  constexpr std::array<std::string_view, 5> kUnits = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int64_t bytes = size.count();
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::string Verdict(CollectiveOp op, const std::vector<CollectiveRow>& rows) {
  if (rows.empty()) return "Verdict: no size was simulated\n";
  const CollectiveRow& first = rows.front();
  const CollectiveRow& last = rows.back();
  std::string text = fmt::format("Verdict: {} on {} rank{} takes {:.1f} us", Name(op), first.ranks,
                                 first.ranks == 1 ? "" : "s", first.time.us());
  if (op == CollectiveOp::kBarrier) return text + fmt::format(", by {}\n", Name(first.algorithm));
  text += " for " + SizeText(first.bytes);
  if (rows.size() == 1) {
    return text + fmt::format(", {:.1f} GB/s of bus bandwidth, by {}\n", first.bus_bandwidth.gbps(),
                              Name(first.algorithm));
  }
  Bandwidth most;
  for (const CollectiveRow& row : rows) most = std::max(most, row.bus_bandwidth);
  return text + fmt::format(", {:.1f} us for {}; bus bandwidth up to {:.1f} GB/s\n", last.time.us(),
                            SizeText(last.bytes), most.gbps());
}

std::string RowsText(const std::vector<CollectiveRow>& rows, const TextStyle& style) {
  TextTable table({{"size (B)"},
                   {"ranks"},
                   {"algorithm"},
                   {"protocol"},
                   {"network"},
                   {"time (us)"},
                   {"algbw GB/s"},
                   {"busbw GB/s"},
                   {"flows"}});
  for (const CollectiveRow& row : rows) {
    table.AddRow({fmt::format("{}", row.bytes.count()), fmt::format("{}", row.ranks),
                  std::string(Name(row.algorithm)), std::string(Name(row.protocol)),
                  std::string(Name(row.tier)), fmt::format("{:.2f}", row.time.us()),
                  fmt::format("{:.2f}", row.algorithm_bandwidth.gbps()),
                  fmt::format("{:.2f}", row.bus_bandwidth.gbps()), fmt::format("{}", row.flows)});
  }
  return table.Format(style);
}

std::string LinksText(const CollectiveRow& row, const std::vector<LinkKindLoad>& links,
                      const TextStyle& style) {
  TextTable table(
      {{"link", Align::kLeft}, {"GB/s"}, {"links"}, {"most MB"}, {"mean MB"}, {"busy %"}});
  for (const LinkKindLoad& link : links) {
    table.AddRow({link.kind, fmt::format("{:.2f}", link.rate.gbps()), fmt::format("{}", link.links),
                  fmt::format("{:.3f}", link.most.count() * 1e-6),
                  fmt::format("{:.3f}", link.mean().count() * 1e-6),
                  fmt::format("{:.1f}", 100 * link.busy(row.time))});
  }
  return fmt::format(
             "\nLinks at {}, the busiest kind first (* any number; busy: its fullest link, of the "
             "time)\n",
             SizeText(row.bytes)) +
         table.Format(style);
}

std::string FittedText(const PlatformSpec& platform) {
  const CollectiveLibrary& library = platform.library;
  std::string out = fmt::format(
      "library: launch_us {:.3f} channel_GBps {:.3f} network_channel_GBps {:.3f} "
      "exchange_efficiency {:.4f}\n",
      library.launch.us(), library.channel.gbps(), library.network_channel.gbps(),
      library.exchange);
  for (const LinkType& link : platform.links) {
    out += fmt::format("{}: latency_us {:.3f} efficiency {:.4f}\n", link.name, link.latency.us(),
                       link.efficiency);
  }
  return out;
}

// How far off the tables are that took no part in a fit; all where nothing was fitted.
std::string StudyVerdict(std::vector<StudyTable> tables, bool fit) {
  const bool held_out = fit && tables.size() > 1;
  for (StudyTable& t : tables) t.held_out = held_out && t.held_out;
  const ErrorSummary errors = Summarize(tables, held_out);
  return fmt::format("Verdict: {} {}rows: geometric mean of the errors {:.2f} %, max {:.2f} %\n",
                     errors.count, !fit ? "" : (held_out ? "held-out " : "fitted "),
                     errors.gmae_percent, errors.max_percent);
}

// Bus bandwidths beside times, as nccl-tests prints both.
void WritePoints(JsonWriter& json, const StudyTable& table) {
  json.Key("points");
  json.StartArray();
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const MeasuredCollective& row = table.rows[i];
    const double predicted_us = table.predicted[i].us();
    const double gigabytes = RealBytes(row.bytes).count() * BusFactor(row.op, row.ranks) * 1e-9;
    json.StartObject();
    json.Field("bytes", row.bytes.count());
    json.Field("measured_us", row.time.us());
    json.Field("predicted_us", predicted_us);
    json.Field("measured_busbw_GBps", gigabytes / row.time.us() * 1e6);
    json.Field("predicted_busbw_GBps", gigabytes / predicted_us * 1e6);
    json.EndObject();
  }
  json.EndArray();
}

}  // namespace

std::string CollectiveText(CollectiveOp op, const std::vector<CollectiveRow>& rows,
                           const std::vector<LinkKindLoad>& links, const TextStyle& style) {
  std::string out = Verdict(op, rows) + RowsText(rows, style);
  if (!links.empty()) out += LinksText(rows.back(), links, style);
  return out;
}

std::string StudyText(const PlatformSpec* fitted, std::vector<StudyTable> tables,
                      const TextStyle& style) {
  std::string out = StudyVerdict(tables, fitted != nullptr);
  if (fitted != nullptr) out += FittedText(*fitted);
  TextTable table({{"operation", Align::kLeft},
                   {"nodes"},
                   {"ranks"},
                   {"", Align::kLeft},
                   {"rows"},
                   {"GMAE %"},
                   {"MAPE %"},
                   {"max %"}});
  const auto add = [&](std::string_view name, std::string nodes, std::string ranks, bool held_out,
                       const ErrorSummary& errors) {
    table.AddRow({std::string(name), std::move(nodes), std::move(ranks),
                  fitted == nullptr ? ""
                  : held_out        ? "held out"
                                    : "fitted",
                  fmt::format("{}", errors.count), fmt::format("{:.2f}", errors.gmae_percent),
                  fmt::format("{:.2f}", errors.mape_percent),
                  fmt::format("{:.2f}", errors.max_percent)});
  };
  for (StudyTable& t : tables) {
    t.held_out = fitted != nullptr && t.held_out;
    add(Name(t.op), fmt::format("{}", t.nodes), fmt::format("{}", t.ranks), t.held_out, t.errors);
  }
  for (const bool held_out : {false, true}) {
    const ErrorSummary all = Summarize(tables, held_out);
    if (all.count > 0) add("all", "", "", held_out, all);
  }
  return out + table.Format(style);
}

std::string CollectiveJson(const std::vector<CollectiveRow>& rows,
                           const std::vector<LinkKindLoad>& links) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Key("rows");
  json.StartArray();
  for (const CollectiveRow& row : rows) {
    json.StartObject();
    json.Field("bytes", row.bytes.count());
    json.Field("ranks", row.ranks);
    json.Field("algorithm", Name(row.algorithm));
    json.Field("protocol", Name(row.protocol));
    json.Field("network", Name(row.tier));
    json.Field("time_us", row.time.us());
    json.Field("algbw_GBps", row.algorithm_bandwidth.gbps());
    json.Field("busbw_GBps", row.bus_bandwidth.gbps());
    json.Field("flows", row.flows);
    json.EndObject();
  }
  json.EndArray();
  if (!links.empty()) {
    json.Key("link_loads");
    json.StartArray();
    for (const LinkKindLoad& link : links) {
      json.StartObject();
      json.Field("kind", link.kind);
      json.Field("bandwidth_GBps", link.rate.gbps());
      json.Field("links", link.links);
      json.Field("most_bytes", link.most.count());
      json.Field("mean_bytes", link.mean().count());
      json.Field("busy_share", link.busy(rows.back().time));
      json.EndObject();
    }
    json.EndArray();
  }
  json.EndObject();
  return buffer.GetString();
}

std::string StudyJson(const PlatformSpec* fitted, NetworkTier tier,
                      const std::vector<StudyTable>& tables) {
  rapidjson::StringBuffer buffer;
  JsonWriter json(buffer);
  json.StartObject();
  json.Field("network", Name(tier));
  if (fitted != nullptr) {
    json.Field("launch_us", fitted->library.launch.us());
    json.Field("channel_GBps", fitted->library.channel.gbps());
    json.Field("network_channel_GBps", fitted->library.network_channel.gbps());
    json.Field("exchange_efficiency", fitted->library.exchange);
    json.Key("links");
    json.StartArray();
    for (const LinkType& link : fitted->links) {
      json.StartObject();
      json.Field("name", link.name);
      json.Field("latency_us", link.latency.us());
      json.Field("efficiency", link.efficiency);
      json.EndObject();
    }
    json.EndArray();
  }
  json.Key("tables");
  json.StartArray();
  for (const StudyTable& table : tables) {
    json.StartObject();
    json.Field("operation", Name(table.op));
    json.Field("nodes", table.nodes);
    json.Field("ranks", table.ranks);
    json.Field("held_out", table.held_out);
    json.Field("rows", uint64_t{table.rows.size()});
    json.Field("gmae_percent", table.errors.gmae_percent);
    json.Field("mape_percent", table.errors.mape_percent);
    json.Field("max_percent", table.errors.max_percent);
    WritePoints(json, table);
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return buffer.GetString();
}

}  // namespace foretrace
