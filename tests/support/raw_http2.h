// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 frames, written by hand for clients that break the rules.
#pragma once

#include <cstdint>
#include <string>

namespace duetime::test {

inline constexpr uint8_t kHttp2Data = 0;
inline constexpr uint8_t kHttp2Headers = 1;
inline constexpr uint8_t kHttp2Reset = 3;
inline constexpr uint8_t kHttp2Settings = 4;
inline constexpr uint8_t kHttp2Ping = 6;
inline constexpr uint8_t kHttp2GoAway = 7;
inline constexpr uint8_t kHttp2WindowUpdate = 8;
inline constexpr uint8_t kHttp2Continuation = 9;
// Flags: of SETTINGS, of DATA, and of HEADERS.
inline constexpr uint8_t kHttp2Ack = 1;
inline constexpr uint8_t kHttp2EndStream = 1;
inline constexpr uint8_t kHttp2EndHeaders = 4;

inline std::string Http2Preface() { return "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"; }

inline std::string Http2Frame(uint8_t type, uint8_t flags, uint32_t stream,
                              const std::string& payload = "") {
  const auto byte = [](size_t value) { return static_cast<char>(value & 0xff); };
  const size_t size = payload.size();
  return std::string{byte(size >> 16),   byte(size >> 8),   byte(size),
                     byte(type),         byte(flags),       byte(stream >> 24),
                     byte(stream >> 16), byte(stream >> 8), byte(stream)} +
         payload;
}

// The beginning of a call that never sends its request.
inline std::string Http2OpenCall(uint32_t stream,
                                 const std::string& path = "/duetime.v1.Messages/Schedule") {
  // :method POST and :scheme http, from HPACK's static table; then literals.
  std::string headers = "\x83\x86";
  const auto add = [&headers](const std::string& name, const std::string& value) {
    headers += name + static_cast<char>(value.size()) + value;
  };
  add("\x04", path);
  add("\x01", "peer");
  add("\x0f\x10", "application/grpc");
  add(std::string("\x00\x02te", 4), "trailers");
  return Http2Frame(kHttp2Headers, kHttp2EndHeaders, stream, headers);
}

// A call with its request, which has at most 255 bytes.
inline std::string Http2Call(uint32_t stream, const std::string& path, const std::string& request) {
  const std::string head{0, 0, 0, 0, static_cast<char>(request.size())};
  return Http2OpenCall(stream, path) +
         Http2Frame(kHttp2Data, kHttp2EndStream, stream, head + request);
}

}  // namespace duetime::test
