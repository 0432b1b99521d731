#include "shard/shard.h"

#include "cli/log.h"
#include "cli/utf8.h"
#include "codec/numbers.h"
#include "shard/coding.h"

#include <algorithm>
#include <cstring>
#include <set>

namespace tl::shard {

namespace {

// Of one value of a record: so that no sum of bytes overflows.
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

std::string in_quotes(const std::string &bytes) { return "'" + cli::printable(bytes) + "'"; }

Shape with_rows(std::int64_t rows, const Shape &shape) {
  Shape whole{rows};
  whole.insert(whole.end(), shape.begin(), shape.end());
  return whole;
}

std::size_t row_bytes(const ValueInfo &value) {
  return static_cast<std::size_t>(element_count(value.shape)) * size_of(value.dtype);
}

std::size_t scale_bytes(const ValueInfo &value) {
  return static_cast<std::size_t>(element_count(codec::scale_shape(value.shape))) * sizeof(float);
}

void check_tensor(const Tensor &have, const std::string &what, DType dtype, const Shape &shape) {
  if (have.dtype == dtype && have.shape == shape) return;
  throw Error("shard: " + what + " is " + to_string(have.shape) + " of " + std::string(name_of(have.dtype)) +
              ", but must be " + to_string(shape) + " of " + std::string(name_of(dtype)));
}

void check_values(const ShardMeta &meta, const Shard &rows) {
  const std::size_t want = meta.ragged() ? 0 : meta.values.size();
  const bool scales = !meta.ragged() && meta.codec == "int8";
  if (rows.values.size() != want || rows.scales.size() != (scales ? want : 0))
    throw Error("shard: " + std::to_string(rows.values.size()) + " tensors for " + std::to_string(want) +
                " values");
  for (std::size_t i = 0; i < want; ++i) {
    const ValueInfo &value = meta.values[i];
    check_tensor(rows.values[i], "value " + in_quotes(value.name), value.dtype,
                 with_rows(rows.size(), value.shape));
    if (meta.scaled(value))
      check_tensor(rows.scales[i], "the scale of " + in_quotes(value.name), DType::f32,
                   with_rows(rows.size(), codec::scale_shape(value.shape)));
  }
}

void check_files(const Shard &rows, std::int64_t count) {
  const std::vector<std::int64_t> &offset = rows.file_offset;
  bool good = static_cast<std::int64_t>(offset.size()) == count + 1 && offset.front() == 0 &&
              std::is_sorted(offset.begin(), offset.end());
  good = good && rows.files.dtype == DType::u8 && rows.files.shape == Shape{offset.back()};
  if (!good)
    throw Error("shard: file offsets do not divide the files' bytes into " + std::to_string(count) + " rows");
}

} // namespace

std::string_view name_of(Payload payload) {
  return payload == Payload::values ? "values" : payload == Payload::rows ? "rows" : "files";
}

Digest ShardMeta::key() const {
  Hasher hasher;
  hasher.add(name_of(payload)).add(codec).add(preprocess_digest);
  hasher.add(static_cast<std::int64_t>(values.size()));
  for (const ValueInfo &value : values) {
    hasher.add(value.name).add(value.hash).add(name_of(value.dtype));
    hasher.add(static_cast<std::int64_t>(value.shape.size()));
    for (const std::int64_t size : value.shape) hasher.add(size);
  }
  if (precision != "fp32") hasher.add(precision); // so that the keys of the first shards stay
  return hasher.digest();
}

void ShardMeta::check() const {
  const std::size_t least = payload == Payload::files ? 0 : 1;
  const std::size_t most = payload == Payload::values ? 1024 : least;
  if (values.size() < least || values.size() > most)
    throw Error("shard: " + std::to_string(values.size()) + " values do not fit the payload '" +
                std::string(name_of(payload)) + "'");
  std::set<std::string> names;
  for (const ValueInfo &value : values) {
    if (value.name.empty() || !cli::is_utf8(value.name) || !names.insert(value.name).second)
      throw Error("shard: the value name " + in_quotes(value.name) + " is empty, not UTF-8, or there twice");
    if (element_count(value.shape) > kMostElements)
      throw Error("shard: no record has a value of the shape " + to_string(value.shape));
  }
  std::set<std::string> known;
  for (const std::string &name : classes)
    if (!known.insert(name).second) throw Error("shard: class " + in_quotes(name) + " is there twice");
  codec::number_from_name(codec);
  if (precision != "fp32" && precision != "bf16")
    throw Error("shard: unknown precision " + in_quotes(precision));
  if (zstd && payload == Payload::files) throw Error("shard: encoded files are not compressed again");
  if (!cli::is_utf8(preprocess)) throw Error("shard: the preprocessing must be UTF-8 text");
}

std::size_t ShardMeta::row_bytes() const {
  std::size_t bytes = 0;
  for (const ValueInfo &value : values)
    bytes += shard::row_bytes(value) + (scaled(value) ? scale_bytes(value) : 0);
  return bytes;
}

std::string difference(const ShardMeta &have, const ShardMeta &want) {
  if (have.key() == want.key()) return "";
  if (have.payload != want.payload)
    return "they are " + std::string(name_of(have.payload)) + ", not " + std::string(name_of(want.payload));
  const auto names = [](const ShardMeta &meta) {
    std::string text;
    for (const ValueInfo &value : meta.values) text += (text.empty() ? "" : "+") + value.name;
    return in_quotes(text);
  };
  if (names(have) != names(want)) return "they are cut at " + names(have) + ", not at " + names(want);
  if (have.codec != want.codec) return "their codec is " + have.codec + ", not " + want.codec;
  if (have.precision != want.precision)
    return "they were computed in " + have.precision + ", not in " + want.precision;
  if (have.preprocess_digest != want.preprocess_digest) return "the preprocessing is another";
  for (std::size_t i = 0; i < have.values.size(); ++i) {
    const ValueInfo &a = have.values[i], &b = want.values[i];
    if (a.dtype != b.dtype || a.shape != b.shape)
      return "value " + in_quotes(a.name) + " is " + to_string(a.shape) + " of " +
             std::string(name_of(a.dtype)) + ", not " + to_string(b.shape) + " of " +
             std::string(name_of(b.dtype));
    if (a.hash != b.hash) return "value " + in_quotes(a.name) + " comes from other weights or another graph";
  }
  return "their key is another";
}

std::string_view Shard::file(std::int64_t i) const {
  const auto row = static_cast<std::size_t>(i);
  const auto begin = static_cast<std::size_t>(file_offset.at(row));
  const auto end = static_cast<std::size_t>(file_offset.at(row + 1));
  return {reinterpret_cast<const char *>(files.data.get()) + begin, end - begin};
}

std::size_t Shard::feature_bytes() const {
  std::size_t bytes =
      file_offset.empty() ? 0 : static_cast<std::size_t>(file_offset.back() - file_offset.front());
  for (const Tensor &value : values) bytes += value.bytes();
  for (const Tensor &scale : scales)
    if (scale.data) bytes += scale.bytes();
  return bytes;
}

void check_rows(const ShardMeta &meta, const Shard &rows) {
  const std::int64_t count = rows.size();
  const auto n = static_cast<std::size_t>(count);
  if (rows.labels.size() != n || rows.rows.size() != n || rows.ids.size() != n)
    throw Error("shard: " + std::to_string(n) + " records have " + std::to_string(rows.labels.size()) +
                " labels, " + std::to_string(rows.rows.size()) + " rows and " +
                std::to_string(rows.ids.size()) + " ids");
  check_values(meta, rows);
  if (meta.ragged()) check_files(rows, count);
  const auto classes = static_cast<std::int64_t>(meta.classes.size());
  for (std::size_t i = 0; i < n; ++i) {
    if (rows.labels[i] < -1 || rows.labels[i] >= classes)
      throw Error("shard: record " + in_quotes(rows.ids[i]) + " has label " + std::to_string(rows.labels[i]) +
                  " of " + std::to_string(classes) + " classes");
    if (rows.rows[i] < 0) throw Error("shard: record " + in_quotes(rows.ids[i]) + " has a negative row");
  }
}

Shard slice(const Shard &shard, std::int64_t begin, std::int64_t end) {
  Shard rows = slice(shard.meta, shard, begin, end);
  rows.meta = shard.meta;
  rows.number = shard.number;
  return rows;
}

Shard slice(const ShardMeta &meta, const Shard &shard, std::int64_t begin, std::int64_t end) {
  if (begin < 0 || end < begin || end > shard.size())
    throw Error("shard: no rows " + std::to_string(begin) + " to " + std::to_string(end) + " of " +
                std::to_string(shard.size()));
  const auto part = [&](const auto &column) {
    return std::decay_t<decltype(column)>(column.begin() + begin, column.begin() + end);
  };
  Shard rows;
  rows.labels = part(shard.labels);
  rows.records = part(shard.records);
  rows.rows = part(shard.rows);
  rows.ids = part(shard.ids);
  const auto view = [](const Tensor &whole, std::size_t offset, Shape shape) {
    return Tensor{whole.dtype, std::move(shape), {whole.data, whole.data.get() + offset}};
  };
  const auto first_row = static_cast<std::size_t>(begin);
  for (std::size_t i = 0; i < shard.values.size(); ++i) {
    const ValueInfo &value = meta.values[i];
    rows.values.push_back(
        view(shard.values[i], first_row * row_bytes(value), with_rows(end - begin, value.shape)));
    if (shard.scales.empty()) continue;
    rows.scales.push_back(meta.scaled(value) ? view(shard.scales[i], first_row * scale_bytes(value),
                                                    with_rows(end - begin, codec::scale_shape(value.shape)))
                                             : Tensor());
  }
  if (meta.ragged()) {
    const std::int64_t first = shard.file_offset[static_cast<std::size_t>(begin)];
    for (std::int64_t i = begin; i <= end; ++i)
      rows.file_offset.push_back(shard.file_offset[static_cast<std::size_t>(i)] - first);
    rows.files = view(shard.files, static_cast<std::size_t>(first), {rows.file_offset.back()});
  }
  return rows;
}

namespace {

void gather_files(const std::vector<RowRef> &rows, Shard &out) {
  out.file_offset.push_back(0);
  for (const RowRef &ref : rows)
    out.file_offset.push_back(out.file_offset.back() +
                              static_cast<std::int64_t>(ref.shard->file(ref.row).size()));
  out.files = Tensor::empty(DType::u8, {out.file_offset.back()});
  std::byte *to = out.files.data.get();
  for (const RowRef &ref : rows) {
    const std::string_view file = ref.shard->file(ref.row);
    if (!file.empty()) std::memcpy(to, file.data(), file.size());
    to += file.size();
  }
}

/// Where the next row of each part of a row goes: of each value, and of its scales if it has some.
struct Target {
  std::byte *to;
  std::size_t bytes;
};

std::vector<Target> make_values(const ShardMeta &meta, std::int64_t count, Shard &out) {
  std::vector<Target> targets;
  for (const ValueInfo &value : meta.values) {
    out.values.push_back(Tensor::empty(value.dtype, with_rows(count, value.shape)));
    targets.push_back({out.values.back().data.get(), row_bytes(value)});
    if (meta.codec != "int8") continue;
    out.scales.emplace_back();
    if (!meta.scaled(value)) continue;
    out.scales.back() = Tensor::empty(DType::f32, with_rows(count, codec::scale_shape(value.shape)));
    targets.push_back({out.scales.back().data.get(), scale_bytes(value)});
  }
  return targets;
}

void copy_row(const ShardMeta &meta, const RowRef &ref, const std::vector<Target> &targets) {
  std::size_t part = 0;
  const auto copy = [&](const Tensor &column) {
    const Target &target = targets[part++];
    std::memcpy(target.to, column.data.get() + static_cast<std::size_t>(ref.row) * target.bytes,
                target.bytes);
  };
  for (std::size_t v = 0; v < meta.values.size(); ++v) {
    copy(ref.shard->values.at(v));
    if (meta.scaled(meta.values[v])) copy(ref.shard->scales.at(v));
  }
}

void gather_values(const ShardMeta &meta, const std::vector<RowRef> &rows, Shard &out) {
  codec::FrameCoder coder = frame_coder(meta);
  // Frames say how long their rows are; all of them before memory is asked for.
  for (const RowRef &ref : rows)
    if (!ref.shard->file_offset.empty()) coder.check(ref.shard->file(ref.row));
  std::vector<Target> targets = make_values(meta, static_cast<std::int64_t>(rows.size()), out);
  std::vector<std::byte *> places(targets.size());
  for (const RowRef &ref : rows) {
    if (ref.shard->file_offset.empty()) {
      copy_row(meta, ref, targets);
    } else {
      for (std::size_t i = 0; i < targets.size(); ++i) places[i] = targets[i].to;
      coder.decompress(ref.shard->file(ref.row), places);
    }
    for (Target &target : targets) target.to += target.bytes;
  }
}

} // namespace

Shard gather(const ShardMeta &meta, const std::vector<RowRef> &rows) {
  Shard out;
  out.meta = meta;
  for (const RowRef &ref : rows) {
    const auto row = static_cast<std::size_t>(ref.row);
    out.labels.push_back(ref.shard->labels.at(row));
    out.records.push_back(ref.shard->records.at(row));
    out.rows.push_back(ref.shard->rows.at(row));
    out.ids.push_back(ref.shard->ids.at(row));
  }
  if (meta.ragged())
    gather_files(rows, out);
  else
    gather_values(meta, rows, out);
  return out;
}

} // namespace tl::shard
