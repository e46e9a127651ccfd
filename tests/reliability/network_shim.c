/* Preloaded by test_network.py: ends a process that opens a socket of the network or looks up a
   name, below Python, because native libraries could do so as well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static void forbid(void) {
  static const char message[] = "the network was used, below Python\n";
  if (write(2, message, sizeof message - 1)) {}
  _exit(97);
}

int socket(int domain, int type, int protocol) {
  if (domain == AF_INET || domain == AF_INET6) forbid();
  int (*real)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
  return real(domain, type, protocol);
}

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found) {
  (void)node, (void)service, (void)hints, (void)found;
  forbid();
  return EAI_FAIL;
}
