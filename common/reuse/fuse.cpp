#include "reuse/fuse.h"

#include "cli/error.h"
#include "cli/log.h"
#include "reuse/contract.h"
#include "runtime/at.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <tuple>

namespace tl::reuse {

namespace {

constexpr int kRounds = 3; // of choosing groups and values in turns

std::vector<int> merged(const std::vector<int> &a, const std::vector<int> &b) {
  std::vector<int> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

std::vector<int> ordered(std::vector<int> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

/// A set of values and of groups, with what they cost.
struct Choice {
  std::vector<bool> materialised;
  std::vector<Fused> groups;
  double seconds = 0; // of all runs
  double gap = 0;
};

class Planner {
public:
  Planner(const FusionProblem &problem, const Options &options) : problem_(problem), options_(options) {
    Problem whole;
    whole.nodes = problem.nodes;
    whole.records = problem.expected;
    whole.budget = std::min(problem.disk, 1e30); // a number for the solver
    for (const Trainee &trainee : problem.trainees) {
      whole.readers.push_back({ordered(trainee.reads), trainee.passes});
      reads_.push_back(whole.readers.back().reads);
    }
    small_ = contract(whole);
    for (const Reader &reader : small_.problem.readers) small_reads_.push_back(ordered(reader.reads));
  }

  FusionPlan run() {
    const std::vector<bool> nothing(small_.problem.nodes.size());
    const std::vector<bool> everything = all_reads();
    const bool fits = bytes(everything) <= problem_.disk;
    if (problem_.keep == Keep::all && !fits)
      throw Error("to keep what every candidate reads takes " + cli::human_bytes(bytes(everything)) +
                  " for " + std::to_string(static_cast<std::int64_t>(problem_.expected)) +
                  " records, more than the disk budget of " + cli::human_bytes(problem_.disk));
    Choice best = problem_.keep == Keep::all ? choose(everything) : choose(nothing);
    if (problem_.keep == Keep::plan) {
      if (fits) better(best, choose(everything));
      improve(best);
    }
    return finished(std::move(best));
  }

private:
  std::vector<bool> all_reads() const {
    std::vector<bool> set(small_.problem.nodes.size());
    for (const std::vector<int> &reads : small_reads_)
      for (const int read : reads) set[at(read)] = small_.problem.nodes[at(read)].storable;
    return set;
  }

  double bytes(const std::vector<bool> &materialised) const {
    double sum = 0;
    for (std::size_t n = 0; n < materialised.size(); ++n)
      if (materialised[n]) sum += small_.problem.nodes[n].bytes;
    return sum * problem_.expected;
  }

  static bool better(Choice &best, Choice other) {
    if (other.seconds >= best.seconds * (1 - 1e-9)) return false;
    best = std::move(other);
    return true;
  }

  /// In turns: what to keep for these groups, then the groups for what is kept.
  void improve(Choice &best) {
    std::vector<Fused> groups = atoms();
    for (int round = 0; round < kRounds; ++round) {
      Problem asked = small_.problem;
      asked.readers.clear();
      for (const Fused &group : groups) asked.readers.push_back({group.reads, problem_.runs * group.passes});
      const Solution solution = materialise(asked, options_);
      Choice same{solution.materialised, groups, 0, solution.gap()};
      same.seconds = total(same);
      Choice regrouped = choose(solution.materialised);
      regrouped.gap = solution.gap();
      bool improved = better(best, std::move(same));
      improved = better(best, std::move(regrouped)) || improved;
      if (!improved && round > 0) return;
      groups = best.groups;
    }
  }

  /// The groups for a set of values, and what both cost.
  Choice choose(const std::vector<bool> &materialised) const {
    Choice choice{materialised, atoms(), 0, 0};
    if (problem_.fuse) fuse(choice.groups, materialised);
    choice.seconds = total(choice);
    return choice;
  }

  double total(const Choice &choice) const {
    Problem alone = small_.problem;
    alone.readers.clear();
    double seconds =
        problem_.expected > 0 ? evaluate(alone, choice.materialised).seconds / problem_.expected : 0;
    for (const Fused &group : choice.groups)
      seconds += problem_.runs * group.passes * cost(group.reads, choice.materialised);
    return seconds * problem_.records;
  }

  /// Seconds of one pass for a record.
  double cost(const std::vector<int> &reads, const std::vector<bool> &materialised) const {
    return pass_seconds(small_.problem, {reads, 1}, materialised);
  }

  /// Candidates that read the same and fit into memory together share a pass in any case.
  std::vector<Fused> atoms() const {
    std::map<std::pair<int, std::vector<int>>, std::vector<std::size_t>> alike;
    std::vector<Fused> groups;
    for (std::size_t t = 0; t < problem_.trainees.size(); ++t)
      alike[{problem_.trainees[t].kind, small_reads_[t]}].push_back(t);
    for (auto &[key, members] : alike) {
      // Long ones together: memory that does not suffice for all divides them by length.
      std::stable_sort(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
        return problem_.trainees[a].passes > problem_.trainees[b].passes;
      });
      const std::size_t first = groups.size();
      for (const std::size_t member : members) {
        const Fused single = group_of({member});
        bool placed = false;
        for (std::size_t g = first; problem_.fuse && g < groups.size() && !placed; ++g) {
          const std::optional<Fused> both = joined(groups[g], single);
          if (both) groups[g] = *both;
          placed = both.has_value();
        }
        if (!placed) groups.push_back(single);
      }
    }
    return groups;
  }

  Fused group_of(const std::vector<std::size_t> &members) const {
    Fused group;
    group.trainees = members;
    double fixed = 0, step = 0, passes = 0, row = 0;
    std::vector<int> originals;
    for (const std::size_t member : members) {
      const Trainee &trainee = problem_.trainees[member];
      fixed += trainee.fixed_bytes;
      step = std::max(step, trainee.step_bytes); // one makes a step at a time
      passes = std::max(passes, trainee.passes);
      group.reads = merged(group.reads, small_reads_[member]);
      originals = merged(originals, reads_[member]);
    }
    for (const int node : originals) row += problem_.row_bytes[at(node)];
    group.memory = fixed + step + problem_.frozen_bytes;
    const double all = row * problem_.records;
    group.cached = all > 0 ? std::clamp((problem_.memory - group.memory) / all, 0.0, 1.0) : 1;
    group.passes = passes > 1 ? 1 + (passes - 1) * (1 - group.cached) : passes;
    return group;
  }

  /// Nothing if they do not fit into memory.
  std::optional<Fused> joined(const Fused &a, const Fused &b) const {
    std::vector<std::size_t> members = a.trainees;
    members.insert(members.end(), b.trainees.begin(), b.trainees.end());
    std::sort(members.begin(), members.end());
    Fused both = group_of(members);
    if (both.memory > problem_.memory) return std::nullopt;
    return both;
  }

  /// Joins the pair that saves most, until none does.
  void fuse(std::vector<Fused> &groups, const std::vector<bool> &materialised) const {
    struct Pair {
      double gain;
      std::size_t a, b;
      bool operator<(const Pair &other) const {
        return std::tie(gain, b, a) < std::tie(other.gain, other.b, other.a);
      }
    };
    std::vector<double> costs;
    std::vector<std::set<int>> used;
    std::vector<bool> gone(groups.size());
    std::priority_queue<Pair> queue;
    const auto add = [&](std::size_t g) {
      costs.push_back(groups[g].passes * cost(groups[g].reads, materialised));
      used.push_back(nodes_used(groups[g].reads, materialised));
      for (std::size_t other = 0; other < g; ++other) {
        if (gone[other] || kind(groups[other]) != kind(groups[g]) || !meet(used[other], used[g])) continue;
        const std::optional<Fused> both = joined(groups[other], groups[g]);
        if (!both) continue;
        const double gain = costs[other] + costs[g] - both->passes * cost(both->reads, materialised);
        if (gain > 1e-9 * (costs[other] + costs[g])) queue.push({gain, other, g});
      }
    };
    for (std::size_t g = 0; g < groups.size(); ++g) add(g);
    while (!queue.empty()) {
      const Pair pair = queue.top();
      queue.pop();
      if (gone[pair.a] || gone[pair.b]) continue;
      gone[pair.a] = gone[pair.b] = true;
      groups.push_back(*joined(groups[pair.a], groups[pair.b]));
      gone.push_back(false);
      add(groups.size() - 1);
    }
    std::vector<Fused> left;
    for (std::size_t g = 0; g < groups.size(); ++g)
      if (!gone[g]) left.push_back(std::move(groups[g]));
    groups = std::move(left);
  }

  int kind(const Fused &group) const { return problem_.trainees[group.trainees.front()].kind; }

  std::set<int> nodes_used(const std::vector<int> &reads, const std::vector<bool> &materialised) const {
    const std::vector<Use> uses = pass_uses(small_.problem, {reads, 1}, materialised);
    std::set<int> nodes;
    for (std::size_t n = 0; n < uses.size(); ++n)
      if (uses[n] != Use::pruned) nodes.insert(static_cast<int>(n));
    return nodes;
  }

  /// Passes that use nothing in common have nothing to gain from each other.
  static bool meet(const std::set<int> &a, const std::set<int> &b) {
    return std::any_of(a.begin(), a.end(), [&](int node) { return b.count(node) > 0; });
  }

  /// Back to the nodes that were asked about.
  FusionPlan finished(Choice choice) const {
    Problem whole;
    whole.nodes = problem_.nodes;
    whole.records = problem_.records;
    FusionPlan plan;
    plan.gap = choice.gap;
    std::vector<bool> materialised(problem_.nodes.size());
    for (std::size_t n = 0; n < small_.kept.size(); ++n)
      materialised[at(small_.kept[n])] = choice.materialised[n];
    plan.materialised.resize(problem_.nodes.size());
    double seconds = 0;
    for (Fused &group : choice.groups) std::sort(group.trainees.begin(), group.trainees.end());
    std::sort(choice.groups.begin(), choice.groups.end(),
              [](const Fused &a, const Fused &b) { return a.trainees.front() < b.trainees.front(); });
    for (Fused &group : choice.groups) {
      group.reads.clear();
      for (const std::size_t member : group.trainees) group.reads = merged(group.reads, reads_[member]);
      const Reader reader{group.reads, 1};
      group.uses = problem_.keep == Keep::all ? as_stored(group.reads, materialised)
                                              : pass_uses(whole, reader, materialised);
      seconds += group.passes * use_seconds(whole, group.uses);
      for (std::size_t n = 0; n < group.uses.size(); ++n)
        if (group.uses[n] == Use::loaded) plan.materialised[n] = true; // what nobody loads is not kept
    }
    const Solution made = evaluate(whole, plan.materialised);
    plan.making = made.seconds;
    plan.bytes = made.bytes / std::max(problem_.records, 1.0) * problem_.expected;
    plan.seconds = plan.making + problem_.records * seconds;
    for (const Trainee &trainee : problem_.trainees) plan.seconds += problem_.records * trainee.seconds;
    plan.groups = std::move(choice.groups);
    return plan;
  }

  /// Everything that can be kept is loaded, at whatever cost.
  std::vector<Use> as_stored(const std::vector<int> &reads, const std::vector<bool> &materialised) const {
    std::vector<Use> uses(problem_.nodes.size(), Use::pruned);
    for (const int read : reads) uses[at(read)] = materialised[at(read)] ? Use::loaded : Use::computed;
    for (std::size_t n = uses.size(); n-- > 0;)
      if (uses[n] == Use::computed)
        for (const int input : problem_.nodes[n].inputs)
          if (uses[at(input)] == Use::pruned)
            uses[at(input)] = materialised[at(input)] ? Use::loaded : Use::computed;
    return uses;
  }

  const FusionProblem &problem_;
  const Options &options_;
  Contracted small_;
  std::vector<std::vector<int>> reads_, small_reads_; // of each trainee
};

} // namespace

FusionPlan make_plan(const FusionProblem &problem, const Options &options) {
  return Planner(problem, options).run();
}

double separate_seconds(const FusionProblem &problem) {
  Problem whole;
  whole.nodes = problem.nodes;
  const std::vector<bool> nothing(problem.nodes.size());
  double seconds = 0;
  for (const Trainee &trainee : problem.trainees)
    seconds += trainee.passes * pass_seconds(whole, {trainee.reads, 1}, nothing) + trainee.seconds;
  return seconds * problem.records;
}

} // namespace tl::reuse
