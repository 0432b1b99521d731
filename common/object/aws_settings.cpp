// The files of the AWS command line: https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html
#include "cli/error.h"
#include "cli/io.h"
#include "cli/log.h"
#include "object/credentials.h"

#include <algorithm>
#include <filesystem>
#include <map>

namespace tl::object {

namespace {

constexpr std::size_t kMaxFile = std::size_t{1} << 20;

std::string first_of(std::initializer_list<std::string> values) {
  for (const std::string &value : values)
    if (!value.empty()) return value;
  return "";
}

std::string trimmed(const std::string &text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

using Section = std::map<std::string, std::string>; // "region", and "s3.addressing_style" of a nested one
using Sections = std::map<std::string, Section>;

/// Indented lines belong to the setting above them: `s3 =` and below it `  addressing_style = path`.
Sections parse_sections(const std::string &text, const std::string &path) {
  Sections sections;
  Section *section = nullptr;
  std::string parent;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin), content = trimmed(line);
    begin = end + 1;
    ++number;
    if (content.empty() || content[0] == '#' || content[0] == ';') continue;
    const std::string place = path + ":" + std::to_string(number) + ": ";
    if (content[0] == '[') {
      const std::size_t close = content.find(']');
      if (close == std::string::npos) throw FormatError(place + "a section's name without its ']'");
      section = &sections[trimmed(content.substr(1, close - 1))];
      parent.clear();
      continue;
    }
    const std::size_t equals = content.find('=');
    if (!section || equals == std::string::npos)
      throw FormatError(place + "neither [SECTION] nor NAME = VALUE below one");
    const bool nested = line[0] == ' ' || line[0] == '\t';
    const std::string name = trimmed(content.substr(0, equals));
    if (!nested) parent = name;
    (*section)[nested && !parent.empty() ? parent + "." + name : name] = trimmed(content.substr(equals + 1));
  }
  return sections;
}

struct File {
  std::string path;
  Sections sections;
};

File read_sections(const char *variable, const char *name) {
  File file;
  file.path = environment(variable);
  const bool chosen = !file.path.empty();
  if (!chosen) file.path = environment("HOME") + "/.aws/" + name;
  std::error_code ignored;
  if (!chosen && !std::filesystem::exists(file.path, ignored)) return file;
  file.sections = parse_sections(cli::read_file(file.path, kMaxFile), file.path);
  return file;
}

std::string value_of(const Section &section, const std::string &name) {
  const auto found = section.find(name);
  return found == section.end() ? "" : found->second;
}

/// What other programs would do with a profile and we do not.
void refuse_other_methods(const Section &profile, const std::string &name) {
  for (const char *method :
       {"credential_process", "sso_session", "sso_start_url", "role_arn", "web_identity_token_file"})
    if (profile.count(method))
      throw UsageError("profile '" + cli::printable(name) + "' gets its credentials by " + method +
                       ", which is not supported; run: eval \"$(aws configure export-credentials --profile " +
                       cli::printable(name) + " --format env)\"");
}

Addressing addressing_of(const std::string &style) {
  if (style.empty() || style == "auto") return Addressing::automatic;
  if (style == "path") return Addressing::path;
  if (style == "virtual") return Addressing::virtual_host;
  throw UsageError("s3 addressing_style '" + cli::printable(style) + "': want auto, path or virtual");
}

void check_endpoint(std::string &endpoint) {
  while (!endpoint.empty() && endpoint.back() == '/') endpoint.pop_back();
  if (endpoint.empty()) return;
  const std::size_t scheme = endpoint.find("://");
  const std::string name = endpoint.substr(0, scheme);
  if (scheme == std::string::npos || (name != "http" && name != "https"))
    throw UsageError("the endpoint of S3 must begin with https:// or http://");
  if (endpoint.find('@') != std::string::npos)
    throw UsageError("the endpoint of S3 holds a user's name or password; set AWS_ACCESS_KEY_ID and "
                     "AWS_SECRET_ACCESS_KEY instead");
  if (endpoint.find_first_of("/?#", scheme + 3) != std::string::npos)
    throw UsageError("the endpoint of S3 must be scheme, host and port only");
}

} // namespace

AwsSettings load_aws_settings() {
  const std::string chosen = environment("AWS_PROFILE"), profile = chosen.empty() ? "default" : chosen;
  File secrets = read_sections("AWS_SHARED_CREDENTIALS_FILE", "credentials");
  File config = read_sections("AWS_CONFIG_FILE", "config");
  const Section &configured = config.sections[profile == "default" ? profile : "profile " + profile];
  const Section &secret = secrets.sections[profile];
  const Section &services = config.sections["services " + value_of(configured, "services")];
  if (!chosen.empty() && configured.empty() && secret.empty())
    throw UsageError("AWS_PROFILE: there is no profile '" + cli::printable(profile) + "' in " + secrets.path +
                     " or " + config.path);

  AwsSettings settings;
  settings.key = environment("AWS_ACCESS_KEY_ID");
  settings.secret = environment("AWS_SECRET_ACCESS_KEY");
  settings.token = environment("AWS_SESSION_TOKEN");
  settings.origin = "AWS_ACCESS_KEY_ID";
  if (settings.key.empty() != settings.secret.empty())
    throw UsageError("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY belong together; set both");
  for (const File *file : {&secrets, &config}) {
    const Section &section = file == &secrets ? secret : configured;
    if (!settings.key.empty() || !section.count("aws_access_key_id")) continue;
    settings.key = value_of(section, "aws_access_key_id");
    settings.secret = value_of(section, "aws_secret_access_key");
    settings.token = value_of(section, "aws_session_token");
    settings.origin = "profile '" + profile + "' of " + file->path;
    if (settings.secret.empty()) throw FormatError(settings.origin + ": has no aws_secret_access_key");
  }
  if (settings.key.empty()) {
    refuse_other_methods(configured, profile);
    throw UsageError("no credentials for S3; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE "
                     "for a profile of " +
                     secrets.path);
  }
  settings.region = first_of({environment("AWS_REGION"), environment("AWS_DEFAULT_REGION"),
                              value_of(configured, "region"), settings.region});
  settings.endpoint =
      first_of({environment("AWS_ENDPOINT_URL_S3"), environment("AWS_ENDPOINT_URL"),
                value_of(services, "s3.endpoint_url"), value_of(configured, "s3.endpoint_url"),
                value_of(configured, "endpoint_url")});
  check_endpoint(settings.endpoint);
  settings.addressing = addressing_of(value_of(configured, "s3.addressing_style"));
  settings.ca_file = first_of({environment("AWS_CA_BUNDLE"), value_of(configured, "ca_bundle")});
  return settings;
}

} // namespace tl::object
