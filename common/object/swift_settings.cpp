// The variables of the swift and openstack command lines, and what their servers answer.
// Keystone: https://docs.openstack.org/api-ref/identity/v3/#authentication-and-token-management
#include "cli/error.h"
#include "cli/log.h"
#include "object/credentials.h"
#include "object/store.h"
#include "json/document.h"

#include <functional>

namespace tl::object {

namespace {

std::string needed(const char *name, const std::string &why) {
  std::string value = environment(name);
  if (value.empty()) throw UsageError(std::string(name) + " is not set, but " + why);
  return value;
}

std::string without_slash(std::string url) {
  while (!url.empty() && url.back() == '/') url.pop_back();
  return url;
}

SwiftSettings v1_settings() {
  SwiftSettings settings;
  settings.auth_url = environment("ST_AUTH");
  settings.user = needed("ST_USER", "ST_AUTH is");
  settings.key = needed("ST_KEY", "ST_AUTH is");
  return settings;
}

void set_application_credential(SwiftSettings &settings) {
  settings.method = SwiftSettings::Method::application_credential;
  settings.credential_id = environment("OS_APPLICATION_CREDENTIAL_ID");
  settings.credential_name = environment("OS_APPLICATION_CREDENTIAL_NAME");
  settings.key = needed("OS_APPLICATION_CREDENTIAL_SECRET", "an application credential is named");
}

SwiftSettings keystone_settings() {
  SwiftSettings settings;
  settings.auth_url = without_slash(environment("OS_AUTH_URL"));
  const std::string version = environment("OS_IDENTITY_API_VERSION");
  if (!version.empty() && version[0] != '3')
    throw UsageError("OS_IDENTITY_API_VERSION: only version 3 of Keystone's interface is supported");
  if (settings.auth_url.size() < 3 || settings.auth_url.compare(settings.auth_url.size() - 3, 3, "/v3") != 0)
    settings.auth_url += "/v3";
  const auto either = [](const char *name, const char *other) {
    const std::string value = environment(name);
    return value.empty() ? environment(other) : value;
  };
  settings.user = environment("OS_USERNAME");
  settings.user_id = environment("OS_USER_ID");
  settings.user_domain = either("OS_USER_DOMAIN_NAME", "OS_DEFAULT_DOMAIN");
  settings.user_domain_id = environment("OS_USER_DOMAIN_ID");
  settings.project = either("OS_PROJECT_NAME", "OS_TENANT_NAME");
  settings.project_id = either("OS_PROJECT_ID", "OS_TENANT_ID");
  settings.project_domain = either("OS_PROJECT_DOMAIN_NAME", "OS_DEFAULT_DOMAIN");
  settings.project_domain_id = environment("OS_PROJECT_DOMAIN_ID");
  settings.region = environment("OS_REGION_NAME");
  const std::string interface = either("OS_INTERFACE", "OS_ENDPOINT_TYPE");
  if (!interface.empty()) settings.interface = interface.substr(0, interface.find("URL")); // "publicURL"
  settings.ca_file = environment("OS_CACERT");
  if (!either("OS_APPLICATION_CREDENTIAL_ID", "OS_APPLICATION_CREDENTIAL_NAME").empty()) {
    set_application_credential(settings);
    return settings;
  }
  settings.method = SwiftSettings::Method::password;
  if (settings.user_id.empty()) needed("OS_USERNAME", "OS_AUTH_URL is");
  settings.key = needed("OS_PASSWORD", "OS_AUTH_URL is");
  if (settings.project_id.empty()) needed("OS_PROJECT_NAME", "a token is for one project");
  return settings;
}

json::Value domain(const std::string &id, const std::string &name) {
  if (!id.empty()) return {{"id", id}};
  if (!name.empty()) return {{"name", name}};
  return {{"id", "default"}};
}

json::Value keystone_user(const SwiftSettings &settings) {
  if (!settings.user_id.empty()) return {{"id", settings.user_id}};
  return {{"name", settings.user}, {"domain", domain(settings.user_domain_id, settings.user_domain)}};
}

json::Value keystone_request(const SwiftSettings &settings) {
  json::Value auth;
  if (settings.method == SwiftSettings::Method::application_credential) {
    json::Value credential = {{"secret", settings.key}};
    if (!settings.credential_id.empty()) {
      credential["id"] = settings.credential_id;
    } else {
      credential["name"] = settings.credential_name;
      credential["user"] = keystone_user(settings);
    }
    auth["identity"] = {{"methods", {"application_credential"}}, {"application_credential", credential}};
  } else {
    json::Value user = keystone_user(settings);
    user["password"] = settings.key;
    auth["identity"] = {{"methods", {"password"}}, {"password", {{"user", user}}}};
    json::Value project;
    if (!settings.project_id.empty())
      project["id"] = settings.project_id;
    else
      project = {{"name", settings.project},
                 {"domain", domain(settings.project_domain_id, settings.project_domain)}};
    auth["scope"] = {{"project", project}};
  }
  return {{"auth", auth}};
}

std::string text_of(const json::Value &object, const char *name) {
  const auto found = object.is_object() ? object.find(name) : object.end();
  return object.is_object() && found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

json::Value member(const json::Value &object, const char *name) {
  return object.is_object() && object.contains(name) ? object.at(name) : json::Value();
}

/// The object store's URL in the catalogue of services that comes with a token.
std::string storage_url(const json::Value &answer, const SwiftSettings &settings) {
  for (const json::Value &service : member(member(answer, "token"), "catalog")) {
    if (text_of(service, "type") != "object-store") continue;
    for (const json::Value &endpoint : member(service, "endpoints")) {
      const std::string region = text_of(endpoint, "region_id");
      if (text_of(endpoint, "interface") != settings.interface) continue;
      if (!settings.region.empty() && region != settings.region &&
          text_of(endpoint, "region") != settings.region)
        continue;
      return text_of(endpoint, "url");
    }
  }
  throw ObjectError(ObjectError::Kind::failed,
                    settings.auth_url + ": its catalogue has no object store with the interface " +
                        settings.interface +
                        (settings.region.empty() ? "" : " in region " + cli::printable(settings.region)) +
                        "; check OS_REGION_NAME and OS_INTERFACE");
}

/// Tries until there is an answer that says something.
Response ask(const HttpClient &http, const Request &request, const RetryPolicy &policy) {
  Retry retry(policy);
  for (;;) {
    Response response = http.exchange(request);
    const bool again =
        response.failure.empty() ? response.status == 429 || response.status >= 500 : response.transient;
    if (!again || !retry.wait(response.retry_after)) return response;
  }
}

[[noreturn]] void refuse(const SwiftSettings &settings, const Response &response) {
  const bool v1 = settings.method == SwiftSettings::Method::v1;
  const std::string place = cli::printable(settings.auth_url) + ": ";
  if (!response.failure.empty())
    throw ObjectError(ObjectError::Kind::failed, place + "cannot authenticate: " + response.failure +
                                                     (v1 ? "; check ST_AUTH" : "; check OS_AUTH_URL"));
  std::string todo;
  if (response.status == 401 || response.status == 403)
    todo = v1 ? "; check ST_USER and ST_KEY"
           : settings.method == SwiftSettings::Method::password
               ? "; check OS_USERNAME, OS_PASSWORD, OS_PROJECT_NAME and their domains"
               : "; check OS_APPLICATION_CREDENTIAL_ID and OS_APPLICATION_CREDENTIAL_SECRET";
  else if (response.status < 500)
    todo = v1 ? "; is ST_AUTH the address of a Swift authentication (v1) server?"
              : "; is OS_AUTH_URL the address of a Keystone server?";
  throw ObjectError(ObjectError::Kind::failed,
                    place + "authentication refused: HTTP " + std::to_string(response.status) + todo);
}

} // namespace

SwiftSettings load_swift_settings() {
  SwiftSettings settings;
  if (!environment("ST_AUTH").empty())
    settings = v1_settings();
  else if (!environment("OS_AUTH_URL").empty())
    settings = keystone_settings();
  else
    throw UsageError(std::string("no credentials for Swift; set ST_AUTH, ST_USER and ST_KEY, or OS_AUTH_URL, "
                                 "OS_USERNAME, OS_PASSWORD and OS_PROJECT_NAME") +
                     (environment("OS_CLOUD").empty() ? "" : " (OS_CLOUD and clouds.yaml are not read)"));
  if (settings.auth_url.find('@') != std::string::npos)
    throw UsageError(
        "the address of the authentication server holds a user's name or password; set it apart");
  return settings;
}

SwiftToken authenticate(const HttpClient &http, const SwiftSettings &settings, const RetryPolicy &retry) {
  Request request;
  SwiftToken token;
  if (settings.method == SwiftSettings::Method::v1) {
    request.url = settings.auth_url;
    request.headers = {"X-Auth-User: " + settings.user, "X-Auth-Key: " + settings.key};
    const Response response = ask(http, request, retry);
    token = {response.header("x-auth-token"), without_slash(response.header("x-storage-url"))};
    if (!response.success()) refuse(settings, response);
  } else {
    const std::string body = json::compact(keystone_request(settings));
    request.method = "POST";
    request.url = settings.auth_url + "/auth/tokens";
    request.headers = {"Content-Type: application/json", "Accept: application/json"};
    request.body = body;
    const Response response = ask(http, request, retry);
    if (!response.success()) refuse(settings, response);
    token = {response.header("x-subject-token"),
             without_slash(storage_url(json::parse(response.body, settings.auth_url), settings))};
  }
  if (token.token.empty() || token.storage_url.empty())
    throw ObjectError(ObjectError::Kind::failed, cli::printable(settings.auth_url) +
                                                     ": the answer holds no token or no storage URL; is it "
                                                     "the address of an authentication server?");
  return token;
}

} // namespace tl::object
