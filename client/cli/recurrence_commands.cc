// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/field_mask_util.h"

#include "client/admin_client.h"
#include "client/cli/admin_output.h"
#include "client/cli/commands.h"
#include "client/cli/show.h"

namespace duetime::cli {
namespace {

using client::AdminClient;
using google::protobuf::util::FieldMaskUtil;

ExitCode ShowRecurrence(const Settings& settings,
                        const absl::StatusOr<v1::Recurrence>& recurrence) {
  return Show(settings, recurrence,
              [&](const v1::Recurrence& answer) { return RecurrenceText(answer, settings.zone); });
}

// The server replaces template and schedule as a whole: this takes them from what is there and puts
// the changes in. The etag makes it one step.
v1::UpdateRecurrenceRequest UpdateOf(const v1::Recurrence& current,
                                     const RecurrenceUpdateArguments& arguments) {
  v1::UpdateRecurrenceRequest request;
  *request.mutable_recurrence() = current;
  FieldMaskUtil::MergeOptions replace;
  replace.set_replace_message_fields(true);
  replace.set_replace_repeated_fields(true);
  FieldMaskUtil::MergeMessageTo(arguments.changes, arguments.paths, replace,
                                request.mutable_recurrence());
  std::set<std::string> parts;
  for (const std::string& path : arguments.paths.paths()) {
    parts.insert(path.substr(0, path.find('.')));
  }
  for (const std::string& part : parts) request.mutable_update_mask()->add_paths(part);
  request.set_etag(current.etag());
  return request;
}

}  // namespace

ExitCode Run(const Settings& settings, const v1::CreateRecurrenceRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  if (request.validate_only() && !settings.json) Print("dry run, nothing is changed:\n");
  return ShowRecurrence(settings, (*client)->CreateRecurrence(request));
}

ExitCode Run(const Settings& settings, const v1::GetRecurrenceRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowRecurrence(settings, (*client)->GetRecurrence(request));
}

ExitCode Run(const Settings& settings, const ListArguments<v1::ListRecurrencesRequest>& arguments) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowPages<v1::ListRecurrencesResponse>(
      settings, arguments,
      [&](const v1::ListRecurrencesRequest& request) {
        return (*client)->ListRecurrences(request);
      },
      [](const v1::ListRecurrencesResponse& page) -> const auto& { return page.recurrences(); },
      [&](const auto& recurrences) { return RecurrenceTable(recurrences, settings.zone); });
}

ExitCode Run(const Settings& settings, const RecurrenceUpdateArguments& arguments) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  v1::GetRecurrenceRequest which;
  which.set_name(arguments.changes.name());
  const absl::StatusOr<v1::Recurrence> current = (*client)->GetRecurrence(which);
  if (!current.ok()) return Fail(settings, current.status());
  return ShowRecurrence(settings, (*client)->UpdateRecurrence(UpdateOf(*current, arguments)));
}

ExitCode Run(const Settings& settings, const v1::PauseRecurrenceRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowRecurrence(settings, (*client)->PauseRecurrence(request));
}

ExitCode Run(const Settings& settings, const v1::ResumeRecurrenceRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return ShowRecurrence(settings, (*client)->ResumeRecurrence(request));
}

ExitCode Run(const Settings& settings, const v1::DeleteRecurrenceRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->DeleteRecurrence(request),
              [&](const v1::DeleteRecurrenceResponse& response) {
                return absl::StrCat("recurrence ", request.name(), " is deleted",
                                    response.occurrence_cancelled()
                                        ? ", and the message that was pending is cancelled\n"
                                        : "; no message was pending\n");
              });
}

ExitCode Run(const Settings& settings, const v1::PreviewRecurrenceRequest& request) {
  const auto client = Connect<AdminClient>(settings);
  if (!client.ok()) return Fail(settings, client.status());
  return Show(settings, (*client)->PreviewRecurrence(request),
              [&](const v1::PreviewRecurrenceResponse& response) {
                return PreviewText(response, settings.zone);
              });
}

}  // namespace duetime::cli
