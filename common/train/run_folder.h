// The folder of one training run: what is where, and one process at a time.
#pragma once

#include "cli/io.h"

#include <string>

namespace tl::train {

class RunFolder {
public:
  enum class Mode {
    fresh,   // refuses a folder with an earlier run
    resume,  // continues an earlier run, or begins one
    replace, // removes an earlier run, but not the features that it has kept
  };

  /// Creates the folder, takes its lock, and removes temporary files of dead processes. Throws Error
  /// if another process trains in it, or for an earlier run that `mode` does not allow for.
  RunFolder(std::string path, Mode mode);

  const std::string &path() const { return path_; }
  std::string checkpoint() const { return inside("checkpoint.safetensors"); }
  std::string metrics() const { return inside("metrics.jsonl"); }
  std::string model() const { return inside("model.pt"); }
  /// The model until it has proved to be right.
  std::string unproved_model() const { return inside(".model.pt.unproved"); }
  /// Shards kept from a pipe.
  std::string features() const { return inside("features"); }

private:
  std::string inside(const char *name) const;
  void lock();
  void tidy() const;

  std::string path_;
  cli::Descriptor lock_;
};

} // namespace tl::train
