#pragma once
// Groups of ranks that communicate.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace {

// A process group: members in group-rank order, as global ranks.
struct ProcessGroup {
  std::string name;
  std::string description;
  std::vector<int32_t> ranks;  // empty: all ranks of the job

  bool Has(int32_t rank) const;  // in so many words, or as one of all
};

// Those of a job, told apart by name and members: frameworks number groups per process, and users
// name streams of several ranks alike, so that several have one name.
class ProcessGroups {
 public:
  // By name, those of one name as they were added.
  std::vector<ProcessGroup>::const_iterator begin() const { return groups_.begin(); }
  std::vector<ProcessGroup>::const_iterator end() const { return groups_.end(); }
  size_t size() const { return groups_.size(); }
  std::span<const ProcessGroup> named(std::string_view name) const;
  bool contains(std::string_view name) const { return !named(name).empty(); }
  // Null where there is none of that name and these members, in this order.
  const ProcessGroup* Find(std::string_view name, std::span<const int32_t> ranks) const;

  // One that is there already gets the description.
  void Add(ProcessGroup group);
  // Those of that name which share a member with it go.
  void RemoveLike(const ProcessGroup& group);

 private:
  std::vector<ProcessGroup> groups_;
};

}  // namespace foretrace
