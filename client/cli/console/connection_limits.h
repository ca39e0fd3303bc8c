// SPDX-License-Identifier: Apache-2.0
//
// Bounds on what the connections of a console may use. The HTTP library has none for the size of a
// head, the time of a whole request, and the number of connections that wait.
#pragma once

#include <httplib.h>
#include <openssl/ssl.h>

namespace duetime::cli {

// Closes a connection of this context that sends more than 64 KiB before AllowBody, takes longer
// than 15 s to send its request, or longer than 90 s for request and answer. Requires that one
// thread serves a connection from its beginning to its end, as httplib does.
void LimitConnections(SSL_CTX* context);

// Call when the head of a request is good: the connection of this thread may now send a body.
void AllowBody();

// Makes the threads of a server: 32 connections run, 32 wait, and further ones wait in the kernel.
httplib::TaskQueue* NewTaskQueue();

}  // namespace duetime::cli
