#pragma once

#include <span>
#include <string>

namespace anabranch::net {

// Where systems keep the certificates that they trust. libcurl knows only the place of the system that it was
// built on.
extern const std::span<const char* const> kCertificatePlaces;

// The first of `places` that can be read; "" if libcurl needs no help: its own file, `built_in`, can be read,
// or it looks elsewhere (null). Also "" if there are none, so that libcurl's message names its own file.
std::string certificates(const char* built_in, std::span<const char* const> places = kCertificatePlaces);

}  // namespace anabranch::net
