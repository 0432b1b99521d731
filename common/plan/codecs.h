// Which codecs a cut can cross in, and what each costs there, as the profiles measured it.
#pragma once

#include "codec/codec.h"
#include "graph/cut.h"
#include "plan/profile.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace tl::plan {

using codec::Codec;

/// What the user allows.
struct CodecRules {
  bool allow_lossy = false;
  std::optional<double> max_error; // of lossy codecs: the measured relative RMS error; implies allow_lossy
  std::optional<Codec> only;

  bool allows(Codec codec) const { return codec.exact() || allow_lossy || max_error; }
  /// Throws UsageError if `only` is a codec that the other rules forbid.
  void check() const;
};

/// A cut in one codec. Bytes and seconds are for one record, seconds on one thread.
struct CodedCut {
  Codec codec;
  double bytes = 0;        // over the link
  double stored_bytes = 0; // as the compute side keeps it: decompressed
  double encode = 0, decode = 0;
  double stored_decode = 0; // seconds, from what is kept
};

class CodecCosts {
public:
  /// Encoding is the storage side's work, decoding the compute side's; where only the storage side
  /// measured the codecs, its times are taken for both.
  CodecCosts(const ModelProfile &storage, const ModelProfile &compute, const CodecRules &rules);

  /// The cut as it crosses without further ado first: as it was computed, or as u8 if `pixels`. Then
  /// every codec that was measured for all of its values and that the rules allow. With rules.only, no
  /// other one; empty if that was not measured here.
  std::vector<CodedCut> of(const graph::Graph &graph, const graph::Cut &cut, bool pixels) const;

private:
  std::optional<CodedCut> coded(const graph::Graph &graph, const graph::Cut &cut, Codec codec) const;

  using Values = std::unordered_map<Digest, const ValueCodecs *>;
  static Values values_of(const ModelProfile &model);

  Values storage_, compute_; // parts of the profiles, which outlive this
  CodecRules rules_;
};

} // namespace tl::plan
