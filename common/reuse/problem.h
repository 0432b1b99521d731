// Which frozen values are worth keeping on disk: the problem, without networks or files.
//
// After Nautilus (SIGMOD 2022, section 4.2), with what its model leaves out: what is materialised has to be
// computed once and written; what several candidates read in one pass is loaded once; each reader has its own
// number of passes; and compute and load are measured seconds, not operations over an assumed disk.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tl::reuse {

/// A value of the multi-model graph. Seconds and bytes are for one record.
struct Node {
  std::string name;
  std::vector<int> inputs; // earlier nodes; none: the record itself, and compute is to read and decode it
  double compute = 0;      // from its inputs
  double load = 0;         // from disk or page cache, if it is materialised
  double write = 0;        // to materialise it
  double bytes = 0;
  bool storable = true;
  double there = 0; // share of the records that have it on disk from an earlier run, and are not made again
};

/// Candidates that are trained in the same passes over the data.
struct Reader {
  std::vector<int> reads; // nodes
  double passes = 1;      // over all records: epochs, with their share of validation
};

struct Problem {
  std::vector<Node> nodes; // in topological order
  std::vector<Reader> readers;
  double records = 0; // that are expected, not only those that are there
  double budget = 0;  // bytes of disk
};

enum class Use { pruned, computed, loaded };

struct Solution {
  std::vector<bool> materialised;     // of each node
  std::vector<std::vector<Use>> uses; // of each reader and node
  double seconds = 0;                 // of all passes, and of making what is materialised
  double bound = 0;                   // no solution takes less
  double bytes = 0;                   // on disk

  /// How far the solution may be from the best, as a share of it.
  double gap() const { return seconds > 0 ? (seconds - bound) / seconds : 0; }
};

} // namespace tl::reuse
