#include "select/job.h"

#include "cli/log.h"
#include "select/planner.h"
#include "select/train_group.h"
#include "shard/folder_files.h"
#include "json/bytes.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

namespace tl::select {

namespace fs = std::filesystem;

namespace {

using Ids = std::map<std::string, std::size_t>; // index of a candidate, by its id

std::vector<std::size_t> indexes_of(const json::Value &ids, const Ids &known) {
  std::vector<std::size_t> indexes;
  for (const json::Value &id : ids) {
    const auto found = known.find(id.get<std::string>());
    if (found == known.end())
      throw Error("the plan is of another experiment: it has a candidate " + id.get<std::string>() +
                  "; let tl-select plan again");
    indexes.push_back(found->second);
  }
  return indexes;
}

/// The value of that hash in the graph of one of these candidates.
FeatureSet set_from_json(const json::Value &line, const Ids &known, const SharedGraphs &graphs) {
  const std::vector<std::size_t> readers = indexes_of(line.at("candidates"), known);
  const Digest hash = Digest::from_hex(line.at("values").at(0).at("hash").get<std::string>());
  const std::size_t g = graphs.of.at(readers.at(0));
  FeatureSet set = feature_set(graphs, g, graphs.graphs[g].merged->find(hash));
  if (set.key.hex() != line.at("key").get<std::string>())
    throw Error(
        "the plan keeps features that these programs would make in another way; let tl-select plan again");
  set.candidates = readers;
  set.flops = line.at("flops_per_record").get<double>();
  set.pass = line.at("pass").get<std::size_t>();
  set.stored = line.at("stored").get<bool>();
  return set;
}

Group group_from_json(const json::Value &line, const Ids &known, const SharedGraphs &graphs) {
  Group group;
  group.candidates = indexes_of(line.at("candidates"), known);
  group.graph = graphs.of.at(group.candidates.at(0));
  group.sets = line.at("sets").get<std::vector<std::size_t>>();
  group.records = line.at("records").get<bool>();
  for (const json::Value &value : line.at("values"))
    group.outputs.push_back(
        graphs.graphs[group.graph].merged->find(Digest::from_hex(value.at("hash").get<std::string>())));
  group.computed = line.at("computed").get<int>();
  group.passes = line.at("passes").get<double>();
  group.memory = line.at("memory").get<std::int64_t>();
  group.cache = line.at("cache").get<std::int64_t>();
  return group;
}

/// Of the records that the group trains on; `store`: the folder of features.
Digest group_digest(const ReusePlan &plan, const Group &group, const data::Dataset &dataset,
                    const std::string &store, std::size_t threads) {
  for (const std::size_t s : group.sets)
    if (const std::string folder = set_folder(store, plan.sets[s]); !shard::read_index(folder))
      throw Error(folder + ": lacks a part of the data set; run the jobs with --partition first");
  const std::vector<std::string> folders = folders_of_records(plan, group, store, [&](std::size_t s) {
    const std::optional<shard::FolderIndex> index = shard::read_index(set_folder(store, plan.sets[s]));
    return index && index->skipped == 0;
  });
  return folders.empty() ? data_digest(dataset, threads, nullptr) : data_digest(folders);
}

class Worker {
public:
  Worker(const Experiment &experiment, const data::Dataset &dataset, const SelectOptions &options,
         const SelectEvents &events)
      : experiment_(experiment), dataset_(dataset), options_(options), events_(events),
        candidates_(resolve(experiment, dataset).all), graphs_(share(candidates_)), plan_(load_plan()) {}

  std::size_t run(const Job &job) {
    if (job.part) extract(*job.part);
    if (!job.candidates.empty()) train(job.candidates);
    return skipped_.size();
  }

private:
  std::string file(const std::string &name) const { return (fs::path(options_.runs) / name).string(); }

  ReusePlan load_plan() const {
    const std::string path = file("reuse-plan.json");
    std::error_code ignored;
    if (!fs::exists(path, ignored))
      throw Error(options_.runs + ": holds no plan; tl-select with --executor makes it, and the commands");
    return plan_from_json(json::load(path, "reuse"), candidates_, graphs_);
  }

  void extract(const shard::Partition &part) {
    extract::ExtractOptions options =
        extract_options(experiment_.seed, options_.threads, options_.keep_going, events_.extracted);
    options.part = part;
    for (const Pass &pass : plan_.passes) {
      const PassReport report = run_pass(plan_, pass, graphs_, dataset_, file("features"), options);
      for (const std::string &line : report.notes) events_.warn(line);
      for (const data::RecordNote &record : report.extraction.skipped)
        if (skipped_.insert(record.id).second) events_.warn("skipped " + record.id + ": " + record.reason);
      for (const std::string &line : extract::summary(report.extraction)) events_.note(line);
    }
  }

