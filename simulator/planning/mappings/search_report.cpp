#include "simulator/planning/mappings/search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "simulator/base/gib.h"
#include "simulator/exporters/timeline/timeline_writer.h"
#include "simulator/mapping/reserved_memory.h"

namespace foretrace {
namespace {

double Gap(const SearchRow& row) {
  return 100 * (row.estimate.seconds() / row.evaluation.iteration.seconds() - 1);
}

// Where the simulated time stands in a row, if there is one.
constexpr std::ptrdiff_t kSimulatedColumn = 2;

// Is not named where all rows are its.
constexpr std::string_view kUsual = "exhaustive";

std::string Milliseconds(SimTime time) { return fmt::format("{:.3f}", time.us() * 1e-3); }

// Whether GEMMs take fewer bits than the model's type has.
bool IsNarrow(const SearchRow& row) {
  return row.utilisation_of_model_type != row.evaluation.model_flop_utilisation;
}

// Of which peaks utilisation is, and what it would be over the model's own type's; empty: of that.
std::string PeaksText(std::span<const SearchRow> rows) {
  std::string text;
  std::vector<std::string> said;
  for (const SearchRow& row : rows) {
    if (!IsNarrow(row) || std::ranges::find(said, row.arithmetic) != said.end()) continue;
    said.push_back(row.arithmetic);
    text += fmt::format(
        "{} {} {:.0f} TFLOP/s (over that of the model's type, as some publish it, "
        "times {:.2f})",
        text.empty() ? "MFU: of the peak of what GEMMs of layers run in:" : ",", row.arithmetic,
        row.peak.per_second() * 1e-12,
        row.utilisation_of_model_type / row.evaluation.model_flop_utilisation);
  }
  return text.empty() ? text : text + "\n";
}

bool Estimated(std::span<const SearchRow> rows) {
  return std::ranges::any_of(rows, [](const SearchRow& r) { return r.estimate > SimTime(); });
}

// What mappings are called may be longer than a line, so that it comes last. `estimated`: searchers
// have estimates of their own.
std::vector<TextTable::Column> Columns(const std::string& network, bool estimated) {
  using Align = TextTable::Align;
  std::vector<TextTable::Column> columns = {{""},    {"ms"},       {"samples/s"}, {"MFU %"},
                                            {"GiB"}, {"bubble %"}, {"exposed %"}};
  if (estimated) columns.push_back({"surrogate %"});
  columns.push_back({"searcher", Align::kLeft});
  columns.push_back({"mapping", Align::kLeft});
  if (!network.empty()) {
    columns.insert(columns.begin() + kSimulatedColumn, {network + " ms"});
  }
  return columns;
}

std::vector<std::string> Cells(const SearchRow& row, size_t number, bool simulated,
                               bool estimated) {
  const Evaluation& e = row.evaluation;
  std::vector<std::string> cells = {fmt::format("{}", number),
                                    Milliseconds(e.iteration),
                                    fmt::format("{:.2f}", row.throughput),
                                    fmt::format("{:.1f}", 100 * e.model_flop_utilisation),
                                    fmt::format("{:.1f}", Gib(e.memory)),
                                    fmt::format("{:.1f}", 100 * e.bubble),
                                    fmt::format("{:.1f}", 100 * e.exposed_communication)};
  if (estimated) {
    cells.push_back(row.estimate > SimTime() ? fmt::format("{:+.1f}", Gap(row)) : "-");
  }
  cells.push_back(row.searcher == kUsual ? std::string() : row.searcher);
  cells.push_back(row.text);
  if (simulated) {
    cells.insert(cells.begin() + kSimulatedColumn,
                 row.simulated > SimTime() ? Milliseconds(row.simulated) : "-");
  }
  return cells;
}

// Tables of both would be the same.
bool SameShown(std::span<const SearchRow> a, std::span<const SearchRow> b, size_t top) {
  const auto shown = [&](std::span<const SearchRow> rows) {
    return rows.first(std::min(top, rows.size()));
  };
  return std::ranges::equal(shown(a), shown(b), {}, &SearchRow::text, &SearchRow::text);
}

// Empty: the CPU bounds no iteration of it.
std::string WaitForCpu(const SearchRow& row) {
  if (row.cpu == SimTime()) return "";
  return fmt::format(
      "the CPU bounds it, which takes {} ms to start its kernels on the host that its software was "
      "measured on",
      Milliseconds(row.cpu));
}

// The best, and by how much.
std::string Verdict(const SearchReport& report) {
  if (report.rows.empty()) return "Verdict: no mapping was found\n";
  const auto time = [](const SearchRow& row) {
    return row.simulated > SimTime() ? row.simulated : row.evaluation.iteration;
  };
  const SearchRow& best = report.rows.front();
  std::string text =
      fmt::format("Verdict: {} takes {} ms an iteration, {:.2f} samples/s", best.text,
                  Milliseconds(time(best)), report.global_batch / time(best).seconds());
  // Several searchers may have found the same.
  const auto next = std::ranges::find_if(report.rows, [&](const SearchRow& row) {
    return row.text != best.text || time(row) != time(best);
  });
  if (next != report.rows.end()) {
    text += fmt::format("; the next, {}, takes {:.1f} % longer", next->text,
                        100 * (time(*next).seconds() / time(best).seconds() - 1));
  }
  const std::string wait = WaitForCpu(best);
  if (!wait.empty()) text += "; " + wait;
  const std::string overflow = Overflow(report, best);
  if (overflow.empty()) return text + "\n";
  text += "; " + overflow;
  const auto fits = std::ranges::find_if(report.rows, [&](const SearchRow& row) {
    return row.reserved > Bytes() && Overflow(report, row).empty();
  });
  if (fits != report.rows.end()) {
    text += fmt::format("; the fastest with room, {}, takes {:.1f} % longer", fits->text,
                        100 * (time(*fits).seconds() / time(best).seconds() - 1));
  }
  return text + "\n";
}

std::string NotesText(const SearchReport& report) {
  std::string text = report.notes.empty() ? "" : "\n";
  for (const std::string& note : report.notes) text += "Note: " + note + "\n";
  return text;
}

// Of what a report is.
std::string JobText(const SearchReport& report) {
  const std::string tokens =
      report.sequence > 0 ? fmt::format(" of {} tokens", report.sequence) : "";
  return fmt::format("{} on {} devices, {} samples{} an iteration\n", report.workload,
                     report.devices, report.global_batch, tokens);
}

}  // namespace

std::string Overflow(const SearchReport& report, const SearchRow& row) {
  if (row.reserved == Bytes() || !Overflows(row.reserved, report.device_memory)) return "";
  return fmt::format(
      "PyTorch's allocator would reserve {:.1f} GiB for its tensors of {:.1f}, with the context "
      "and "
      "NCCL's buffers more than the device's {:.1f}, so that it may run out of memory",
      Gib(row.reserved), Gib(row.evaluation.memory), Gib(report.device_memory));
}

double Joules(const SearchReport& report, const SearchRow& row) {
  return report.device_watts * static_cast<double>(report.devices) *
         row.evaluation.iteration.seconds();
}

std::string SearchText(const SearchReport& report, size_t top, const TextStyle& style) {
  std::string text = Verdict(report);
  text += JobText(report) + "\n";
  const bool estimated = Estimated(report.rows);
  TextTable table(Columns(report.network, estimated));
  for (size_t i = 0; i < report.rows.size() && i < top; ++i) {
    table.AddRow(Cells(report.rows[i], i + 1, !report.network.empty(), estimated));
  }
  text += table.Format(style);
  text += fmt::format(
      "exposed: a device only communicates{}\n",
      estimated ? "; surrogate: the searcher's own estimate against the simulated time" : "");
  const std::span<const SearchRow> rows = report.rows;
  text += PeaksText(rows.first(std::min(top, rows.size())));
  if (!report.network.empty()) {
    text += fmt::format(
        "{} ms: the same mapping's traces on the event engine, where transfers share links; it "
        "orders the rows, the other columns are of the closed forms\n",
        report.network);
  }
  if (report.device_watts > 0 && !report.rows.empty()) {
    const double joules = Joules(report, report.rows.front());
    text += fmt::format(
        "energy of the first, at most: {:.2f} kJ an iteration, {:.1f} J a sample, by {} devices' "
        "rated {:.0f} W\n",
        joules / 1e3, joules / std::max(report.global_batch, 1), report.devices,
        report.device_watts);
  }
  if (report.sequence > 0 && !report.rows.empty()) {
    const SearchRow& first = report.rows.front();
    const SimTime time = first.simulated > SimTime() ? first.simulated : first.evaluation.iteration;
    const double tokens = static_cast<double>(report.global_batch) *
                          static_cast<double>(report.sequence) / time.seconds();
    text += fmt::format("tokens of the first: {:.0f} a second; {:.3g} device hours for 10^9\n",
                        tokens, static_cast<double>(report.devices) * 1e9 / tokens / 3600);
  }
  if (report.pareto.size() > 1 && !SameShown(report.rows, report.pareto, top)) {
    text += "\nTime against memory: the fastest, and each next one that needs less\n";
    TextTable front(Columns("", false));
    for (size_t i = 0; i < report.pareto.size() && i < top; ++i)
      front.AddRow(Cells(report.pareto[i], i + 1, false, false));
    text += front.Format(style);
  }
  for (const std::string& failure : report.failures) text += "no plan: " + failure + "\n";
  if (report.candidates > 0) {
    text += fmt::format("{} candidates: {} evaluated, {} do not fit, {} cannot be among the best\n",
                        report.candidates, report.evaluated, report.infeasible, report.pruned);
    if (report.local_steps > 0) {
      text += fmt::format("local search from the best: {} steps{}\n", report.local_steps,
                          report.rows.front().searcher == "local" ? "" : ", nothing better");
    }
  }
  text += NotesText(report);
  if (report.interrupted) {
    text += "INTERRUPTED: the best so far; with --journal the same command goes on from here\n";
  }
  return text;
}

std::string CompareText(const SearchReport& report, const TextStyle& style) {
  using Align = TextTable::Align;
  const SearchRow &a = report.rows[0], &b = report.rows[1];
  TextTable table({{"", Align::kLeft}, {"A"}, {"B"}, {"B - A"}});
  const auto row = [&](const char* what, double x, double y, const char* format) {
    table.AddRow(
        {what, fmt::format(fmt::runtime(format), x), fmt::format(fmt::runtime(format), y),
         fmt::format("{}{}", y >= x ? "+" : "", fmt::format(fmt::runtime(format), y - x))});
  };
  const Evaluation &x = a.evaluation, &y = b.evaluation;
  row("iteration ms", x.iteration.us() * 1e-3, y.iteration.us() * 1e-3, "{:.3f}");
  if (a.simulated > SimTime() && b.simulated > SimTime()) {
    row("simulated ms", a.simulated.us() * 1e-3, b.simulated.us() * 1e-3, "{:.3f}");
  }
  row("samples/s", a.throughput, b.throughput, "{:.2f}");
  row("MFU %", 100 * x.model_flop_utilisation, 100 * y.model_flop_utilisation, "{:.1f}");
  if (IsNarrow(a) || IsNarrow(b)) {
    row("MFU % of the model's type", 100 * a.utilisation_of_model_type,
        100 * b.utilisation_of_model_type, "{:.1f}");
  }
  row("memory GiB", Gib(x.memory), Gib(y.memory), "{:.1f}");
  if (a.reserved > Bytes() && b.reserved > Bytes()) {
    row("reserved GiB", Gib(a.reserved), Gib(b.reserved), "{:.1f}");
  }
  row("bubble %", 100 * x.bubble, 100 * y.bubble, "{:.1f}");
  row("exposed %", 100 * x.exposed_communication, 100 * y.exposed_communication, "{:.1f}");
  if (report.device_watts > 0) {
    const auto kilojoules = [&](const SearchRow& each) { return Joules(report, each) / 1e3; };
    row("energy kJ, at most", kilojoules(a), kilojoules(b), "{:.2f}");
  }
  std::string text = fmt::format("Verdict: B takes {:.3f} times as long as A",
                                 y.iteration.seconds() / x.iteration.seconds());
  for (const SearchRow* each : {&a, &b}) {
    const std::string overflow = Overflow(report, *each);
    const std::string wait = WaitForCpu(*each);
    const char* side = each == &a ? "A" : "B";
    if (!wait.empty()) text += fmt::format("; {}: {}", side, wait);
    if (!overflow.empty()) text += fmt::format("; {}: {}", side, overflow);
  }
  text += fmt::format("\nA: {}\nB: {}\n", a.text, b.text) + JobText(report) + table.Format(style) +
          PeaksText(report.rows);
  if (report.device_watts > 0) {
    text += fmt::format("energy: of an iteration, by {} devices' rated {:.0f} W\n", report.devices,
                        report.device_watts);
  }
  return text + NotesText(report);
}

std::string SourcesNote(std::string_view of, const CostSources& sources) {
  if (sources.share(EstimateSource::kCalibrated) == 0) {
    return fmt::format("kernels of {}: by closed forms alone, nothing is calibrated", of);
  }
  return fmt::format(
      "kernels of {}: {:.0f} % of their time by a calibration, {:.0f} % of it all for shapes "
      "beyond "
      "what was measured (extrapolated)",
      of, 100 * sources.share(EstimateSource::kCalibrated), 100 * sources.extrapolated_share());
}

absl::Status WritePictureTimeline(const std::string& path, const PipelinePicture& picture) {
  const auto writer = MakeTimelineWriter(path);
  writer->Process(1, picture.title, "simulated pipeline", 0);
  for (size_t s = 0; s < picture.lanes.size(); ++s) {
    const TimelineWriter::Track track{1, static_cast<int32_t>(s) + 1};
    writer->Thread(track, picture.lanes[s].name, static_cast<int32_t>(s));
    for (const PictureBox& box : picture.lanes[s].boxes) {
      const bool forward = box.kind == PassKind::kForward;
      const char* what = forward                                 ? "forward"
                         : box.kind == PassKind::kBackwardWeight ? "weight gradient"
                                                                 : "backward";
      const TimelineArg args[] = {{"microbatch", box.microbatch}, {"chunk", box.chunk}};
      writer->Slice(track, TimelineText(fmt::format("{} {}", what, box.microbatch)),
                    forward ? "forward" : "backward", box.start, box.end, args);
    }
  }
  return writer->Close();
}

}  // namespace foretrace
