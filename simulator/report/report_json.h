#pragma once
// The machine-readable form of a report.

#include <string>

#include "simulator/base/json_writer.h"
#include "simulator/report/prediction_report.h"
#include "simulator/trace/rank_trace.h"

namespace foretrace {

// Writes the members of the report into the object that is open in `json`, so that a command may
// add its own. Times are in microseconds, keys end in _us; shares are fractions of 1; `rank` is the
// global rank number. Members, with what the key names do not say:
//   iteration, iteration_time_us, recorded_iteration_time_us (null without recorded times),
//   step_time_us (the verdict: in steady state where one is known, else the iteration's),
//   baseline_us, by_completion (the step is not taken between its marks but from the completion of
//     the step before, of a first step from its begin mark, to its own: so are baseline_us,
//     absent_ranks, the window of ranks[] and what follows it, sources, durations, communicators,
//     critical_path, top_kernels, top_ops, and the device's part of --by; never
//     iteration_time_us, iterations[] and blocked_share),
//   synthetic, notes[],
//   step (null: no steady state is known): period_us, cpu_period_us, settled, repetitions,
//     recorded_period_us, completion_us, recorded_completion_us, unedited_period_us
//   absent_ranks (null: all ranks have a trace, or it does not matter): lower_us, upper_us,
//     never_last_us, alike_us, changed_alike_us, earliest_us, latest_us, as_recorded_us,
//     absent, rendezvous, communicators
//   unshown_waits (null: nothing changed, or the recording shows what all waits wait for):
//     as_taken_us, lower_us, upper_us, waits
//   scale_out (null without --ranks): ranks, recorded_ranks, ranks_at_hand, lower_us, expected_us,
//     upper_us (of all that follows), last_at_hand_us, last_late_us, absent_lower_us,
//     absent_upper_us (0: no rank lacks a trace), replay_error_share, supposed_slowdown,
//     optimizer_before_us, optimizer_after_us (0: not sharded), groups[]: group, from, to, count,
//     transfer_before_us, transfer_after_us, later_us, supposed
//   sensitivity[] (with --sensitivity): kind, name, count, time_us, cost_per_us, gain_us
//   difference[] (with --what-if, along the critical paths, always from completion to completion or
//     from the begin mark until the work is done): cause, before_us, after_us, difference_us
//   iterations[]: unedited_iteration_time_us (null without --what-if), number, phase (of a serving
//     engine's step alone), iteration_time_us, recorded_iteration_time_us, slowest_rank
//   ranks[]: rank, iteration_time_us, recorded_iteration_time_us, blocked_share (of these),
//     window_us, recorded_window_us (of which all that follows is; the same without
//     by_completion; null without recorded times), busy_us, idle_us,
//     computation_us, communication_us, transfer_us, exposed_communication_us, exposed_transfer_us,
//     overlapped_share, streams[]: stream, nodes, busy_share, work_us {group: time}, idle_us
//     {cause: time}
//   sources {recorded, calibrated, analytic, missing}: shares of critical-path time
//   communicators[]: group (null: not declared), operation, members, count, bytes, transfer_us,
//     wait_us, worst_wait_us, worst_rank, worst_rank_wait_us, latecomers[]: rank, times_last,
//     caused_wait_us
//   critical_path: rank, total_us, activities_us {}, groups_us {}, ranks_us[] {rank, time_us},
//     runs[]: in order of time: rank, lane, kind, group (null on the CPU), name, nodes, start_us
//     (from the start of the path), time_us, latency_us
//   top_kernels[], top_ops[]: name, count, time_us, share
void WriteReportMembers(const PredictionReport& report, const TraceStore& store, JsonWriter& json);

// One JSON object, with no line end.
std::string ReportJson(const PredictionReport& report, const TraceStore& store);

}  // namespace foretrace
