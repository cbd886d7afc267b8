#include "simulator/engine/compile_rank.h"

#include "simulator/base/error.h"
#include "simulator/base/utf8.h"

namespace foretrace {

SimTime RecordedBegin(const RankTrace& rank) { return rank.start(NodeIndex(0)); }

std::string DescribeNode(const TraceStore& store, const RankTrace& rank, NodeIndex node) {
  return fmt::format("rank {} node {} ({})", rank.info().rank, rank.source_id(node),
                     Excerpt(store.name(rank, node), 60));
}

}  // namespace foretrace
