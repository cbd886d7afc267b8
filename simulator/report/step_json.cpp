#include "simulator/report/step_json.h"

#include "simulator/report/report_fields.h"

namespace foretrace {
namespace {

class StepWriter : private ReportFields {
 public:
  StepWriter(const PredictionReport& report, const TraceStore& store, JsonWriter& json)
      : ReportFields(store, json), report_(report) {}

  void Members() {
    Step();
    Absent();
    Unshown();
    ScaleOut();
  }

 private:
  void Step() {
    Key("step");
    if (!report_.step.has_value()) {
      json_.Null();
    } else {
      const StepSummary& step = *report_.step;
      Object([&] {
        Time("period_us", step.period);
        Time("cpu_period_us", step.cpu_period);
        Key("settled");
        json_.Bool(step.settled);
        Int("repetitions", step.copies);
        Known("recorded_period_us", step.recorded_period);
        Time("completion_us", step.completion);
        Known("recorded_completion_us", step.recorded_completion);
        Known("unedited_period_us", step.unedited_period);
      });
    }
    List("sensitivity", report_.sensitivity, [this](const SensitivityRow& row) {
      Object([&] {
        String("kind", row.kind);
        String("name", row.name);
        Int("count", row.count);
        Time("time_us", row.time);
        Number("cost_per_us", row.cost);
        Time("gain_us", row.gain);
      });
    });
    List("difference", report_.causes, [this](const StepCause& cause) {
      Object([&] {
        String("cause", cause.what);
        Time("before_us", cause.before);
        Time("after_us", cause.after);
        Time("difference_us", cause.difference());
      });
    });
  }

  void Absent() {
    Key("absent_ranks");
    if (!report_.absent.has_value()) {
      json_.Null();
      return;
    }
    const AbsentInterval& a = *report_.absent;
    Object([&] {
      Time("lower_us", a.lower());
      Time("upper_us", a.upper());
      Time("never_last_us", a.never_last);
      Time("alike_us", a.alike);
      Time("changed_alike_us", a.changed_alike);
      Time("earliest_us", a.earliest);
      Time("latest_us", a.latest);
      Time("as_recorded_us", a.as_recorded);
      Int("absent", a.absent);
      Int("rendezvous", a.rendezvous);
      Int("communicators", a.communicators);
    });
  }

  void Unshown() {
    Key("unshown_waits");
    if (!report_.unshown.has_value()) {
      json_.Null();
      return;
    }
    const WaitInterval& w = *report_.unshown;
    Object([&] {
      Time("as_taken_us", w.as_taken);
      Time("lower_us", w.least);
      Time("upper_us", w.most);
      Int("waits", w.waits);
      Int("sends", w.sends);
      Int("launches", w.launches);
    });
  }

  void ScaleOut() {
    Key("scale_out");
    if (!report_.scale_out.has_value()) {
      json_.Null();
      return;
    }
    const ScaleOutSummary& s = *report_.scale_out;
    Object([&] {
      Int("ranks", s.ranks);
      Int("recorded_ranks", s.recorded);
      Int("ranks_at_hand", s.at_hand);
      Time("lower_us", s.lower);
      Time("expected_us", s.expected);
      Time("upper_us", s.upper);
      Time("last_at_hand_us", s.last_at_hand);
      Time("last_late_us", s.last_late);
      Time("absent_lower_us", s.absent_lower);
      Time("absent_upper_us", s.absent_upper);
      Number("replay_error_share", s.replay_error);
      Number("supposed_slowdown", s.supposed_slowdown);
      Time("optimizer_before_us", s.optimizer_before);
      Time("optimizer_after_us", s.optimizer_after);
      List("groups", s.groups, [&](const ScaleOutSummary::Group& g) {
        Object([&] {
          String("group", g.communicator);
          Int("from", g.from);
          Int("to", g.to);
          Int("count", g.rendezvous);
          Time("transfer_before_us", g.transfers_before);
          Time("transfer_after_us", g.transfers_after);
          Time("later_us", g.later);
          Key("supposed");
          json_.Bool(g.supposed);
        });
      });
    });
  }

  const PredictionReport& report_;
};

}  // namespace

void WriteStepMembers(const PredictionReport& report, const TraceStore& store, JsonWriter& json) {
  StepWriter(report, store, json).Members();
}

}  // namespace foretrace
