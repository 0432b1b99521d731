// What was measured: the document that tl-profile writes and tl-split reads.
//
// Every section is optional: a profile of the storage side has a host, a model and data; a link can
// be measured alone. Seconds and bytes are means of what was measured, never assumptions.
#pragma once

#include "codec/codec.h"
#include "graph/execution.h"
#include "graph/graph.h"
#include "json/document.h"

#include <optional>
#include <string>
#include <vector>

namespace tl::plan {

/// Speed of a large matrix product.
struct ProductSpeed {
  double gflops = 0;
  int threads = 1;
};

/// Bytes/s that one core moves into a stream, and out of one and into a folder.
struct StreamSpeed {
  double send_bandwidth = 0;
  double receive_bandwidth = 0;
};

struct HostProfile {
  std::string cpu;               // name of the processor
  int cores = 1;                 // that this process may use
  std::int64_t memory_bytes = 0; // that this process may use
  ProductSpeed blas;             // f32
  bool blas_slow = false;        // a reference BLAS: the caller should warn
  std::optional<ProductSpeed> bf16;
  double memory_bandwidth = 0; // bytes/s of a copy on all cores
  std::optional<StreamSpeed> stream;
};

/// A run of nodes [first, last) of ModelProfile::graph that was timed as one.
struct Segment {
  int first = 0;
  int last = 0;
  /// One per batch size, each for the whole batch. `seconds`: frozen and optimised, as a prefix runs.
  std::vector<double> seconds;
  /// The same as a part of a suffix, which begins at a cut and ends where the network does; empty: as
  /// `seconds`.
  std::vector<double> suffix_seconds;
  /// Forward and backward with the segment's parameters trainable; empty if it has no gradient.
  std::vector<double> train_seconds;
  /// Most memory that tensors took while it ran frozen: its inputs, outputs and temporaries, without
  /// parameters.
  std::vector<std::int64_t> peak_bytes;
};

/// One way to run the whole frozen network.
struct ExecutionCost {
  graph::Execution execution = graph::Execution::blocked;
  double seconds = 0; // a record
  double rms_error =
      0; // of the outputs: the root mean square of the difference to "blocked" / that of the outputs
};

struct Measurement {
  int threads = 1;                                        // that ran the model
  graph::Execution execution = graph::Execution::blocked; // in which it was run: the fastest
  std::vector<ExecutionCost> executions;                  // that were tried
  std::vector<std::int64_t> batches;                      // ascending
  std::vector<Segment> segments;     // ascending, disjoint; nodes in none of them cost nothing
  std::vector<double> whole_seconds; // the whole model frozen and optimised, per batch size
};

/// What a codec does to a value, for one record on one thread.
struct CodecCost {
  codec::Codec codec;
  double bytes = 0; // written
  double encode_seconds = 0;
  double decode_seconds = 0;
  double rms_error = 0; // of the decoded values: the difference's root mean square / the values'
  double max_error = 0; // the largest difference / the largest magnitude
};

struct ValueCodecs {
  std::string name;
  Digest hash;
  std::vector<CodecCost> codecs;
};

struct CodecProfile {
  std::int64_t records = 0;
  bool real = false; // they were from a data set, not made up
  std::vector<ValueCodecs> values;
};

struct ModelProfile {
  std::string path;
  Digest file_digest;     // hash of the model file's bytes
  json::Value preprocess; // data::to_json(Preprocess)
  graph::Graph graph;     // with hashes under that preprocessing
  Measurement measured;
  std::optional<CodecProfile> codecs;
};

struct DataProfile {
  std::string path;
  std::int64_t records = 0;
  std::int64_t classes = 0;    // 0: unlabelled
  double bytes_per_record = 0; // of the encoded file or the stored row
  double read_seconds = 0;     // to read one record, all threads together
  double decode_seconds = 0;   // one record on one thread: decode and preprocess
  int threads = 1;             // that read and decoded during the measurement
};

/// The way from the storage side to the compute side.
struct LinkProfile {
  double bandwidth = 0;  // bytes/s
  double round_trip = 0; // seconds
  std::string command;   // it was measured through; empty: stated by the user
};

struct Profile {
  std::string origin; // file name, for messages
  std::optional<HostProfile> host;
  std::optional<ModelProfile> model;
  std::optional<DataProfile> data;
  std::optional<LinkProfile> link;
};

json::Value to_json(const Profile &profile);

/// Validates against schemas/profile.schema.json, then checks what a schema cannot say: one
/// measurement per batch size, segments inside the graph. Throws FormatError.
Profile profile_from_json(const json::Value &document, const std::string &origin);

/// Reads a file ("-" is stdin).
Profile load_profile(const std::string &path);

} // namespace tl::plan
