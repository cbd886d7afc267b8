#include "tests/support/store_equality.h"

#include <fmt/format.h>

#include <algorithm>

namespace foretrace {
namespace {

class Comparison {
 public:
  Comparison(const TraceStore& a, const TraceStore& b) : a_(a), b_(b) {}

  std::string Run() {
    Check(a_.ranks().size() == b_.ranks().size(), "number of ranks");
    Check(a_.world_size() == b_.world_size(), "world size");
    CheckGroups();
    for (size_t i = 0; difference_.empty() && i < a_.ranks().size(); ++i) {
      CheckRank(a_.ranks()[i], b_.ranks()[i]);
    }
    return difference_;
  }

 private:
  void Check(bool equal, const std::string& what) {
    if (!equal && difference_.empty()) difference_ = where_ + what;
  }
  static bool Equal(const ProcessGroup& x, const ProcessGroup& y) {
    return x.name == y.name && x.description == y.description && x.ranks == y.ranks;
  }
  void CheckGroups() {
    Check(a_.process_groups().size() == b_.process_groups().size(), "number of process groups");
    if (!difference_.empty()) return;
    for (auto i = a_.process_groups().begin(), j = b_.process_groups().begin();
         i != a_.process_groups().end(); ++i, ++j) {
      Check(Equal(*i, *j), "process group " + i->name);
    }
  }
  void CheckRank(const RankTrace& x, const RankTrace& y) {
    where_ = fmt::format("rank {}: ", x.info().rank);
    Check(x.info().rank == y.info().rank && x.info().world_size == y.info().world_size &&
              x.info().producer == y.info().producer &&
              x.info().device_name == y.info().device_name &&
              x.info().has_times == y.info().has_times &&
              x.info().synthetic == y.info().synthetic && x.info().origin_ns == y.info().origin_ns,
          "info");
    Check(x.size() == y.size(), "number of nodes");
    Check(std::equal(x.lanes().begin(), x.lanes().end(), y.lanes().begin(), y.lanes().end(),
                     [](const Lane& l, const Lane& m) {
                       return l.kind == m.kind && l.id == m.id && l.device == m.device &&
                              l.label == m.label;
                     }),
          "lanes");
    Check(std::equal(x.iterations().begin(), x.iterations().end(), y.iterations().begin(),
                     y.iterations().end(),
                     [](const IterationMark& l, const IterationMark& m) {
                       return l.number == m.number && l.node == m.node;
                     }),
          "iterations");
    Check(std::equal(x.process_groups().begin(), x.process_groups().end(),
                     y.process_groups().begin(), y.process_groups().end(), Equal),
          "process groups");
    for (uint32_t n = 0; difference_.empty() && n < x.size(); ++n) {
      where_ = fmt::format("rank {}, node {}: ", x.info().rank, n);
      CheckNode(x, y, NodeIndex(n));
    }
  }
  void CheckNode(const RankTrace& x, const RankTrace& y, NodeIndex n) {
    Check(x.kind(n) == y.kind(n), "kind");
    Check(x.raw_detail(n) == y.raw_detail(n), "detail");
    Check(a_.name(x, n) == b_.name(y, n), "name");
    Check(x.lane(n) == y.lane(n), "lane");
    Check(x.start(n) == y.start(n), "start");
    Check(x.has_duration(n) == y.has_duration(n) && x.duration(n) == y.duration(n), "duration");
    Check(x.parent(n) == y.parent(n), "parent");
    Check(x.launcher(n) == y.launcher(n), "launcher");
    Check(x.source_id(n) == y.source_id(n), "source id");
    const auto dx = x.dependencies(n);
    const auto dy = y.dependencies(n);
    Check(std::equal(dx.begin(), dx.end(), dy.begin(), dy.end(),
                     [](const Dependency& d, const Dependency& e) {
                       return d.producer == e.producer && d.kind == e.kind;
                     }),
          "dependencies");
    const auto tx = x.tensors(n);
    const auto ty = y.tensors(n);
    Check(std::equal(tx.begin(), tx.end(), ty.begin(), ty.end(),
                     [&](const Tensor& t, const Tensor& u) {
                       const auto s = x.dims(t);
                       const auto r = y.dims(u);
                       return t.id == u.id && t.storage == u.storage && t.dtype == u.dtype &&
                              t.is_output == u.is_output &&
                              std::equal(s.begin(), s.end(), r.begin(), r.end());
                     }),
          "tensors");
    CheckAttributes(x, y, n);
  }
  void CheckAttributes(const RankTrace& x, const RankTrace& y, NodeIndex n) {
    const CommAttr* c = x.comm(n);
    const CommAttr* d = y.comm(n);
    Check((c == nullptr) == (d == nullptr), "comm");
    if (c != nullptr && d != nullptr) {
      const auto same = [](auto s, auto t) {
        return std::equal(s.begin(), s.end(), t.begin(), t.end());
      };
      const bool group =
          c->group.valid() == d->group.valid() &&
          (!c->group.valid() || a_.strings().Get(c->group) == b_.strings().Get(d->group));
      Check(group, "comm group");
      Check(c->bytes_in == d->bytes_in && c->bytes_out == d->bytes_out && c->peer == d->peer &&
                c->tag == d->tag && c->dtype == d->dtype && c->group_size == d->group_size &&
                c->sequence == d->sequence,
            "comm values");
      Check(same(x.in_splits(*c), y.in_splits(*d)), "in splits");
      Check(same(x.out_splits(*c), y.out_splits(*d)), "out splits");
    }
    const SyncAttr* s = x.sync(n);
    const SyncAttr* t = y.sync(n);
    Check((s == nullptr) == (t == nullptr), "sync");
    if (s != nullptr && t != nullptr) {
      Check(s->event == t->event && s->stream == t->stream &&
                s->waits_for_correlation == t->waits_for_correlation &&
                s->waits_for_stream == t->waits_for_stream,
            "sync values");
    }
    Check(x.waves_milli(n) == y.waves_milli(n), "waves");
    const LaunchAttr* l = x.launch(n);
    const LaunchAttr* m = y.launch(n);
    Check((l == nullptr) == (m == nullptr) && (l == nullptr || *l == *m), "launch");
    const WorkAttr* v = x.work(n);
    const WorkAttr* w = y.work(n);
    Check((v == nullptr) == (w == nullptr), "work");
    if (v != nullptr && w != nullptr) {
      Check(v->flop == w->flop && v->bytes == w->bytes, "work values");
    }
  }

  const TraceStore& a_;
  const TraceStore& b_;
  std::string where_;
  std::string difference_;
};

}  // namespace

std::string FirstDifference(const TraceStore& a, const TraceStore& b) {
  return Comparison(a, b).Run();
}

}  // namespace foretrace
