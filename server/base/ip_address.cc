// SPDX-License-Identifier: Apache-2.0
#include "server/base/ip_address.h"

#include <arpa/inet.h>

namespace duetime::base {

bool IsLoopback(const std::string& address) {
  in_addr four{};
  if (inet_pton(AF_INET, address.c_str(), &four) == 1) return ntohl(four.s_addr) >> 24 == 127;
  in6_addr six{};
  return inet_pton(AF_INET6, address.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}

}  // namespace duetime::base
