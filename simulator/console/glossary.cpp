#include "simulator/console/glossary.h"

#include "simulator/console/output.h"

namespace foretrace {
namespace {

struct Term {
  std::string_view word;
  std::string_view meaning;
};

constexpr Term kTerms[] = {
    {"alpha-beta model", "time of a transfer as latency plus bytes over bandwidth."},
    {"analytic",
     "of a duration: computed from shapes and the device's peak rates, without a "
     "measurement of this kernel. Compare calibrated, recorded, missing."},
    {"baseline",
     "the busiest stream's summed kernel time: what the iteration would take if that "
     "stream never waited."},
    {"blocked share",
     "the part of an iteration that a rank's main CPU thread spends in calls that "
     "wait for the device. Near zero, a replay of the recording says little: the "
     "CPU is replayed as it was."},
    {"bus bandwidth",
     "algorithm bandwidth times the factor of the operation, as nccl-tests "
     "reports it, so that it compares with the link's rate for any number of "
     "ranks."},
    {"calibrated", "of a duration: from a model fitted to measurements of this device."},
    {"communicator", "the ranks that take part in a collective (a process group)."},
    {"critical path",
     "the chain of work and waits that ends last: shortening anything else does "
     "not shorten the iteration."},
    {"dispatch, combine",
     "of a mixture of experts: sending tokens to the devices that have their experts, and results "
     "back."},
    {"exposed communication",
     "time in which a rank's streams communicate and do not compute, each moment once: exposed "
     "transfer, after the last member has arrived, and waiting for it."},
    {"extrapolated", "outside the sizes that a model was fitted to."},
    {"GMAE", "geometric mean of absolute relative errors, as the papers' tables report it."},
    {"held out", "rows that took no part in a fit and judge it."},
    {"iteration",
     "one training step, by its mark (ProfilerStep), or a serving engine's, by its annotation."},
    {"kind of a wait",
     "what held an item back: launch (the CPU had not issued it), stream (work "
     "before it on its stream), dependency (an event or data of another stream), "
     "collective (another rank came later), network, block (a CPU call that "
     "waits)."},
    {"latecomer", "the rank that reached a collective last, and so made the others wait."},
    {"MFU",
     "model FLOP utilisation: FLOP of the model, of attention those of every key, masked ones "
     "too, over what the devices could do in that time, at the peak of what its GEMMs run in."},
    {"missing", "of a duration: no model gives one; it counts as zero and is listed."},
    {"own transfer time", "of a collective: from its last arrival to its end, without waiting."},
    {"pooling factor", "lookups in an embedding table per sample."},
    {"recorded", "of a duration: as the trace has it."},
    {"rendezvous", "the moment when the last member of a collective arrives."},
    {"roofline", "the larger of FLOP over peak rate and bytes over memory bandwidth."},
    {"start skew", "how far apart ranks begin their iteration."},
    {"stream", "a queue of device work; its items run in order."},
    {"surrogate error", "of a searcher: its own estimate against the simulated time."},
    {"T1..T5",
     "CPU overheads of an operator: between operators (T1), before its first launch "
     "(T2), after its last (T3), of a launch call (T4), between launches (T5)."},
    {"tight",
     "of a rule of synchronisation: how often the dependent work started right when the "
     "awaited work ended, so that the recording confirms the rule."},
    {"world size", "ranks of the job, with a trace or without."},
};

}  // namespace

std::string GlossaryText(size_t width) {
  std::string out;
  for (const Term& term : kTerms) {
    out += std::string(term.word) + "\n    " + Wrapped(term.meaning, width, 4, 4) + "\n";
  }
  return out;
}

std::string GlossaryMarkdown() {
  std::string out =
      "# Glossary\n\nWords of reports and of this documentation; `foretrace help terms` prints "
      "them, and\n`foretrace help terms --markdown` makes this page.\n\n";
  for (const Term& term : kTerms) {
    out += "**" + std::string(term.word) + "**: " + std::string(term.meaning) + "\n\n";
  }
  out.pop_back();
  return out;
}

}  // namespace foretrace
