#include "plan/codecs.h"

#include "cli/error.h"

#include <algorithm>

namespace tl::plan {

namespace {

template <class Values> const CodecCost *find(const Values &values, const Digest &value, Codec codec) {
  const auto found = values.find(value);
  if (found == values.end()) return nullptr;
  for (const CodecCost &cost : found->second->codecs)
    if (cost.codec == codec) return &cost;
  return nullptr;
}

double plain_bytes(const graph::Graph &graph, const graph::Cut &cut, bool pixels) {
  return static_cast<double>(pixels ? element_count(graph.input().shape) : cut.bytes);
}

} // namespace

void CodecRules::check() const {
  if (only && !allows(*only))
    throw UsageError(
        "the codec " + name_of(*only) +
        " changes the features; allow that with --allow-lossy, or up to an error with --max-error");
}

CodecCosts::CodecCosts(const ModelProfile &storage, const ModelProfile &compute, const CodecRules &rules)
    : storage_(values_of(storage)), compute_(values_of(compute)), rules_(rules) {}

CodecCosts::Values CodecCosts::values_of(const ModelProfile &model) {
  Values values;
  if (model.codecs)
    for (const ValueCodecs &measured : model.codecs->values) values.emplace(measured.hash, &measured);
  return values;
}

std::optional<CodedCut> CodecCosts::coded(const graph::Graph &graph, const graph::Cut &cut,
                                          Codec codec) const {
  CodedCut result;
  result.codec = codec;
  const Codec stored{codec.number, false};
  for (const graph::ValueId id : cut.values) {
    const graph::Value &value = graph.values[static_cast<std::size_t>(id)];
    const CodecCost *here = find(storage_, value.hash, codec);
    if (!here || (!codec.exact() && rules_.max_error && here->rms_error > *rules_.max_error))
      return std::nullopt;
    const CodecCost *there = find(compute_, value.hash, codec);
    const CodecCost *kept = find(there ? compute_ : storage_, value.hash, stored);
    result.bytes += here->bytes;
    result.encode += here->encode_seconds;
    result.decode += (there ? there : here)->decode_seconds;
    result.stored_bytes += kept ? kept->bytes : static_cast<double>(value.bytes());
    result.stored_decode += kept ? kept->decode_seconds : 0;
  }
  return result;
}

std::vector<CodedCut> CodecCosts::of(const graph::Graph &graph, const graph::Cut &cut, bool pixels) const {
  std::vector<CodedCut> result;
  for (const Codec codec : codec::kCodecs) {
    const bool plain = codec == (pixels ? Codec::u8 : Codec::fp32);
    if ((rules_.only && codec != *rules_.only) || !rules_.allows(codec)) continue;
    std::optional<CodedCut> measured = coded(graph, cut, codec);
    if (!measured && plain) {
      const double bytes = plain_bytes(graph, cut, pixels);
      measured = CodedCut{codec, bytes, bytes, 0, 0, 0};
    }
    if (!measured) continue;
    result.insert(plain ? result.begin() : result.end(), *measured);
  }
  return result;
}

} // namespace tl::plan
