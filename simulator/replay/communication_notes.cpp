#include "simulator/replay/communication_notes.h"

#include "simulator/base/counted.h"
#include "simulator/base/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace foretrace {
namespace {

constexpr int kListed = 4;

void NoteClocks(const TraceStore& store, const CompiledJob& job, std::vector<std::string>& notes) {
  std::string text;
  int corrected = 0;
  for (size_t r = 0; r < job.reports.size(); ++r) {
    const SimTime offset = job.reports[r].clock_offset;
    if (offset == SimTime()) continue;
    if (++corrected > kListed) continue;
    text += fmt::format("{}rank {} by {:+.1f} us", text.empty() ? "" : ", ",
                        store.ranks()[r].info().rank, offset.us());
  }
  if (corrected == 0) return;
  notes.push_back(fmt::format(
      "clocks of {} ranks are corrected, so that what ranks do together ends together: {}{}",
      corrected, text, corrected > kListed ? ", ..." : ""));
}

// Groups and partners that only the ends of kernels say, where there was a choice.
void NoteInferred(const CompiledJob& job, std::vector<std::string>& notes) {
  std::string names;
  int groups = 0;
  for (const MatchedCommunicator& c : job.communicators.communicators) {
    if (c.declared || c.ranks.size() < 2) continue;
    if (++groups <= kListed) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", c.name);
  }
  if (groups < 2) return;
  notes.push_back(fmt::format(
      "who is in {} communicators is inferred from when kernels end, for no trace names it ({}{}); "
      "where that is wrong, so are what-ifs: declare groups and exchanges with --process-groups "
      "FILE",
      groups, names, groups > kListed ? ", ..." : ""));
}

// Kernels that communicate otherwise than by collectives that can be matched.
void NotePeerKernels(const TraceStore& store, const CompiledJob& job,
                     std::vector<std::string>& notes) {
  if (job.symbolic || store.world_size() < 2) return;
  int64_t kernels = 0;
  SimTime total, longest;
  std::string_view name;
  for (const RankTrace& rank : store.ranks()) {
    for (uint32_t i = 0; i < rank.size(); ++i) {
      const NodeIndex n(i);
      if (rank.kind(n) != NodeKind::kKernel || !store.roles().of_kernel(rank.name(n)).peers) {
        continue;
      }
      ++kernels;
      total += rank.duration(n);
      if (rank.duration(n) <= longest) continue;
      longest = rank.duration(n);
      name = store.name(rank, n);
    }
  }
  if (kernels == 0) return;
  notes.push_back(fmt::format(
      "{} of {:.3f} ms in all ({}) exchange data with other ranks by other means than NCCL and "
      "RCCL: what they waited for these is in their recorded durations, which no change moves, and "
      "they count as computation",
      Counted(kernels, "kernel"), total.us() * 1e-3, Excerpt(name, 60)));
}

// Symbolic communication that others should take part in has no duration to fall back on.
void NoteAbsentOfSymbolic(const TraceStore& store, const CompiledJob& job,
                          std::vector<std::string>& notes) {
  if (!job.symbolic) return;
  int64_t modelled = 0, alone = 0;
  for (const MatchedRendezvous& rendezvous : job.communicators.rendezvous) {
    const MatchedRendezvous::Member& one = rendezvous.members.front();
    if (rendezvous.missing_members == 0 || store.ranks()[one.rank].has_duration(one.node)) continue;
    const bool declared = job.communicators.communicators[rendezvous.communicator].declared;
    (declared ? modelled : alone) += 1;
  }
  if (modelled > 0) {
    notes.push_back(fmt::format(
        "{} rendezvous with ranks without a trace begin when the ranks at hand are there",
        modelled));
  }
  if (alone > 0) {
    notes.push_back(
        fmt::format("{} rendezvous meet nobody and take no time, for nothing says who is in their "
                    "groups: declare these with --process-groups FILE",
                    alone));
  }
}

}  // namespace

std::vector<std::string> CommunicationNotes(const TraceStore& store, const CompiledJob& job) {
  std::vector<std::string> notes;
  if (job.absent_rendezvous > 0) {
    notes.push_back(
        fmt::format("{} of {} ranks have a trace; {} rendezvous with the others rest on their "
                    "recorded durations "
                    "and on what --absent assumes",
                    store.ranks().size(), store.world_size(), job.absent_rendezvous));
  }
  NoteAbsentOfSymbolic(store, job, notes);
  if (job.communicators.unmatched > 0) {
    notes.push_back(
        fmt::format("{} communication operations have no partner in the recording; they keep their "
                    "recorded durations, waiting included, and their steps count as partial",
                    job.communicators.unmatched));
  }
  if (job.impossible_transfers > 0) {
    notes.push_back(
        fmt::format("{} transfers seem to have arrived before they were sent; their "
                    "receivers do not wait for them",
                    job.impossible_transfers));
  }
  NotePeerKernels(store, job, notes);
  NoteInferred(job, notes);
  for (const std::string& doubt : job.communicators.doubts) notes.push_back(doubt);
  NoteClocks(store, job, notes);
  return notes;
}

std::optional<std::string> DoubtOfClocks(const TraceStore& store, const CompiledJob& job) {
  for (size_t r = 0; r < job.reports.size(); ++r) {
    if (!job.reports[r].clock_bounded) continue;
    return fmt::format(
        "clocks of ranks are apart (rank {} seems at least {:.1f} us behind), and nothing shows by "
        "how much, so that nothing shows by how much ranks waited for each other",
        store.ranks()[r].info().rank, job.reports[r].clock_offset.us());
  }
  if (job.impossible_transfers == 0) return std::nullopt;
  return fmt::format(
      "{} transfers arrived before they were sent by the clocks recorded, and nothing shows how "
      "far "
      "these are apart",
      job.impossible_transfers);
}

std::optional<std::string> NoteOfClocks(const TraceStore& store, const CompiledJob& job) {
  int unknown = 0;
  int32_t first = 0;
  for (size_t r = 0; r < job.reports.size(); ++r) {
    if (!job.reports[r].clock_unknown) continue;
    if (unknown++ == 0) first = store.ranks()[r].info().rank;
  }
  if (unknown == 0) return std::nullopt;
  return fmt::format(
      "nothing that ranks do together shows whether the clocks of {} of them (the first: rank {}) "
      "agree with the others'; that they do is assumed, and what a change on one rank does to "
      "another is as uncertain as that",
      unknown, first);
}

std::optional<std::string> NoteOfClockNoise(const CompiledJob& job, SimTime least) {
  SimTime earliest, latest;
  for (const RankCompileReport& report : job.reports) {
    earliest = std::min(earliest, report.clock_noise);
    latest = std::max(latest, report.clock_noise);
  }
  if (latest - earliest <= least) return std::nullopt;
  return fmt::format(
      "what ranks do together ends up to {:.1f} us apart, by which one clock can be wrong and "
      "which "
      "is not corrected; if clocks differ, each time that a change makes one rank wait for another "
      "is off by as much",
      (latest - earliest).us());
}

}  // namespace foretrace
