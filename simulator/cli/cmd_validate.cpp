#include <cstdlib>
#include <memory>

#include "simulator/base/error.h"
#include "simulator/base/statistics.h"
#include "simulator/base/status_macros.h"
#include "simulator/cli/command.h"
#include "simulator/cli/step_errors.h"
#include "simulator/cli/trace_options.h"
#include "simulator/engine/replay.h"

namespace foretrace {
namespace {

struct ValidateOptions {
  TraceOptions traces;
  SimulationOptions simulation;
};

absl::Status Validate(const ValidateOptions& options) {
  FORETRACE_ASSIGN_OR_RETURN(const TraceStore store, options.traces.Load());
  FORETRACE_ASSIGN_OR_RETURN(const SimulationSetup setup,
                             SimulationSetup::Make(options.simulation, store));
  FORETRACE_ASSIGN_OR_RETURN(const Prediction prediction,
                             Predict(store, setup.compile(), setup.network()));
  std::vector<double> errors;
  for (const StepError& e : CompareSteps(store, prediction)) {
    fmt::print("step {:5} rank {:3} measured {:10.1f} predicted {:10.1f} error {:+7.3f}% blocked {:5.1f}% "
               "start err median {:7.1f} p90 {:7.1f}{}\n",
               e.step, store.ranks()[e.rank_index].info().rank, e.measured.us(), e.predicted.us(),
               100 * e.error, 100 * e.blocked_share, e.kernel_start_median_us,
               e.kernel_start_p90_us, e.partial ? " (partial)" : "");
    errors.push_back(e.error);
  }
  for (size_t r = 0; r < prediction.job.reports.size(); ++r) {
    const RankCompileReport& report = prediction.job.reports[r];
    for (size_t c = 0; c < kLaunchClasses; ++c) fmt::print("launch[{}] {:.2f} ({}) ", c, report.latencies.launch[c].us(), report.latencies.launch_samples[c]);
    fmt::print("rank {} gap {:.2f} ({}) event {:.2f} ({}) unexplained {} queue {} unlaunched {} offset {:.1f} skew {:.1f}\n",
               r,
               report.latencies.gap.us(), report.latencies.gap_samples, report.latencies.event.us(),
               report.latencies.event_samples, report.unexplained_blocks, report.queue_full_launches,
               report.unlaunched_device_nodes, report.clock_offset.us(), report.start_skew.us());
    for (int k = 0; k < static_cast<int>(SyncRule::kCount); ++k) {
      const RuleCount& c = report.sync.rules[k];
      if (c.applied) fmt::print("   {} {} viol {} tight {}\n", Name(static_cast<SyncRule>(k)), c.applied, c.violations, c.tight);
    }
    fmt::print("   unresolved {}\n", report.sync.unresolved_waits);
  }
  if (getenv("FT_DEBUG")) {
    const uint32_t dr = static_cast<uint32_t>(atoi(getenv("FT_DEBUG")));
    const auto& rp = prediction.job.program.ranks[dr]; const auto& t = store.ranks()[dr];
    for (uint32_t i = 0; i < rp.items.size(); ++i) {
      const NodeIndex n = rp.items[i].node;
      const double rs = (t.start(n) - t.start(NodeIndex(0))).us();
      const double ps = (prediction.schedule.ranks[dr].start[i] - rp.start).us();
      const double re = (t.end(n) - t.start(NodeIndex(0))).us();
      const double pe = (prediction.schedule.ranks[dr].end[i] - rp.start).us();
      fmt::print("D {} {} kind {} rec {:.1f} pred {:.1f} diff {:+.1f} | end rec {:.1f} pred {:.1f} diff {:+.1f} lead {:.1f} {}\n", i, rp.items[i].lane, static_cast<int>(rp.items[i].kind), rs, ps, ps - rs, re, pe, pe-re, rp.items[i].lead.us(), store.name(t, n).substr(0, 50));
    }
  }
  const ErrorSummary s = SummarizeErrors(errors);
  fmt::print("n {} gmae {:.3f} mape {:.3f} max {:.3f}\n", s.count, s.gmae_percent, s.mape_percent, s.max_percent);
  return absl::OkStatus();
}

}  // namespace

void AddValidateCommand(CLI::App& app, CommandContext& context) {
  auto options = std::make_shared<ValidateOptions>();
  CLI::App* command = app.add_subcommand("validate", "predicted against measured times");
  options->traces.Register(*command, false);
  options->simulation.Register(*command);
  command->callback([options, &context] { context.run = [options] { return Validate(*options); }; });
}

}  // namespace foretrace
