#include "server/http/stream.h"

#include <sys/ioctl.h>
#ifdef __linux__
#include <linux/sockios.h>
#else
#include <sys/socket.h>
#endif

namespace anabranch::server {

size_t unacknowledged_bytes(tcp::socket& socket) {
  int bytes = 0;
#ifdef __linux__
  const int failed = ::ioctl(socket.native_handle(), SIOCOUTQ, &bytes);
#else
  socklen_t size = sizeof bytes;
  const int failed = ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_NWRITE, &bytes, &size);
#endif
  return failed || bytes < 0 ? 0 : static_cast<size_t>(bytes);
}

}  // namespace anabranch::server
