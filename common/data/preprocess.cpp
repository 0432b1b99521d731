#include "data/preprocess.h"

#include "cli/error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tl::data {

namespace {

// Raised whenever the same settings would give other values than before.
constexpr std::int64_t kRulesVersion = 1;
constexpr std::int64_t kMaxSide = 65536;
constexpr std::int64_t kMaxPixelsLimit = std::int64_t{1} << 31;

template <class E> struct Named {
  E value;
  const char *name;
};
constexpr Named<InputKind> kKinds[] = {
    {InputKind::image, "image"}, {InputKind::tensor, "tensor"}, {InputKind::tokens, "tokens"}};
constexpr Named<Interpolation> kInterpolations[] = {{Interpolation::nearest, "nearest"},
                                                    {Interpolation::bilinear, "bilinear"},
                                                    {Interpolation::bicubic, "bicubic"}};
constexpr Named<ExifRule> kExifRules[] = {{ExifRule::ignore, "ignore"}, {ExifRule::apply, "apply"}};

template <class E, std::size_t N> const char *name_of(const Named<E> (&table)[N], E value) {
  return std::find_if(table, table + N, [&](const auto &entry) { return entry.value == value; })->name;
}

template <class E, std::size_t N>
E value_of(const Named<E> (&table)[N], const std::string &name, const char *field) {
  std::vector<std::string> names;
  std::string list;
  for (const auto &entry : table) {
    if (name == entry.name) return entry.value;
    names.emplace_back(entry.name);
    list += (list.empty() ? "" : ", ") + names.back();
  }
  throw UsageError(std::string(field) + ": '" + name + "' is none of " + list);
}

void check_sides(const std::vector<std::int64_t> &sides, const char *field, bool one_allowed) {
  if (sides.size() > 2 || (sides.size() == 1 && !one_allowed))
    throw UsageError(std::string(field) + ": want height and width");
  for (const std::int64_t side : sides)
    if (side < 1 || side > kMaxSide)
      throw UsageError(std::string(field) + ": " + std::to_string(side) + " is not between 1 and " +
                       std::to_string(kMaxSide));
}

std::int64_t bits_of(double value) {
  std::int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

std::string short_number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string joined(const std::vector<double> &values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : "/") + short_number(value);
  return text;
}

// The JSON library converts between numbers silently; here a fraction or a bool is a mistake.
std::int64_t as_whole(const json::Value &value, const char *field) {
  if (!value.is_number_integer()) throw UsageError(std::string(field) + ": want whole numbers");
  return value.get<std::int64_t>();
}

std::vector<std::int64_t> as_sides(const json::Value &value, const char *field) {
  if (!value.is_array()) throw UsageError(std::string(field) + ": want a list");
  std::vector<std::int64_t> sides;
  for (const auto &side : value) sides.push_back(as_whole(side, field));
  return sides;
}

std::vector<double> as_numbers(const json::Value &value, const char *field) {
  if (!value.is_array()) throw UsageError(std::string(field) + ": want a list");
  std::vector<double> numbers;
  for (const auto &number : value) {
    if (!number.is_number()) throw UsageError(std::string(field) + ": want numbers");
    numbers.push_back(number.get<double>());
  }
  return numbers;
}

bool as_bool(const json::Value &value, const char *field) {
  if (!value.is_boolean()) throw UsageError(std::string(field) + ": want true or false");
  return value.get<bool>();
}

std::string as_text(const json::Value &value, const char *field) {
  if (!value.is_string()) throw UsageError(std::string(field) + ": want a string");
  return value.get<std::string>();
}

void set_field(Preprocess &p, const std::string &key, const json::Value &value) {
  const char *name = key.c_str();
  if (key == "kind")
    p.kind = value_of(kKinds, as_text(value, name), name);
  else if (key == "resize")
    p.resize = as_sides(value, name);
  else if (key == "interpolation")
    p.interpolation = value_of(kInterpolations, as_text(value, name), name);
  else if (key == "antialias")
    p.antialias = as_bool(value, name);
  else if (key == "crop")
    p.crop = as_sides(value, name);
  else if (key == "channels")
    p.channels = as_whole(value, name);
  else if (key == "scale")
    p.scale = as_bool(value, name);
  else if (key == "mean")
    p.mean = as_numbers(value, name);
  else if (key == "std")
    p.std = as_numbers(value, name);
  else if (key == "exif")
    p.exif = value_of(kExifRules, as_text(value, name), name);
  else if (key == "max_pixels")
    p.max_pixels = as_whole(value, name);
  else {
    std::vector<std::string> known;
    const json::Value fields = to_json(p);
    for (const auto &field : fields.items()) known.push_back(field.key());
    const std::string hint = json::suggestion(key, known);
    throw UsageError("there is no setting '" + key + "'" + (hint.empty() ? "" : "; " + hint));
  }
}

void add_numbers(Hasher &hasher, const char *field, const std::vector<double> &values) {
  hasher.add(field).add(static_cast<std::int64_t>(values.size()));
  for (const double value : values) hasher.add(bits_of(value));
}

void add_sides(Hasher &hasher, const char *field, const std::vector<std::int64_t> &sides) {
  hasher.add(field).add(static_cast<std::int64_t>(sides.size()));
  for (const std::int64_t side : sides) hasher.add(side);
}

} // namespace