  void train(const std::vector<std::string> &ids) {
    std::map<std::size_t, std::vector<std::size_t>> by_group;
    for (const std::string &id : ids) {
      const auto found = std::find_if(candidates_.begin(), candidates_.end(),
                                      [&](const Candidate &candidate) { return candidate.id == id; });
      if (found == candidates_.end())
        throw UsageError("the experiment has no candidate '" + cli::printable(id) +
                         "'; the leaderboard and reuse-plan.json name them");
      const auto c = static_cast<std::size_t>(found - candidates_.begin());
      by_group[plan_.group_of[c]].push_back(c);
    }
    for (const auto &[group, members] : by_group) train_members(group, members);
  }

  void train_members(std::size_t g, const std::vector<std::size_t> &members) {
    const Digest data = group_digest(plan_, plan_.groups[g], dataset_, file("features"), options_.threads);
    std::vector<std::unique_ptr<shard::FolderLock>> locks;
    std::vector<Assignment> work;
    for (const std::size_t c : members) {
      const TrialFolder folder = folder_of(c);
      std::error_code failed;
      fs::create_directories(folder.path, failed);
      if (failed) throw SystemError("create folder " + folder.path, failed.value());
      locks.push_back(std::make_unique<shard::FolderLock>(folder.path));
      const train::TrainOptions &options = candidates_[c].spec.options;
      const std::optional<Trial> known = folder.load(candidates_[c], data);
      if (known && known->reached(options.epochs, options.patience))
        events_.trained(candidates_[c], *known);
      else
        work.push_back({c, options.epochs});
    }
    if (work.empty()) return;
    GroupEvents events;
    events.folder = [&](std::size_t c) { return folder_of(c); };
    events.done = [&](std::size_t c, const Trial &trial) { events_.trained(candidates_[c], trial); };
    events.skipped = [&](const std::string &line) {
      if (skipped_.insert(line).second) events_.warn("skipped " + line);
    };
    train_group({graphs_, plan_, dataset_, file("features"), options_.threads, options_.keep_going},
                candidates_, g, work, data, events);
  }

  TrialFolder folder_of(std::size_t c) const { return {file("trials/" + candidates_[c].id)}; }

  const Experiment &experiment_;
  const data::Dataset &dataset_;
  const SelectOptions &options_;
  const SelectEvents &events_;
  const std::vector<Candidate> candidates_;
  const SharedGraphs graphs_;
  const ReusePlan plan_;
  std::set<std::string> skipped_;
};

} // namespace

ReusePlan plan_from_json(const json::Value &document, const std::vector<Candidate> &candidates,
                         const SharedGraphs &graphs) {
  Ids known;
  for (const Candidate &candidate : candidates) known.emplace(candidate.id, known.size());
  ReusePlan plan;
  plan.group_of.assign(candidates.size(), SIZE_MAX);
  try {
    plan.records = document.at("records").get<std::int64_t>();
    plan.memory_budget = document.at("memory_budget").get<std::int64_t>();
    for (const json::Value &set : document.at("sets")) plan.sets.push_back(set_from_json(set, known, graphs));
    for (const json::Value &pass : document.at("passes"))
      plan.passes.push_back(
          {pass.at("sets").get<std::vector<std::size_t>>(), pass.at("flops_per_record").get<double>()});
    for (const json::Value &line : document.at("groups")) {
      plan.groups.push_back(group_from_json(line, known, graphs));
      for (const std::size_t c : plan.groups.back().candidates) plan.group_of[c] = plan.groups.size() - 1;
    }
  } catch (const json::Value::exception &error) {
    throw FormatError(std::string("the plan: ") + error.what());
  } catch (const std::out_of_range &) { // a value that no network here has
    throw Error("the plan is of other networks than the experiment's; let tl-select plan again");
  }
  const auto within = [&](const std::vector<std::size_t> &sets) {
    return std::all_of(sets.begin(), sets.end(), [&](std::size_t s) { return s < plan.sets.size(); });
  };
  bool sound = std::count(plan.group_of.begin(), plan.group_of.end(), SIZE_MAX) == 0;
  for (const Pass &pass : plan.passes) sound = sound && within(pass.sets);
  for (const Group &group : plan.groups) sound = sound && within(group.sets);
  if (!sound) throw Error("the plan is not of this experiment; let tl-select plan again");
  return plan;
}

std::size_t run_job(const Experiment &experiment, const data::Dataset &dataset, const SelectOptions &options,
                    const Job &job, const SelectEvents &events) {
  return Worker(experiment, dataset, options, events).run(job);
}

} // namespace tl::select
