// Credentials and endpoints: from the environment, else from the files that other programs use.
// Nothing here is ever printed: messages name the variable or the file, not the content.
#pragma once

#include "object/http.h"
#include "object/retry.h"

#include <cstdlib>
#include <string>

namespace tl::object {

/// A variable of the environment; "" when it is not set.
inline std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// How the bucket is named in a request.
enum class Addressing {
  automatic, // by host name at AWS, by path at another endpoint
  path,
  virtual_host
};

struct AwsSettings {
  std::string key, secret;
  std::string token; // of temporary credentials; "" for lasting ones
  std::string region = "us-east-1";
  std::string endpoint; // "https://host:port", without a path; "": AWS itself
  Addressing addressing = Addressing::automatic;
  std::string ca_file;
  std::string origin; // where the credentials are from, for messages: "AWS_ACCESS_KEY_ID", "~/.aws/..."
};

/// AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, else the profile AWS_PROFILE (or
/// "default") of ~/.aws/credentials and ~/.aws/config (AWS_SHARED_CREDENTIALS_FILE, AWS_CONFIG_FILE);
/// AWS_REGION, AWS_DEFAULT_REGION; AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL; AWS_CA_BUNDLE. Throws UsageError
/// saying what to set, FormatError for a file that cannot be understood.
AwsSettings load_aws_settings();

struct SwiftSettings {
  enum class Method { v1, password, application_credential } method = Method::v1;
  std::string auth_url;
  std::string user, key; // key: password or secret
  std::string user_id;   // Keystone: instead of the name and its domain
  std::string user_domain, user_domain_id;
  std::string project, project_id, project_domain, project_domain_id;
  std::string credential_id, credential_name;
  std::string region, interface = "public";
  std::string ca_file;
};

/// ST_AUTH, ST_USER, ST_KEY (tempauth v1), else OS_AUTH_URL with OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME
/// and so on, or OS_APPLICATION_CREDENTIAL_ID and _SECRET (Keystone v3). Throws UsageError saying what to
/// set.
SwiftSettings load_swift_settings();

struct SwiftToken {
  std::string token;
  std::string storage_url; // of the account, without a slash at its end
};

/// Asks the authentication server. Throws ObjectError.
SwiftToken authenticate(const HttpClient &http, const SwiftSettings &settings, const RetryPolicy &retry);

} // namespace tl::object