void Preprocess::check() const {
  check_sides(resize, "resize", true);
  check_sides(crop, "crop", false);
  for (const auto &sides : {resize, crop})
    if (sides.size() == 2 && sides[0] > max_pixels / sides[1])
      throw UsageError("resize and crop: " + to_string(sides) + " is over max_pixels");
  if (channels != 1 && channels != 3)
    throw UsageError("channels: " + std::to_string(channels) + " is neither 1 nor 3");
  if (mean.size() != std.size()) throw UsageError("mean and std: want the same number of values");
  if (kind == InputKind::image && !mean.empty() && mean.size() != static_cast<std::size_t>(channels))
    throw UsageError("mean and std: " + std::to_string(mean.size()) + " values for " +
                     std::to_string(channels) + " channels");
  if (kind == InputKind::tokens && !mean.empty())
    throw UsageError("mean and std: token ids cannot be normalised");
  for (const double value : mean)
    if (!std::isfinite(value)) throw UsageError("mean: not a finite number");
  for (const double value : std)
    if (!std::isfinite(value) || !(value > 0)) throw UsageError("std: want numbers above 0");
  if (max_pixels < 1 || max_pixels > kMaxPixelsLimit)
    throw UsageError("max_pixels: " + std::to_string(max_pixels) + " is not between 1 and " +
                     std::to_string(kMaxPixelsLimit));
  if (kind != InputKind::image && (!resize.empty() || !crop.empty()))
    throw UsageError("resize and crop: only pictures can be resized; kind is " +
                     std::string(name_of(kKinds, kind)));
}

Digest Preprocess::digest() const {
  // Settings that cannot matter for these records are left out, so that they cost no new extraction.
  Hasher hasher;
  hasher.add("tl-preprocess").add(kRulesVersion).add(name_of(kKinds, kind));
  if (kind == InputKind::tokens) return hasher.digest();
  hasher.add(std::int64_t{scale});
  add_numbers(hasher, "mean", mean);
  add_numbers(hasher, "std", std);
  if (kind == InputKind::tensor) return hasher.digest();
  add_sides(hasher, "resize", resize);
  if (!resize.empty()) {
    hasher.add(name_of(kInterpolations, interpolation));
    if (interpolation != Interpolation::nearest) hasher.add(std::int64_t{antialias});
  }
  add_sides(hasher, "crop", crop);
  hasher.add(channels).add(name_of(kExifRules, exif));
  return hasher.digest();
}

Shape Preprocess::input_shape() const {
  if (kind != InputKind::image) return {};
  const auto &sides = !crop.empty() ? crop : resize;
  return sides.size() == 2 ? Shape{channels, sides[0], sides[1]} : Shape{};
}

std::string Preprocess::summary() const {
  std::string text;
  const auto item = [&](const std::string &part) { text += (text.empty() ? "" : ", ") + part; };
  if (kind == InputKind::tokens) return "token ids as they are";
  if (kind == InputKind::tensor) item("numbers as they are");
  if (kind == InputKind::image) {
    const std::string how = std::string(" (") + name_of(kInterpolations, interpolation) +
                            (antialias || interpolation == Interpolation::nearest ? ")" : ", no antialias)");
    if (exif == ExifRule::apply) item("upright by EXIF");
    if (resize.size() == 1) item("shorter side " + std::to_string(resize[0]) + how);
    if (resize.size() == 2) item("resize " + to_string(resize) + how);
    if (!crop.empty()) item("crop " + to_string(crop));
    item(channels == 3 ? "RGB" : "grey");
  }
  if (!scale) item("not scaled to [0,1]");
  if (!mean.empty()) item("mean " + joined(mean) + ", std " + joined(std));
  return text;
}

bool operator==(const Preprocess &a, const Preprocess &b) { return to_json(a) == to_json(b); }

json::Value to_json(const Preprocess &p) {
  return {{"kind", name_of(kKinds, p.kind)},
          {"resize", p.resize},
          {"interpolation", name_of(kInterpolations, p.interpolation)},
          {"antialias", p.antialias},
          {"crop", p.crop},
          {"channels", p.channels},
          {"scale", p.scale},
          {"mean", p.mean},
          {"std", p.std},
          {"exif", name_of(kExifRules, p.exif)},
          {"max_pixels", p.max_pixels}};
}

Preprocess preprocess_from_json(const json::Value &value, const std::string &origin) {
  if (!value.is_object()) throw FormatError(origin + ": preprocess: not a JSON object");
  try {
    Preprocess p;
    for (const auto &[key, field] : value.items()) set_field(p, key, field);
    p.check();
    return p;
  } catch (const UsageError &error) {
    throw FormatError(origin + ": preprocess: " + error.what());
  }
}

} // namespace tl::data
