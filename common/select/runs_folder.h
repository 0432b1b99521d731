// The folder that tl-select works in: its parts, its lock, and what a run that died left in it.
#pragma once

#include "select/trial.h"
#include "shard/folder_files.h"

#include <string>

namespace tl::select {

class RunsFolder {
public:
  /// Creates the folder and takes its lock, or throws Error naming the process that holds it; removes
  /// half-written files. Throws UsageError if the folder lies inside `dataset`, whose next listing would
  /// take the features for records.
  RunsFolder(const std::string &path, const std::string &dataset);

  /// The pid of an earlier run that did not finish; "" when there is none.
  const std::string &predecessor() const { return lock_.predecessor(); }
  /// The work is whole.
  void finished() { lock_.finished(); }

  std::string features() const { return file("features"); }
  std::string costs() const { return file("costs.json"); }
  /// That the last plan was made for; 0: there is none.
  std::int64_t expected_records() const;
  TrialFolder trial(const std::string &id) const { return {file("trials/" + id)}; }
  /// Validates the document against its schema, then writes it.
  void write(const std::string &name, const std::string &schema, const json::Value &document) const;

  std::string best_model() const { return file("best/model.pt"); }
  /// True if the best model is the one that `trial` left. best/trial.json, written last, says which it is.
  bool best_is(const Trial &trial) const;
  void best_written(const Trial &trial) const { write("best/trial.json", "trial", to_json(trial)); }
  /// Before another model is written there, or because there is none.
  void remove_best() const;

private:
  std::string file(const std::string &name) const;

  std::string path_;
  shard::FolderLock lock_;
};

} // namespace tl::select
