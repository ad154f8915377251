#include "net/certificates.h"

#include <unistd.h>

namespace anabranch::net {
namespace {

constexpr const char* kPlaces[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Fedora, RHEL
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // the file that the one above links to
    "/etc/ssl/ca-bundle.pem",                             // openSUSE
    "/etc/ssl/cert.pem",
};

bool can_read(const char* path) {
  return access(path, R_OK) == 0;
}

}  // namespace

const std::span<const char* const> kCertificatePlaces = kPlaces;

std::string certificates(const char* built_in, std::span<const char* const> places) {
  if (!built_in || can_read(built_in)) return "";
  for (const char* place : places)
    if (can_read(place)) return place;
  return "";
}

}  // namespace anabranch::net
