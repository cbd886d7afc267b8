#include <algorithm>

#include "simulator/base/error.h"
#include "simulator/base/status_macros.h"
#include "simulator/importers/framework/split_bytes.h"
#include "simulator/importers/importer.h"
#include "simulator/importers/pytorch_et/data_flow.h"
#include "simulator/importers/pytorch_et/document_reader.h"

namespace foretrace {
namespace {

using pytorch_et::CommRecord;
using pytorch_et::Document;
using pytorch_et::TensorRef;

constexpr int64_t kUserScope = 7;
constexpr int64_t kMaxBytes = int64_t{1} << 60;

// Bytes of the tensors of one argument, or of all inputs or outputs for argument -1.
int64_t ArgumentBytes(std::span<const TensorRef> tensors, int argument, bool outputs) {
  int64_t bytes = 0;
  for (const TensorRef& t : tensors) {
    if (t.is_output != outputs || (argument >= 0 && t.argument != argument)) continue;
    bytes = std::min(kMaxBytes, bytes + t.elements * t.element_size);
  }
  return bytes;
}

class Mapper {
 public:
  Mapper(const std::string& source, Document document)
      : document_(std::move(document)),
        parents_(pytorch_et::ParentPositions(document_)),
        owners_(pytorch_et::CommunicationOwners(document_, parents_)) {
    RankInfo info;
    info.source = source;
    info.producer = "pytorch_et " + document_.schema;
    info.has_times = false;
    info.world_size = document_.world_size;
    builder_ = std::make_unique<RankTraceBuilder>(std::move(info));
  }

  ImportedFile Map(bool keep_link_keys) {
    // The builder's index of a node is its position in the document.
    for (size_t i = 0; i < document_.nodes.size(); ++i) AddNode(i, keep_link_keys);
    AddCommunication();
    for (const pytorch_et::Edge& e : pytorch_et::FindDependencies(document_, parents_, owners_)) {
      builder_->AddDependency(NodeIndex(e.consumer), NodeIndex(e.producer), e.kind);
    }
    for (ProcessGroup& group : document_.groups) builder_->AddProcessGroup(std::move(group));
    ImportedFile file;
    file.builder = std::move(builder_);
    file.build_options.sort_by_start = false;
    file.build_options.infer_nesting = false;
    file.role = TraceRole::kGraph;
    file.link_keys = std::move(link_keys_);
    return file;
  }

 private:
  void AddNode(size_t i, bool keep_link_keys) {
    const pytorch_et::Node& node = document_.nodes[i];
    const std::string_view name = document_.strings.Get(node.name);
    RankTraceBuilder::NodeSpec spec;
    spec.kind = node.scope == kUserScope ? NodeKind::kAnnotation : NodeKind::kCpuOp;
    spec.name = name;
    spec.lane = builder_->AddLane(Lane::Kind::kCpuThread, node.thread);
    spec.source_id = node.id;
    const NodeIndex index = builder_->AddNode(spec);
    if (parents_[i] >= 0) {
      builder_->SetParent(index, NodeIndex(static_cast<uint32_t>(parents_[i])));
    }
    for (uint32_t t = 0; t < node.tensors_count; ++t) {
      const TensorRef& ref = document_.tensors[node.tensors_begin + t];
      Tensor tensor;
      tensor.id = ref.id;
      tensor.storage = ref.storage;
      tensor.dtype = ref.dtype;
      tensor.is_output = ref.is_output;
      builder_->AddTensor(index, tensor,
                          std::span(document_.dims).subspan(ref.dims_begin, ref.dims_count));
    }
    // Roots and step marks have no counterpart in a profile.
    if (keep_link_keys && !name.starts_with("[pytorch|profiler|") &&
        !name.starts_with("ProfilerStep#")) {
      link_keys_.push_back({index, node.record_function, -1, node.thread});
    }
  }

