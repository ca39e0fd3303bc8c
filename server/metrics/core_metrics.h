// SPDX-License-Identifier: Apache-2.0
//
// The metrics of the shards, the mailboxes, the committer and the gRPC threads.
#pragma once

#include <vector>

#include "server/metrics/registry.h"
#include "server/metrics/rpc_stats.h"
#include "server/protocol/shard_stats.h"
#include "server/runtime/commit_stats.h"
#include "server/runtime/mailbox.h"
#include "server/runtime/node.h"

namespace duetime::metrics {

// `node` may be null. It and `rpc` outlive the registry's last Collect.
void RegisterNode(const runtime::Node* node, Registry* registry);
void RegisterRpc(const RpcStats* rpc, Registry* registry);

// The parts of RegisterNode, for tests.
void AddShards(const std::vector<protocol::ShardStats>& shards, Registry::Families* out);
// One mailbox per shard; the last one is the catalog's.
void AddMailboxes(const std::vector<runtime::MailboxStats>& mailboxes, Registry::Families* out);
void AddCommit(const runtime::CommitStats& commit, Registry::Families* out);

}  // namespace duetime::metrics
