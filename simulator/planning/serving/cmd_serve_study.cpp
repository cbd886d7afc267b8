// serve-study: the papers' studies of decode parallelism and of drafts, on a platform.

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "simulator/base/error.h"
#include "simulator/base/json_writer.h"
#include "simulator/base/status_macros.h"
#include "simulator/console/command.h"
#include "simulator/console/options.h"
#include "simulator/console/output.h"
#include "simulator/planning/serving/serve_study.h"

namespace foretrace {
namespace {

struct ServeStudyOptions {
  ServeStudy study;
  // What the command line has as numbers of a unit, for StudyOf.
  double table_us = study.table.us(), host_us = study.host.us();
  double draft_us = study.draft.us(), target_us = study.target.us();
  double link_gbps = study.link.gbps(), hop_ns = study.hop.ns();
  bool json = false;
  // Of these options, the first that was given.
  std::function<std::string(std::initializer_list<const char*>)> first_given;
};

// Options of other studies are not given.
absl::Status CheckOptions(const ServeStudyOptions& o) {
  struct Group {
    std::vector<std::string_view> studies;
    std::initializer_list<const char*> options;
  };
  const Group groups[] = {
      {{"volumes", "decode", "phases"}, {"--model"}},
      {{"decode"}, {"--platform", "--spread", "--table-us", "--host-us"}},
      {{"decode", "phases"}, {"--devices"}},
      {{"phases"}, {"--accelerator", "--link-gbps", "--hop-ns", "--reach", "--prompt"}},
      {{"drafts"}, {"--draft-us", "--target-us"}}};
  for (const Group& group : groups) {
    if (std::find(group.studies.begin(), group.studies.end(), o.study.study) !=
        group.studies.end()) {
      continue;
    }
    const std::string given = o.first_given(group.options);
    if (given.empty()) continue;
    return InvalidInput("{} would change nothing: it is of the study {}, not of {}", given,
                        fmt::join(group.studies, " and "), o.study.study);
  }
  return absl::OkStatus();
}

double NumberOf(const StudyRow& row, std::string_view name) {
  const auto cell =
      std::ranges::find(row, name, [](const auto& c) { return std::string_view(c.first); });
  return std::get<double>(cell->second);
}

// Of the rows in which `name` is `value`, the one with the most of `most`.
const StudyRow& Best(const std::vector<StudyRow>& rows, std::string_view name, double value,
                     std::string_view most) {
  const StudyRow* best = nullptr;
  for (const StudyRow& row : rows) {
    if (!name.empty() && NumberOf(row, name) != value) continue;
    if (best == nullptr || NumberOf(row, most) > NumberOf(*best, most)) best = &row;
  }
  return *best;
}

// What the study is made for, at both ends of its range.
std::string Verdict(const std::string& study, const std::vector<StudyRow>& rows) {
  const StudyRow& first = rows.front();
  const StudyRow& last = rows.back();
  if (study == "volumes") {
    return fmt::format(
        "Verdict: on {:.0f} devices at a batch of {:.0f}, dividing the cache moves {:.1f} % of "
        "what dividing tensors does; on {:.0f} at {:.0f}, {:.1f} %\n",
        NumberOf(first, "devices"), NumberOf(first, "batch"),
        100 * NumberOf(first, "kvp_thesis") / NumberOf(first, "tp_thesis"),
        NumberOf(last, "devices"), NumberOf(last, "batch"),
        100 * NumberOf(last, "kvp_thesis") / NumberOf(last, "tp_thesis"));
  }
  if (study == "phases") {
    const StudyRow& prompt = Best(rows, "", 0, "prefill_tokens_per_s");
    const StudyRow& token = Best(rows, "", 0, "decode_tokens_per_s");
    return fmt::format(
        "Verdict: prompts are fastest by tp{:.0f} pp{:.0f}, {:.0f} tokens/s; decodes by tp{:.0f} "
        "pp{:.0f}, {:.0f} tokens/s\n",
        NumberOf(prompt, "tp"), NumberOf(prompt, "pp"), NumberOf(prompt, "prefill_tokens_per_s"),
        NumberOf(token, "tp"), NumberOf(token, "pp"), NumberOf(token, "decode_tokens_per_s"));
  }
  const bool drafts = study == "drafts";
  const std::string_view over = drafts ? "acceptance" : "context";
  const std::string_view rate = drafts ? "sequence_tokens_per_s" : "tokens_per_s";
  std::string text;
  for (const double value : {NumberOf(first, over), NumberOf(last, over)}) {
    const StudyRow& best = Best(rows, over, value, rate);
    text += text.empty() ? "Verdict: " : "; ";
    text +=
        drafts ? fmt::format("at an acceptance of {:.1f} a window of {:.0f} is the fastest", value,
                             NumberOf(best, "window"))
               : fmt::format("at a context of {:.0f} the fastest is {} with a batch of {:.0f}",
                             value, std::get<std::string>(best[2].second), NumberOf(best, "batch"));
    text += fmt::format(", {:.0f} tokens/s", NumberOf(best, rate));
  }
  return text + "\n";
}

std::string Text(const std::vector<StudyRow>& rows, const TextStyle& style) {
  std::vector<TextTable::Column> columns;
  for (const auto& [name, value] : rows.front()) columns.push_back({name});
  TextTable table(std::move(columns));
  for (const StudyRow& row : rows) {
    std::vector<std::string> cells;
    for (const auto& [name, value] : row) {
      const double* number = std::get_if<double>(&value);
      cells.push_back(number == nullptr       ? std::get<std::string>(value)
                      : name == "acceptance"  ? fmt::format("{:.1f}", *number)
                      : name.ends_with("_ms") ? fmt::format("{:.3f}", *number)
                                              : fmt::format("{:.0f}", *number));
    }
    table.AddRow(std::move(cells));
  }
  return table.Format(style);
}

std::string Json(const std::string& study, const std::vector<StudyRow>& rows,
                 const std::vector<std::string>& notes) {
  rapidjson::StringBuffer buffer;
  PrettyJsonWriter out(buffer);
  out.StartObject();
  out.Field("study", study);
  if (!notes.empty()) out.Field("notes", notes);
  out.Key("rows");
  out.StartArray();
  for (const StudyRow& row : rows) {
    out.StartObject();
    for (const auto& cell : row) {
      std::visit([&](const auto& value) { out.Field(cell.first, value); }, cell.second);
    }
    out.EndObject();
  }
  out.EndArray();
  out.EndObject();
  return buffer.GetString();
}

ServeStudy StudyOf(const ServeStudyOptions& o) {
  ServeStudy study = o.study;
  study.table = RealUs(o.table_us);
  study.host = RealUs(o.host_us);
  study.draft = RealUs(o.draft_us);
  study.target = RealUs(o.target_us);
  study.link = Bandwidth::GBps(o.link_gbps);
  study.hop = RealNs(o.hop_ns);
  return study;
}

absl::Status RunServeStudy(const ServeStudyOptions& options, const CommandContext& context) {
  FORETRACE_RETURN_IF_ERROR(CheckOptions(options));
  std::vector<std::string> notes;
  FORETRACE_ASSIGN_OR_RETURN(const std::vector<StudyRow> rows, RowsOf(StudyOf(options), notes));
  FORETRACE_RETURN_IF_ERROR(
      context.WriteAnswer("serve-study", [&] { return Json(options.study.study, rows, notes); }));
  if (options.json) {
    return context.console->PrintJson("serve-study", Json(options.study.study, rows, notes));
  }
  std::string text = Verdict(options.study.study, rows) + Text(rows, context.console->style());
  for (const std::string& note : notes) text += "Note: " + note + "\n";
  return context.console->Print(text);
}

// Of prompts and tokens on dataflow devices.
void RegisterPhases(CLI::App& command, ServeStudyOptions& o) {
  command
      .add_option("--accelerator", o.study.accelerator,
                  "phases: the device, a name in topologies/accelerators/")
      ->capture_default_str();
  command.add_option("--link-gbps", o.link_gbps, "phases: GB/s of a link of the devices' ring")
      ->check(CLI::Range(1e-3, 1e6))
      ->capture_default_str();
  command.add_option("--hop-ns", o.hop_ns, "phases: latency of a link")
      ->check(CLI::Range(0.0, 1e9))
      ->capture_default_str();
  command
      .add_option("--reach", o.study.reach, "phases: share of the device's rate that it reaches")
      ->check(CLI::Range(1e-3, 1.0))
      ->capture_default_str();
  command.add_option("--prompt", o.study.prompt, "phases: tokens of the prompt")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
}

}  // namespace

void AddServeStudyCommand(CLI::App& app, CommandContext& context) {
  auto o = std::make_shared<ServeStudyOptions>();
  CLI::App* command = app.add_subcommand(
      "serve-study",
      "studies of decode: volumes and steps of cache, tensor and data parallelism; "
      "prompts and tokens on dataflow devices; drafts over window and acceptance");
  o->first_given = [command](std::initializer_list<const char*> names) {
    return command->FirstGiven(names);
  };
  command->add_option("study", o->study.study, "volumes, decode, phases or drafts")
      ->required()
      ->check(CLI::IsMember({"volumes", "decode", "phases", "drafts"}));
  command
      ->add_option("--platform", o->study.platform,
                   "platform file, or the name of one in topologies/")
      ->capture_default_str();
  command
      ->add_option("--model", o->study.model,
                   "workload file, or the name of one in traces/workloads/")
      ->capture_default_str();
  command
      ->add_option("--devices", o->study.devices,
                   "decode: that share the layer; phases: of the system")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command
      ->add_option("--spread", o->study.spread,
                   "decode: keys and values of the fullest replica over the mean, less 1")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--table-us", o->table_us, "decode: host time of 1,000 blocks of a table")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--host-us", o->host_us, "decode: host time of a step otherwise")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command->add_option("--draft-us", o->draft_us, "drafts: a step of the draft model")
      ->check(CLI::Range(0.001, 1e9))
      ->capture_default_str();
  command->add_option("--target-us", o->target_us, "drafts: a step of the target model")
      ->check(CLI::Range(0.001, 1e9))
      ->capture_default_str();
  RegisterPhases(*command, *o);
  command->add_flag("--json", o->json, "one JSON document instead of a table");
  command->footer(Examples({
      "foretrace serve-study volumes",
      "foretrace serve-study decode --platform dgx-a100 --devices 4",
      "foretrace serve-study phases --model llama3-8b --devices 16",
      "foretrace serve-study drafts --draft-us 81.1 --target-us 31507",
  }));
  command->callback(
      [o, &context] { context.run = [o, &context] { return RunServeStudy(*o, context); }; });
}

}  // namespace foretrace