  // Gathers what the operators of one communication say onto the one that stands for it.
  void AddCommunication() {
    for (size_t i = 0; i < document_.nodes.size(); ++i) {
      if (owners_[i] != static_cast<int32_t>(i)) continue;
      CommRecord record = document_.comms[static_cast<size_t>(document_.nodes[i].comm)];
      for (size_t k = i + 1; k < document_.nodes.size() && k < i + 8; ++k) {
        const int32_t inner = document_.nodes[k].comm;
        if (owners_[k] != static_cast<int32_t>(i) || inner < 0) continue;
        const CommRecord& detail = document_.comms[static_cast<size_t>(inner)];
        const CollectiveOp op = record.op;
        record = detail;
        if (record.op == CollectiveOp::kUnknown) record.op = op;
        break;
      }
      SetComm(i, record);
    }
  }

  void SetComm(size_t i, const CommRecord& record) {
    const pytorch_et::Node& node = document_.nodes[i];
    const auto tensors = std::span<const TensorRef>(document_.tensors)
                             .subspan(node.tensors_begin, node.tensors_count);
    const std::string_view name = document_.strings.Get(node.name);
    CommAttr attr;
    int64_t in = ArgumentBytes(tensors, 0, false);
    int64_t out = in;
    if (name.starts_with("c10d::") && name.find("base") != std::string_view::npos) {
      in = ArgumentBytes(tensors, 1, false);  // (output, input, ...)
    } else if (const int64_t results = ArgumentBytes(tensors, -1, true); results > 0) {
      out = results;
    }
    const int64_t element = tensors.empty() ? 0 : tensors[0].element_size;
    const auto declared = [element](int64_t elements, int64_t& bytes) {
      if (elements >= 0 && element > 0 && elements < kMaxBytes / element) {
        bytes = elements * element;
      }
    };
    declared(record.in_elements, in);
    declared(record.out_elements, out);
    attr.bytes_in = Bytes(record.is_recv ? 0 : in);
    attr.bytes_out = Bytes(record.is_send ? 0 : out);
    attr.dtype = record.dtype != DType::kUnknown ? record.dtype
                 : tensors.empty()               ? DType::kUnknown
                                                 : tensors[0].dtype;
    attr.sequence = record.sequence;
    attr.group = builder_->Intern(record.group);
    attr.group_size = static_cast<int32_t>(std::clamp<int64_t>(record.group_size, 0, INT32_MAX));
    if (record.peer >= 0 && record.peer <= INT32_MAX) {
      attr.peer = static_cast<int32_t>(record.peer);
    }
    builder_->SetComm(NodeIndex(static_cast<uint32_t>(i)), attr, SplitBytes(record.in_splits, in),
                      SplitBytes(record.out_splits, out));
    builder_->SetDetail(NodeIndex(static_cast<uint32_t>(i)), static_cast<uint8_t>(record.op));
  }

  Document document_;
  std::vector<int32_t> parents_;
  std::vector<int32_t> owners_;
  std::unique_ptr<RankTraceBuilder> builder_;
  std::vector<LinkKey> link_keys_;
};

class PytorchEtImporter : public Importer {
 public:
  std::string_view name() const override { return "pytorch_et"; }
  TraceRole role() const override { return TraceRole::kGraph; }

  bool Sniff(std::string_view prefix, std::string_view) const override {
    const auto has = [prefix](std::string_view text) {
      return prefix.find(text) != std::string_view::npos;
    };
    const size_t first = prefix.find_first_not_of(" \t\r\n");
    if (first == std::string_view::npos || prefix[first] != '{') return false;
    return has("\"schema\"") && has("\"nodes\"") && !has("\"traceEvents\"");
  }

  absl::StatusOr<ImportedFile> Import(ByteSource& input, const std::string& source,
                                      const ImportOptions& options) const override {
    FORETRACE_ASSIGN_OR_RETURN(Document document, pytorch_et::ReadDocument(input, source));
    return Mapper(source, std::move(document)).Map(options.keep_link_keys);
  }
};

}  // namespace

std::unique_ptr<Importer> MakePytorchEtImporter() { return std::make_unique<PytorchEtImporter>(); }

}  // namespace foretrace
